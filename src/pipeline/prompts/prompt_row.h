// One row of prompts: {"messages": [...]} with the other fields of a chat (text/chat_request.h),
// {"prompt": text} or {"ids": [...]}, and an optional "tag" that is returned unread. For sft a row
// also has a response, "response"; for pairs two, "chosen" and "rejected": each a text or a list
// of ids. Parsing is strict: any other key, a missing or second kind of prompt, a missing or
// surplus response, or a wrong type is an error naming file:line and what is wrong.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algo/losses/objective.h"
#include "data/sample.h"
#include "pipeline/session/loaded_model.h"
#include "text/chat_request.h"

namespace rl {

struct RowResponse {
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
  std::vector<RowResponse> responses;  // response, chosen and rejected, as far as present
};

// location is "file:line"; a syntax error gets the column added.
PromptRow parse_prompt_row(std::string_view json, const std::string& location);

// A row as engine and trainer take it.
struct Prompt {
  std::vector<int32_t> ids;
  // That end a response in this format, in addition to the usual ones.
  std::vector<int32_t> stop_ids;
  std::string tag;
  int64_t data_row = -1;
  // For sft one, for pairs the chosen and the rejected one.
  std::vector<std::vector<int32_t>> responses = {};
};

struct PromptLimits {
  int64_t max_new_tokens = 0;
  int64_t max_model_len = 0;
  Objective objective = Objective::kRl;  // determines which responses the row has
};
// Encodes the row. Errors name location: ids outside the vocabulary, text that the tokenizer
// cannot encode, responses that the objective does not read or that are missing, and a prompt that
// exceeds max_model_len together with max_new_tokens or with a given response.
Prompt make_prompt(const PromptRow& row, const LoadedModel& model, const PromptLimits& limits,
                   const std::string& location);

// The given response of a slot as a sample of a group. It has no sample id.
SamplePtr response_sample(const Prompt& prompt, uint64_t ordinal, uint32_t slot);

}  // namespace rl
