// One step of the engine. Everything that can fail happens before sequences change: blocks are
// copied, the forward runs and all tokens are drawn, then the step is applied.
#include "rollout/engine.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "core/trace.h"
#include "rollout/batch_builder.h"
#include "rollout/engine_setup.h"
#include "rollout/request_check.h"
#include "rollout/sampler.h"
#include "rollout/scheduler.h"
#include "text/tokenizer.h"

namespace rl {
namespace {

// The number in [0, 1) that draws the token of a position.
double draw_number(const Request& r, uint32_t slot, uint32_t position) {
  if (r.own_seed >= 0) {
    return uniform({static_cast<uint64_t>(r.own_seed), RngPurpose::kRequest}, 0, slot, position);
  }
  const uint32_t of_run = r.purpose == Purpose::kTrain ? RngPurpose::kSampling : RngPurpose::kEval;
  return uniform({r.seed, r.bare ? RngPurpose::kRequest : of_run}, r.ordinal, slot, position);
}

// From here on the request's own stop ids are all that end it.
void add_stops(Request& request, std::span<const int32_t> ids) {
  request.stop_token_ids.insert(request.stop_token_ids.end(), ids.begin(), ids.end());
}

// Where logits were not finite.
struct NonFinite {
  uint64_t ordinal;
  uint32_t slot;
  size_t position;
};

bool contains(std::span<const int32_t> ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

struct Engine::Impl {
  Impl(const Model& model, const EngineOptions& given, const KvPool& kv, std::byte* workspace,
       const Tokenizer* tokenizer, const Tracer* tracer)
      : model(model),
        options(resolve_options(given, model, kv)),
        kv(kv),
        plan(plan_workspace(model, options)),
        forward_buffers(model.config(), kv.shape, options.max_num_batched_tokens, num_workers(),
                        workspace + plan.forward),
        head(model.config(), model.compute_dtype(), head_rows(options), false,
             workspace + plan.head),
        swap_pool{kv.shape, workspace + plan.swap, options.swap_blocks},
        blocks(kv.num_blocks, model.block_size(), options.prefix_caching),
        swap(options.swap_blocks),
        scheduler({options.max_num_seqs, options.max_num_batched_tokens, options.prefill_chunk,
                   options.chunked_prefill, watermark_blocks(options)},
                  blocks, swap),
        weights(&model.published()),
        builder(options.max_num_batched_tokens, options.max_num_seqs),
        sampler(model.config().vocab, num_workers()),
        tokenizer(tokenizer),
        tracer(tracer) {
    RL_CHECK(workspace != nullptr);
    version = weights->version();
    choices.reserve(static_cast<size_t>(options.max_num_seqs));
    scales.reserve(static_cast<size_t>(head.max_rows));
  }

  int num_workers() const { return model.matmul().executor().num_threads(); }
  uint64_t submit(const Request& request);
  bool step();
  void run_forward(const Schedule& schedule);
  void move_blocks(const Schedule& schedule);
  void draw_tokens();
  void draw_chunk(size_t first_row, size_t rows, size_t first_draw, size_t draws);
  TokenChoice draw(const DrawTarget& target, int64_t row, int worker);
  void make_room_for_results();
  void apply();
  void append(const DrawTarget& target, const TokenChoice& choice, int64_t now_ns);
  void prime_stop(Sequence& sequence);
  bool match_stop(Sequence& sequence, int32_t id);
  FinishReason finish_reason(Sequence& sequence);
  void end(Sequence& sequence, FinishReason reason, int64_t now_ns);
  void end_nonfinite(Sequence& sequence, int64_t now_ns);
  void abort(ActiveRequest& active, int64_t now_ns);
  void count(const Schedule& schedule, int64_t elapsed_ns);

  const Model& model;
  const EngineOptions options;
  const KvPool kv;
  const EngineWorkspace plan;
  ForwardBuffers forward_buffers;
  HeadBuffers head;
  const KvPool swap_pool;
  KvBlocks blocks;
  SwapSpace swap;
  Scheduler scheduler;
  uint64_t next_number = 0;
  const ComputeCopy* weights;  // of the step under way, or of the last one
  uint64_t version = 0;        // that blocks were computed with
  BatchBuilder builder;
  Sampler sampler;
  const Tokenizer* tokenizer;
  const Tracer* tracer;
  std::vector<TokenChoice> choices;  // of builder.draws()
  std::vector<float> scales;         // of the rows in the head
  std::vector<SamplePtr> finished;
  std::vector<NonFinite> nonfinite;
  EngineStats stats;
};

uint64_t Engine::Impl::submit(const Request& request) {
  check_request(request, {.vocab = model.config().vocab,
                          .max_model_len = options.max_model_len,
                          .block_size = model.block_size(),
                          .num_blocks = kv.num_blocks,
                          .has_tokenizer = tokenizer != nullptr,
                          .eos_ids = model.config().eos_ids,
                          .policy = options.policy});
  sampler.prepare(request.sampling, request.min_new_tokens > 0);
  auto active = make_active(request, next_number, options.policy);
  active->submitted_ns = real_clock().now_ns();
  if (!request.ignore_eos) add_stops(active->request, model.config().eos_ids);
  if (request.resume) prime_stop(active->sequences.front());
  scheduler.submit(std::move(active));
  return next_number++;
}

// A stop string may have begun in the last tokens that the model wrote before.
void Engine::Impl::prime_stop(Sequence& sequence) {
  const Request& request = sequence.request->request;
  const Sample& sample = *request.resume;
  for (auto i = static_cast<size_t>(answer_begin(sample)); i < sample.ids.size(); ++i) {
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
  if (scheduler.rests()) return false;
  const int64_t start_ns = real_clock().now_ns();
  weights = &model.published();
  if (version != weights->version()) {
    scheduler.forget_computed();
    version = weights->version();
  }
  const Schedule& schedule = scheduler.next();
  ScopedSpan span(tracer, schedule.prefill_rows > 0 ? "engine.prefill" : "engine.decode",
                  options.trace_lane);
  span.set_arg("rows", schedule.num_rows());
  run_forward(schedule);
  draw_tokens();
  make_room_for_results();
  scheduler.advance();
  apply();
  count(schedule, real_clock().now_ns() - start_ns);
  return true;
}

void Engine::Impl::run_forward(const Schedule& schedule) {
  move_blocks(schedule);
  builder.build(schedule);
  const int64_t start_ns = real_clock().now_ns();
  ForwardBatch batch = builder.batch();
  batch.weights = weights;
  forward(model, batch, kv, forward_buffers, nullptr);
  stats.model_ns += real_clock().now_ns() - start_ns;
}

void Engine::Impl::move_blocks(const Schedule& schedule) {
  for (const BlockTransfer& t : schedule.transfers) {
    const bool out = t.kind == BlockTransfer::Kind::kSwapOut;
    const bool in = t.kind == BlockTransfer::Kind::kSwapIn;
    copy_block(in ? swap_pool : kv, t.from, out ? swap_pool : kv, t.to);
  }
}

// The head runs over at most max_rows logits rows at a time; draws stand in order of their rows.
void Engine::Impl::draw_tokens() {
  const auto draws = builder.draws();
  const size_t num_rows = builder.logits_rows().size();
  choices.assign(draws.size(), {});
  size_t first_draw = 0;
  for (size_t row = 0; row < num_rows; row += static_cast<size_t>(head.max_rows)) {
    const size_t rows = std::min(static_cast<size_t>(head.max_rows), num_rows - row);
    size_t end_draw = first_draw;
    while (end_draw < draws.size() &&
           static_cast<size_t>(draws[end_draw].logits_index) < row + rows) {
      ++end_draw;
    }
    draw_chunk(row, rows, first_draw, end_draw - first_draw);
    first_draw = end_draw;
  }
}

void Engine::Impl::draw_chunk(size_t first_row, size_t rows, size_t first_draw, size_t draws) {
  const auto targets = builder.draws().subspan(first_draw, draws);
  scales.resize(rows);
  for (const DrawTarget& t : targets) {
    scales[static_cast<size_t>(t.logits_index) - first_row] =
        inv_temperature(t.sequence->request->request.sampling);
  }
  gather_rows(model, forward_buffers.hidden, builder.logits_rows().subspan(first_row, rows), head);
  const int64_t start_ns = real_clock().now_ns();
  head_forward(model, *weights, scales, head);
  stats.model_ns += real_clock().now_ns() - start_ns;
  const auto base = static_cast<int64_t>(first_row);
  model.matmul().executor().parallel_for(static_cast<int64_t>(draws), [&](int64_t i, int worker) {
    const DrawTarget& target = targets[static_cast<size_t>(i)];
    choices[first_draw + static_cast<size_t>(i)] = draw(target, target.logits_index - base, worker);
  });
}

TokenChoice Engine::Impl::draw(const DrawTarget& target, int64_t row, int worker) {
  const Request& request = target.sequence->request->request;
  const Sample& sample = *target.sequence->sample;
  const auto position = static_cast<uint32_t>(sample.ids.size());
  const double u = draw_number(request, sample.slot, position);
  const int64_t generated = target.sequence->answer_tokens();
  std::span<const int32_t> forbidden;
  if (generated < request.min_new_tokens) forbidden = request.stop_token_ids;
  return sampler.choose(
      head, row,
      {request.sampling, sample.ids, static_cast<size_t>(generated), forbidden, u}, worker);
}

// The last thing that can fail in a step: every draw may end its sample.
void Engine::Impl::make_room_for_results() {
  const auto reserve = [&](auto& results) {
    const size_t needed = results.size() + builder.draws().size();
    if (results.capacity() < needed) results.reserve(std::max(needed, 2 * results.capacity()));
  };
  reserve(finished);
  reserve(nonfinite);
}

void Engine::Impl::apply() {
  const auto draws = builder.draws();
  const int64_t now_ns = real_clock().now_ns();
  for (size_t i = 0; i < draws.size(); ++i) append(draws[i], choices[i], now_ns);
  scheduler.drop_finished();
}

void Engine::Impl::append(const DrawTarget& target, const TokenChoice& choice, int64_t now_ns) {
  Sequence& sequence = *target.sequence;
  if (!choice.finite) return end_nonfinite(sequence, now_ns);
  Sample& sample = *sequence.sample;
  if (sample.generated() == 0) sample.first_token_ns = now_ns;
  sample.ids.push_back(choice.id);
  sample.logprobs.push_back(choice.logprob);
  sample.logprobs_sampled.push_back(choice.logprob_sampled);
  sample.versions.push_back(version);
  sample.loss_mask.push_back(1);
  const auto top = static_cast<ptrdiff_t>(sample.num_top);
  sample.top_ids.insert(sample.top_ids.end(), choice.top_ids.begin(),
                        choice.top_ids.begin() + top);
  sample.top_logprobs.insert(sample.top_logprobs.end(), choice.top_logprobs.begin(),
                             choice.top_logprobs.begin() + top);
  const FinishReason reason = finish_reason(sequence);
  if (reason != FinishReason::kNone) end(sequence, reason, now_ns);
}

FinishReason Engine::Impl::finish_reason(Sequence& sequence) {
  const Request& request = sequence.request->request;
  const int32_t id = sequence.sample->ids.back();
  if (contains(request.stop_token_ids, id)) return FinishReason::kStopToken;
  const bool matched = match_stop(sequence, id);
  if (matched && sequence.answer_tokens() > request.min_new_tokens) {
    return FinishReason::kStopString;
  }
  return sequence.length() == sequence.end ? FinishReason::kLength : FinishReason::kNone;
}

void Engine::Impl::end(Sequence& sequence, FinishReason reason, int64_t now_ns) {
  sequence.sample->finish = reason;
  sequence.sample->finished_ns = now_ns;
  finished.push_back(sequence.sample);
  scheduler.finish(sequence);
}

void Engine::Impl::end_nonfinite(Sequence& sequence, int64_t now_ns) {
  Sample& sample = *sequence.sample;
  nonfinite.push_back({sample.ordinal, sample.slot, sample.ids.size()});
  cut_back(sample, sequence.request->first_tokens());
  ++stats.nonfinite;
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

void Engine::Impl::count(const Schedule& schedule, int64_t elapsed_ns) {
  ++stats.forwards;
  stats.prefill_tokens += schedule.prefill_rows;
  stats.decode_tokens += schedule.decode_rows;
  (schedule.prefill_rows > 0 ? stats.prefill_ns : stats.decode_ns) += elapsed_ns;
}

Engine::Engine(const Model& model, const EngineOptions& options, const KvPool& kv,
               std::byte* workspace, const Tokenizer* tokenizer, const Tracer* tracer)
    : impl_(std::make_unique<Impl>(model, options, kv, workspace, tokenizer, tracer)) {}
Engine::~Engine() = default;

uint64_t Engine::submit(const Request& request) { return impl_->submit(request); }
bool Engine::step() { return impl_->step(); }

bool Engine::abort(uint64_t number) {
  const auto found = impl_->scheduler.requests().find(number);
  if (found == impl_->scheduler.requests().end()) return false;
  impl_->abort(*found->second, real_clock().now_ns());
  impl_->scheduler.drop_finished();
  return true;
}

void Engine::abort_all() {
  const int64_t now_ns = real_clock().now_ns();
  for (const auto& [number, active] : impl_->scheduler.requests()) impl_->abort(*active, now_ns);
  impl_->scheduler.drop_finished();
}

void Engine::forget_kv() { impl_->scheduler.forget_computed(); }

int64_t Engine::interrupt() {
  int64_t spared = 0, now_ns = real_clock().now_ns();
  for (const auto& [number, active] : impl_->scheduler.requests()) {
    const bool goes_on = active->was_aborted(impl_->options.max_aborts);
    if (goes_on) spared += active->unfinished;
    if (!goes_on) impl_->abort(*active, now_ns);
  }
  impl_->scheduler.drop_finished();
  return spared;
}

std::optional<uint64_t> Engine::find(uint64_t sample_id) const {
  for (const auto& [number, active] : impl_->scheduler.requests()) {
    const uint64_t index = sample_id - active->request.first_sample_id;
    const auto& all = active->sequences;
    if (index < all.size() && all[index].state != SequenceState::kFinished) return number;
  }
  return std::nullopt;
}

void Engine::set_admitting(bool on) { impl_->scheduler.set_admitting(on); }
bool Engine::rests() const { return impl_->scheduler.rests(); }
bool Engine::idle() const { return impl_->scheduler.idle(); }

// Its own vector keeps its room for the next steps.
std::vector<SamplePtr> Engine::take_finished() {
  std::vector<SamplePtr> taken = impl_->finished;
  impl_->finished.clear();
  return taken;
}

std::vector<Error> Engine::take_errors() {
  std::vector<Error> errors;
  for (const NonFinite& n : impl_->nonfinite) {
    errors.push_back(Error(Code::kNonFinite, str("the logits for position ", n.position,
                                                 " of ordinal ", n.ordinal, " slot ", n.slot,
                                                 " are not finite"))
                         .with_location(str("position ", n.position)));
  }
  impl_->nonfinite.clear();
  return errors;
}

EngineStats Engine::stats() const {
  EngineStats stats = impl_->stats;
  stats.running = impl_->scheduler.num_running();
  stats.waiting = impl_->scheduler.num_waiting();
  stats.begun = impl_->scheduler.num_begun();
  stats.blocks_in_use = impl_->blocks.pool().num_used();
  stats.blocks_total = impl_->blocks.pool().num_blocks();
  const SchedulerCounts& counts = impl_->scheduler.counts();
  stats.preemptions = counts.preemptions;
  stats.swapped_blocks = counts.swapped_blocks;
  stats.looked_up_tokens = counts.looked_up_tokens;
  stats.cached_tokens = counts.cached_tokens;
  return stats;
}

}  // namespace rl
