// One row of prompts: {"messages": [...]} with what else belongs to a chat (text/chat_request.h),
// {"prompt": text} or {"ids": [...]}, and an optional "tag" that is handed back unread. For sft a
// row has an answer beside them, "response", for pairs two, "chosen" and "rejected": a text or a
// list of ids. Read strictly: any other key, a missing or second kind of prompt, a missing or
// surplus answer, or a wrong type is an error naming file:line and what is wrong.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algo/losses/objective.h"
#include "pipeline/session/loaded_model.h"
#include "text/chat_request.h"

namespace rl {

struct RowAnswer {
  std::string field;
  bool is_text = false;
  std::string text;
  std::vector<int64_t> ids;
};

struct PromptRow {
  enum class Kind : uint8_t { kMessages, kText, kIds };
  Kind kind = Kind::kIds;
  ChatRequest chat;
  std::string text;
  std::vector<int64_t> ids;
  std::string tag;
  std::vector<RowAnswer> answers;  // of response, chosen and rejected those that are there
};

// location is "file:line"; a broken text gets the column added.
PromptRow parse_prompt_row(std::string_view json, const std::string& location);

// A row as engine and trainer take it.
struct Prompt {
  std::vector<int32_t> ids;
  std::vector<int32_t> stop_ids;  // that end an answer in this format, beside the usual ones
  std::string tag;
  int64_t data_row = -1;
  // Of sft one, of pairs the chosen and the rejected one.
  std::vector<std::vector<int32_t>> answers = {};
};

struct PromptLimits {
  int64_t max_new_tokens = 0;
  int64_t max_model_len = 0;
  Objective objective = Objective::kRl;  // says which answers the row has
};
// Encodes the row. Errors name location: ids outside the vocabulary, text that the tokenizer cannot
// express, answers that the objective does not read or misses, and a prompt that is longer than
// max_model_len with max_new_tokens or, where answers are given, with one of them.
Prompt make_prompt(const PromptRow& row, const LoadedModel& model, const PromptLimits& limits,
                   const std::string& location);

}  // namespace rl
