// Checks run from the cheapest to those that rely on earlier ones.
#include "rollout/request_check.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/encoding/unicode.h"
#include "core/error.h"
#include "data/sample_document.h"
#include "rollout/sequence.h"

namespace rl {
namespace {

constexpr int64_t kMaxPriority = 1 << 20;

void check_range(const char* key, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  throw Error(Code::kOutOfRange, str(key, " is ", value, ", outside ", low, "..", high))
      .with_key(key)
      .with_expected(str("integer ", low, "..", high));
}

const std::vector<int32_t>& first_ids(const Request& r) {
  return r.resume ? r.resume->ids : r.prompt;
}

// A sample has one temperature, which all its stored log-probs share.
void check_same_temperature(const Request& r) {
  if (r.resume->temperature == stored_temperature(r.sampling)) return;
  throw Error(Code::kInvalidArgument,
              str("sampling.temperature is ", r.sampling.temperature,
                  ", but the sample to resume was generated at ", r.resume->temperature))
      .with_key("sampling.temperature")
      .with_expected(str(r.resume->temperature));
}

// Every finished sample can be kept in a buffer, so a resumed one must be valid for it too.
void check_resume(const Request& r) {
  if (!r.prompt.empty() || r.num_samples != 1) {
    throw Error(Code::kInvalidArgument,
                str("a request that resumes a sample has a prompt of ", r.prompt.size(),
                    " tokens and ", r.num_samples, " samples, expected no prompt and one sample"))
        .with_key("request.resume")
        .with_expected("no prompt and one sample");
  }
  try {
    require_storable(*r.resume);
  } catch (const Error& e) {
    throw Error(Code::kInvalidArgument, str("the sample to resume is not complete: ", e.message))
        .with_key("request.resume")
        .with_expected("a sample as the engine returns it");
  }
  check_same_temperature(r);
  if (int64_t{r.resume->num_top} == r.sampling.top_logprobs) return;
  throw Error(Code::kInvalidArgument,
              str("sampling.logprobs is ", r.sampling.top_logprobs,
                  ", but the sample to resume has ", r.resume->num_top, " ids per token"))
      .with_key("sampling.logprobs")
      .with_expected(str(r.resume->num_top));
}

void check_start(const Request& r) {
  if (r.resume) return check_resume(r);
  if (!r.prompt.empty()) return;
  throw Error(Code::kInvalidArgument, "the prompt has no tokens")
      .with_key("request.prompt")
      .with_expected("at least one token id");
}

void check_sampling(const Request& r, int64_t vocab) {
  validate(r.sampling);
  check_range("sampling.logprobs", r.sampling.top_logprobs, 0, vocab);
  check_ids("sampling.allowed_token_ids", r.sampling.allowed_token_ids, vocab);
  std::vector<int32_t> biased;
  for (const LogitBias& b : r.sampling.logit_bias) biased.push_back(b.id);
  check_ids("sampling.logit_bias", biased, vocab);
}

// For a resumed sample the request knows only the tokens to come.
void check_min_tokens(const Request& r) {
  check_range("sampling.min_new_tokens", r.min_new_tokens, 0, std::numeric_limits<int64_t>::max());
  if (r.resume || r.min_new_tokens <= r.max_new_tokens) return;
  throw Error(Code::kConflict, str("sampling.min_new_tokens ", r.min_new_tokens,
                                   " exceeds sampling.max_new_tokens ", r.max_new_tokens))
      .with_key("sampling.min_new_tokens")
      .with_expected(str("at most sampling.max_new_tokens, ", r.max_new_tokens));
}

// While stop ids are forbidden, another id must be left to sample.
void check_candidates(const Request& r, const RequestLimits& limits) {
  if (r.min_new_tokens == 0) return;
  std::vector<int32_t> stops = r.stop_token_ids;
  if (!r.ignore_eos) stops.insert(stops.end(), limits.eos_ids.begin(), limits.eos_ids.end());
  const auto may_go_on = [&](int32_t id) {
    return std::find(stops.begin(), stops.end(), id) == stops.end();
  };
  const std::vector<int32_t>& allowed = r.sampling.allowed_token_ids;
  if (std::any_of(allowed.begin(), allowed.end(), may_go_on)) return;
  for (int32_t id = 0; allowed.empty() && id < limits.vocab; ++id) {
    if (may_go_on(id)) return;
  }
  throw Error(Code::kConflict, str("sampling.min_new_tokens is ", r.min_new_tokens,
                                   ", but every token that may be sampled is a stop id"))
      .with_key("sampling.min_new_tokens")
      .with_expected("an id that may be sampled and is not a stop id, or 0");
}

// The tokens alone may exceed the limit, so the sum is never formed before both fit.
void check_length(const Request& r, int64_t max_model_len) {
  const auto tokens = static_cast<int64_t>(first_ids(r).size());
  if (tokens <= max_model_len && r.max_new_tokens <= max_model_len - tokens) return;
  const char* const what =
      r.resume ? "sequence" : "prompt";  // a resumed one has more than a prompt
  throw Error(Code::kOutOfRange,
              str("a ", what, " of ", tokens, " tokens and sampling.max_new_tokens ",
                  r.max_new_tokens, " together exceed engine.max_model_len ", max_model_len))
      .with_key("sampling.max_new_tokens")
      .with_expected(str(what, " + max_new_tokens at most ", max_model_len));
}

void check_priority(const Request& r, SchedulingPolicy policy) {
  check_range("request.priority", r.priority, -kMaxPriority, kMaxPriority);
  if (r.priority == 0 || policy == SchedulingPolicy::kPriority) return;
  throw Error(Code::kConflict, str("request.priority is ", r.priority,
                                   " but engine.scheduling_policy is fcfs, which has none"))
      .with_key("request.priority")
      .with_other_key("engine.scheduling_policy")
      .with_expected("0, or engine.scheduling_policy = priority");
}

void check_stop_strings(const Request& r, bool has_tokenizer) {
  if (!r.stop_strings.empty() && !has_tokenizer) {
    throw Error(Code::kFailedPrecondition,
                "sampling.stop needs a tokenizer, and this engine has none")
        .with_key("sampling.stop");
  }
  for (size_t i = 0; i < r.stop_strings.size(); ++i) {
    const std::string& stop = r.stop_strings[i];
    if (!stop.empty() && !find_broken_utf8(stop)) continue;
    throw Error(Code::kInvalidArgument,
                stop.empty() ? str("sampling.stop[", i, "] is empty")
                             : str("sampling.stop[", i, "] is not UTF-8: ", quote_text(stop)))
        .with_key("sampling.stop")
        .with_expected("text of at least one character, in UTF-8");
  }
}

void check_blocks(const Request& r, const RequestLimits& limits) {
  const int64_t positions = positions_needed(r);
  const int64_t needed = positions / limits.block_size + (positions % limits.block_size ? 1 : 0);
  if (needed <= limits.num_blocks) return;
  throw Error(
      Code::kResourceExhausted,
      str("a sample of ", first_ids(r).size(), r.resume ? " tokens and " : " prompt tokens and ",
          r.max_new_tokens, " new tokens needs ", needed, " KV blocks of ", limits.block_size,
          " tokens; the pool has ", limits.num_blocks))
      .with_key("sampling.max_new_tokens")
      .with_expected(str("at most ", limits.num_blocks, " KV blocks"));
}

void check_watermark(double share) {
  if (share >= 0 && share < 1) return;
  throw Error(Code::kOutOfRange, str("engine.kv_watermark is ", share, ", outside [0, 1)"))
      .with_key("engine.kv_watermark")
      .with_expected("number in [0, 1)");
}

// A prompt that is never split must fit one step, even when recomputed with all its tokens.
void check_unchunked(const EngineOptions& o, int64_t longest) {
  if (o.chunked_prefill) return;
  if (o.prefill_chunk > 0) {
    throw Error(Code::kConflict,
                str("engine.chunked_prefill is off, but engine.prefill_chunk is ", o.prefill_chunk))
        .with_key("engine.chunked_prefill")
        .with_expected("engine.prefill_chunk 0");
  }
  if (o.max_num_batched_tokens >= longest) return;
  throw Error(Code::kConflict,
              str("engine.chunked_prefill is off, but engine.max_num_batched_tokens ",
                  o.max_num_batched_tokens, " is below engine.max_model_len ", longest))
      .with_key("engine.chunked_prefill")
      .with_expected(str("engine.max_num_batched_tokens of at least ", longest));
}

}  // namespace

void check_ids(const char* key, std::span<const int32_t> ids, int64_t vocab) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab) continue;
    throw Error(Code::kOutOfRange, str(key, "[", i, "] is token id ", ids[i],
                                       ", outside the vocabulary of ", vocab, " ids"))
        .with_key(key)
        .with_expected(str("integer 0..", vocab - 1))
        .with_location(str(key, "[", i, "]"));
  }
}

