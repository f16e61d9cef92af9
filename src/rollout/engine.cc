// One step of the engine. Everything that can fail happens before sequences change: blocks are
// copied, the forward runs and all tokens are sampled, then the step is applied.
#include "rollout/engine.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "ops/compute.h"
#include "rollout/engine_impl.h"
#include "rollout/request_check.h"
#include "rollout/sample_edit.h"
#include "text/tokenizer.h"

namespace rl {
namespace {

// The number in [0, 1) that samples the token of a position.
double uniform_number(const Request& r, uint32_t slot, uint32_t position) {
  if (r.own_seed >= 0) {
    return uniform({static_cast<uint64_t>(r.own_seed), RngPurpose::kRequest}, 0, slot, position);
  }
  const uint32_t of_run = r.purpose == Purpose::kTrain ? RngPurpose::kSampling : RngPurpose::kEval;
  return uniform({r.seed, r.bare ? RngPurpose::kRequest : of_run}, r.ordinal, slot, position);
}

// From here on the request's own stop ids are the only ones that end it.
void add_stops(Request& request, std::span<const int32_t> ids) {
  request.stop_token_ids.insert(request.stop_token_ids.end(), ids.begin(), ids.end());
}

bool contains(std::span<const int32_t> ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

uint64_t Engine::Impl::submit(const Request& request) {
  check_request(request, {.vocab = model.config().vocab,
                          .max_model_len = options.max_model_len,
                          .block_size = model.block_size(),
                          .num_blocks = kv.num_blocks,
                          .has_tokenizer = tokenizer != nullptr,
                          .eos_ids = model.config().eos_ids,
                          .policy = options.policy});
  auto active = make_active(request, next_number, options.policy);
  active->submitted_ns = clock.now_ns();
  if (!request.ignore_eos) add_stops(active->request, model.config().eos_ids);
  if (request.resume) prime_stop(active->sequences.front());
  const int64_t now_ns = active->submitted_ns;
  scheduler.submit(std::move(active));
  if (!scheduler.nothing_runnable()) meter.begin_work(now_ns);
  return next_number++;
}

// A stop string may have begun in the last tokens that the model generated before.
void Engine::Impl::prime_stop(Sequence& sequence) {
  const Request& request = sequence.request->request;
  const Sample& sample = *request.resume;
  for (auto i = static_cast<size_t>(response_begin(sample)); i < sample.ids.size(); ++i) {
    match_stop(sequence, sample.ids[i]);
  }
}

bool Engine::Impl::match_stop(Sequence& sequence, int32_t id) {
  const std::vector<std::string>& strings = sequence.request->request.stop_strings;
  if (strings.empty()) return false;
  if (tokenizer->has_token(id)) return sequence.stop.feed(tokenizer->token_bytes(id), strings);
  sequence.stop.interrupt();
  return false;
}

bool Engine::Impl::step() {
  if (scheduler.nothing_runnable()) return false;
  const int64_t start_ns = clock.now_ns();
  meter.begin_work(start_ns);
  const WeightPin pin = model.pin();
  weights = &pin.weights();
  if (release != weights->release()) take_version();
  const StepSchedule& schedule = scheduler.next();
  note_admitted(start_ns);
  ScopedSpan span(tracer, schedule.prefill_rows > 0 ? "engine.prefill" : "engine.decode",
                  options.trace_lane);
  span.set_arg("rows", schedule.num_rows());
  run_forward(schedule);
  sample_tokens();
  measure_prompts(schedule);
  make_room_for_results();
  scheduler.advance();
  apply();
  meter.forward(schedule, clock.now_ns() - start_ns);
  settle();
  return true;
}

void Engine::Impl::take_version() {
  if (options.keep_kv) {
    scheduler.keep_computed();
  } else {
    scheduler.forget_computed();
  }
  version = weights->version();
  release = weights->release();
}

void Engine::Impl::note_admitted(int64_t now_ns) {
  meter.used_blocks(blocks.pool().num_used());
  lanes.scheduled(scheduler.running(), now_ns);
  for (Sequence* s : scheduler.running()) {
    if (s->admitted) continue;
    s->admitted = true;
    s->waits_since_ns = -1;
    s->sample->admitted_ns = now_ns;
    meter.admitted(now_ns - s->sample->submitted_ns);
  }
}

void Engine::Impl::settle() { meter.settle(scheduler, blocks, clock.now_ns()); }

void Engine::Impl::run_forward(const StepSchedule& schedule) {
  move_blocks(schedule);
  builder.build(schedule);
  const int64_t start_ns = clock.now_ns();
  ForwardBatch batch = builder.batch();
  batch.weights = weights;
  forward(model, batch, kv, forward_buffers, nullptr);
  meter.computed(clock.now_ns() - start_ns);
}

void Engine::Impl::move_blocks(const StepSchedule& schedule) {
  for (const BlockTransfer& t : schedule.transfers) {
    const bool out = t.kind == BlockTransfer::Kind::kSwapOut;
    const bool in = t.kind == BlockTransfer::Kind::kSwapIn;
    copy_block(model.compute(), {in ? swap_pool : kv, t.from}, {out ? swap_pool : kv, t.to});
  }
}

// The head runs over at most max_rows logits rows at a time; targets are in order of their rows.
void Engine::Impl::sample_tokens() {
  const auto sample_targets = builder.sample_targets();
  const size_t num_rows = builder.logits_rows().size();
  choices.assign(sample_targets.size(), {});
  size_t first_target = 0;
  for (size_t row = 0; row < num_rows; row += static_cast<size_t>(head.max_rows)) {
    const size_t rows = std::min(static_cast<size_t>(head.max_rows), num_rows - row);
    size_t end_target = first_target;
    while (end_target < sample_targets.size() &&
           static_cast<size_t>(sample_targets[end_target].logits_index) < row + rows) {
      ++end_target;
    }
    if (model.config().has_head()) sample_chunk(row, rows, first_target, end_target - first_target);
    first_target = end_target;
  }
  model.stage_ranks().share(std::span(choices));
}

void Engine::Impl::sample_chunk(size_t first_row, size_t rows, size_t first_target, size_t count) {
  const auto targets = builder.sample_targets().subspan(first_target, count);
  scales.resize(rows);
  for (const SampleTarget& t : targets) {
    scales[static_cast<size_t>(t.logits_index) - first_row] =
        inv_temperature(t.sequence->request->request.sampling);
  }
  gather_rows(model, forward_buffers.hidden, builder.logits_rows().subspan(first_row, rows), head);
  const int64_t start_ns = clock.now_ns();
  head_forward(model, *weights, scales, head);
  meter.computed(clock.now_ns() - start_ns);
  sample_rows.clear();
  for (const SampleTarget& t : targets) {
    sample_rows.push_back(sample_row(t, t.logits_index - static_cast<int64_t>(first_row)));
  }
  sample_from_head(model, head, sample_rows, sampling_scratch,
                   std::span(choices).subspan(first_target, count));
}

// The head runs a second time, over rows of prompts.
void Engine::Impl::measure_prompts(const StepSchedule& schedule) {
  int64_t first_row = 0;
  for (const ScheduledRows& rows : schedule.rows) {
    if (rows.sequence->request->measures_prompt()) measure_prompt(rows, first_row);
    first_row += rows.rows;
  }
}

// Row p of a sequence has the log-probs of token p + 1.
void Engine::Impl::measure_prompt(const ScheduledRows& rows, int64_t first_row) {
  const Sequence& s = *rows.sequence;
  ActiveRequest& active = *s.request;
  const Sample& sample = *s.sample;
  const int64_t begin = s.computed, last = sample.prompt_tokens - 1;
  const int64_t end = std::min(begin + rows.rows, last);
  for (int64_t at = begin; model.config().has_head() && at < end; at += head.max_rows) {
    const auto count = static_cast<size_t>(std::min(head.max_rows, end - at));
    prompt_rows.resize(count);
    std::iota(prompt_rows.begin(), prompt_rows.end(), static_cast<int32_t>(first_row + at - begin));
    scales.assign(count, inv_temperature(active.request.sampling));
    const auto next = static_cast<size_t>(at) + 1;
    const int64_t start_ns = clock.now_ns();
    gather_rows(model, forward_buffers.hidden, prompt_rows, head);
    head_forward(model, *weights, scales, head);
    head_scores(model, head, std::span(sample.ids).subspan(next, count),
                {std::span(*active.prompt_logprobs).subspan(next, count), {}});
    meter.computed(clock.now_ns() - start_ns);
  }
  if (begin < end) {
    const auto count = static_cast<size_t>(end - begin);
    model.stage_ranks().share(
        std::span(*active.prompt_logprobs).subspan(static_cast<size_t>(begin) + 1, count));
  }
  active.prompt_measured = begin + rows.rows >= last;
}

SampleRow Engine::Impl::sample_row(const SampleTarget& target, int64_t row) const {
  const Request& request = target.sequence->request->request;
  const Sample& sample = *target.sequence->sample;
  const auto position = static_cast<uint32_t>(sample.ids.size());
  const double u = uniform_number(request, sample.slot, position);
  const int64_t generated = target.sequence->response_tokens();
  std::span<const int32_t> forbidden;
  if (generated < request.min_new_tokens) forbidden = request.stop_token_ids;
  return {row,
          &request.sampling,
          u,
          sample.ids,
          static_cast<size_t>(generated),
          forbidden,
          request.sampling.top_logprobs};
}

// The last thing that can fail in a step: every sampled token may end its sample.
void Engine::Impl::make_room_for_results() {
  const auto reserve = [&](auto& results) {
    const size_t needed = results.size() + builder.sample_targets().size();
    if (results.capacity() < needed) results.reserve(std::max(needed, 2 * results.capacity()));
  };
  reserve(finished);
  reserve(nonfinite);
}

void Engine::Impl::apply() {
  const auto sample_targets = builder.sample_targets();
  const int64_t now_ns = clock.now_ns();
  for (size_t i = 0; i < sample_targets.size(); ++i) append(sample_targets[i], choices[i], now_ns);
  scheduler.drop_finished();
}

void Engine::Impl::append(const SampleTarget& target, const TokenChoice& choice, int64_t now_ns) {
  Sequence& sequence = *target.sequence;
  if (!choice.finite) return end_nonfinite(sequence, now_ns);
  Sample& sample = *sequence.sample;
  if (sequence.length() == sequence.request->first_tokens()) {
    sample.first_token_ns = now_ns;
    meter.sampled_first_token(now_ns - sample.submitted_ns);
  }
  const bool mixed_kv = sequence.kept > 0;
  append_sampled(sample, choice, version, mixed_kv);
  meter.sampled_token(mixed_kv);
  lanes.sampled_token(sequence, now_ns);
  const FinishReason reason = finish_reason(sequence);
  if (reason != FinishReason::kNone) end(sequence, reason, now_ns);
}

FinishReason Engine::Impl::finish_reason(Sequence& sequence) {
  const Request& request = sequence.request->request;
  const int32_t id = sequence.sample->ids.back();
  if (contains(request.stop_token_ids, id)) return FinishReason::kStopToken;
  const bool matched = match_stop(sequence, id);
  if (matched && sequence.response_tokens() > request.min_new_tokens) {
    return FinishReason::kStopString;
  }
  return sequence.length() == sequence.end ? FinishReason::kLength : FinishReason::kNone;
}

void Engine::Impl::end(Sequence& sequence, FinishReason reason, int64_t now_ns) {
  sequence.sample->finish = reason;
  sequence.sample->finished_ns = now_ns;
  sequence.sample->preemptions += sequence.preemptions;
  const ActiveRequest& active = *sequence.request;
  if (active.prompt_measured) sequence.sample->prompt_logprobs = active.prompt_logprobs;
  meter.finished(reason == FinishReason::kAborted);
  lanes.ended(sequence, now_ns);
  finished.push_back(sequence.sample);
  scheduler.finish(sequence);
}

void Engine::Impl::end_nonfinite(Sequence& sequence, int64_t now_ns) {
  Sample& sample = *sequence.sample;
  nonfinite.push_back({sample.ordinal, sample.slot, sample.ids.size()});
  cut_back(sample, sequence.request->first_tokens());
  meter.nonfinite();
  end(sequence, FinishReason::kAborted, now_ns);
}

void Engine::Impl::abort(ActiveRequest& active, int64_t now_ns) {
  for (Sequence& sequence : active.sequences) {
    if (sequence.state == SequenceState::kFinished) continue;
    if (!sequence.sample) sequence.sample = make_sample(sequence);
    end(sequence, FinishReason::kAborted, now_ns);
    ++sequence.sample->num_aborts;
  }
}

}  // namespace rl