void check_engine_options(const EngineOptions& options, int64_t max_positions) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  check_range("engine.max_num_seqs", options.max_num_seqs, 1, kMost);
  check_range("engine.max_num_batched_tokens", options.max_num_batched_tokens, 1, kMost);
  check_range("engine.prefill_chunk", options.prefill_chunk, 0, kMost);
  check_range("engine.max_model_len", options.max_model_len, 0, max_positions);
  check_range("engine.swap_blocks", options.swap_blocks, 0, kMost);
  check_range("pipeline.partial_rollout_max_aborts", options.max_aborts, 0, kMost);
  check_watermark(options.kv_watermark);
  check_unchunked(options, options.max_model_len ? options.max_model_len : max_positions);
  if (options.max_num_batched_tokens >= options.max_num_seqs) return;
  throw Error(Code::kConflict, str("engine.max_num_batched_tokens ", options.max_num_batched_tokens,
                                   " is below engine.max_num_seqs ", options.max_num_seqs,
                                   ", so not every running sequence could get a token per step"))
      .with_key("engine.max_num_batched_tokens")
      .with_expected(str("at least engine.max_num_seqs, ", options.max_num_seqs));
}

void check_request(const Request& r, const RequestLimits& limits) {
  check_start(r);
  check_range("request.num_samples", r.num_samples, 1, static_cast<int64_t>(kMaxGroupSamples));
  check_priority(r, limits.policy);
  check_range("sampling.max_new_tokens", r.max_new_tokens, 1, std::numeric_limits<int64_t>::max());
  check_length(r, limits.max_model_len);
  check_ids(r.resume ? "request.resume.ids" : "request.prompt", first_ids(r), limits.vocab);
  check_ids("sampling.stop_token_ids", r.stop_token_ids, limits.vocab);
  check_sampling(r, limits.vocab);
  check_min_tokens(r);
  check_candidates(r, limits);
  check_stop_strings(r, limits.has_tokenizer);
  check_blocks(r, limits);
}

}  // namespace rl
