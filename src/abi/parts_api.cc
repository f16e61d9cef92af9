// Engine, buffer and batches for a host's own loop.
#include <cmath>

#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/model_parts.h"
#include "abi/samples.h"
#include "data/sample_document.h"

using namespace rl;
using namespace rl::abi;

namespace {

Request request_from_view(const EngineBox& engine, const rl_request& view) {
  const auto prompt = array_arg(view.prompt, view.num_prompt, "request.prompt");
  if (view.num_samples > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw Error(Code::kOutOfRange, str("parameter request.num_samples is ", view.num_samples,
                                       "; expected 1..", kMaxGroupSamples))
        .with_key("request.num_samples");
  }
  Request request = request_from(
      view.sampling != nullptr ? use(view.sampling, "request.sampling")->copy() : engine.settings);
  request.prompt.assign(prompt.begin(), prompt.end());
  request.num_samples = static_cast<int64_t>(view.num_samples);
  request.priority = view.priority;
  if (view.resume != nullptr) {
    request.resume = resumable_sample(input_struct(view.resume, "request.resume"));
  }
  return request;
}

rl_status status_of(EngineStep step) {
  switch (step) {
    case EngineStep::kComputed:
      return RL_OK;
    case EngineStep::kIdle:
      return RL_IDLE;
    case EngineStep::kPaused:
      return RL_PAUSED;
    case EngineStep::kTimedOut:
      return RL_TIMEOUT;
  }
  RL_CHECK(false);
}

// For a call that runs until there is nothing left to do.
rl_status status_of_whole(EngineStep end) {
  return end == EngineStep::kIdle ? RL_OK : status_of(end);
}

void fill(rl_engine_stats& out, const EngineStats& stats) {
  const auto count = [](int64_t v) { return static_cast<uint64_t>(v); };
  out.running = count(stats.running);
  out.waiting = count(stats.waiting);
  out.blocks_in_use = count(stats.blocks_in_use);
  out.blocks_total = count(stats.blocks_total);
  out.prefill_tokens = count(stats.prefill_tokens);
  out.decode_tokens = count(stats.decode_tokens);
  out.forwards = count(stats.forwards);
  out.nonfinite = count(stats.nonfinite);
  out.prefill_ns = stats.prefill_ns;
  out.decode_ns = stats.decode_ns;
  out.started = count(stats.started);
  out.blocks_peak = count(stats.blocks_peak);
  out.busy_ns = stats.busy_ns;
  out.generated_tokens = count(stats.generated_tokens);
  out.admitted = count(stats.admitted);
  out.finished = count(stats.finished);
  out.aborted = count(stats.aborted);
  out.queue_ns = stats.queue_ns;
  out.longest_queue_ns = stats.longest_queue_ns;
  out.first_tokens = count(stats.first_tokens);
  out.first_token_ns = stats.first_token_ns;
  out.longest_first_token_ns = stats.longest_first_token_ns;
  out.preemptions = count(stats.preemptions);
  out.swapped_blocks = count(stats.swapped_blocks);
  out.looked_up_tokens = count(stats.looked_up_tokens);
  out.cached_tokens = count(stats.cached_tokens);
  out.mixed_kv_tokens = count(stats.mixed_kv_tokens);
}

// Nothing before the first interval has ended.
std::optional<EngineStats> stats_over(const EngineBox& engine, int64_t replica, int32_t period) {
  if (period != RL_PERIOD_TOTAL && period != RL_PERIOD_INTERVAL) {
    refuse("period", str("is ", period, ", expected RL_PERIOD_TOTAL or RL_PERIOD_INTERVAL"));
  }
  if (replica == -1 && period == RL_PERIOD_TOTAL) return engine.stats();
  if (replica < 0 || replica >= engine.num_engines()) {
    throw Error(Code::kOutOfRange, str("parameter replica is ", replica, ", but the engine has ",
                                       engine.num_engines(), " replicas"))
        .with_key("replica");
  }
  if (period == RL_PERIOD_TOTAL) return engine.stats(replica);
  return engine.last_interval(replica);
}

// The reward and the parts that entry i of an array gives a sample.
SampleRewards rewards_from(const rl_score& score, size_t i, const Sample& sample) {
  const auto field = [&](const char* name) { return str("scores[", i, "].", name); };
  if (score.sample_id != 0 && score.sample_id != sample.id) {
    refuse(field("sample_id").c_str(),
           str("is ", score.sample_id, ", but the sample is ", sample.id));
  }
  if (score.failure != nullptr) {
    refuse(field("failure").c_str(), "is given, but a batch cannot drop a sample");
  }
  if (!std::isfinite(score.reward)) {
    throw Error(Code::kNonFinite, str("parameter ", field("reward"), " is ", score.reward))
        .with_key(field("reward"));
  }
  return {true, score.reward,
          reward_parts_arg(score.parts, score.num_parts, field("parts").c_str())};
}

void fill(rl_buffer_file_info& out, const BufferInfo& info) {
  out.step = info.step;
  out.group_size = static_cast<uint64_t>(info.group_size);
  out.max_tokens_per_device = static_cast<uint64_t>(info.max_tokens);
  out.options_identity = info.options_identity;
  if (!info.model) return;
  out.weight_version = info.model->weight_version;
  out.weight_digest = info.model->weight_digest;
  out.vocab = static_cast<uint64_t>(info.model->vocab);
  out.has_model = 1;
}

void describe_file(Runtime* runtime, const char* path, size_t path_len, rl_buffer_file_info* info) {
  const std::string file = path_arg(path, path_len, "path");
  rl_buffer_file_info& out = result_struct(info, "info");
  fill(out, BufferSession::file_info(file, runtime));
}

int64_t count_arg(uint64_t value, const char* parameter) {
  if (value >= 1 && value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return static_cast<int64_t>(value);
  }
  throw Error(Code::kOutOfRange,
              str("parameter ", parameter, " is ", value, ", expected at least 1"))
      .with_key(parameter);
}

}  // namespace

extern "C" {

size_t rl_batch_count(const rl_batch* batch) {
  const auto box = use_if_live(batch);
  return box != nullptr ? box->samples.size() : 0;
}

rl_status rl_batch_sample(const rl_batch* batch, size_t index, rl_sample_view* view,
                          rl_error** err) {
  clear_result(view);
  return guarded(err, batch, [&] {
    const auto box = use(batch, "batch");
    write_result(view, "view", [&](rl_sample_view& out) {
      check_index(index, box->samples.size());
      fill_sample(out, *box->samples[index]);
      box->with_rewards(index, [&](const SampleRewards& now) { fill_rewards(out, now); });
    });
  });
}

rl_status rl_batch_score(rl_batch* batch, size_t first, const rl_score* scores, size_t count,
                         rl_error** err) {
  return guarded(err, batch, [&] {
    const auto box = use(batch, "batch");
    const std::vector<rl_score> given = input_structs(scores, count, "scores");
    const size_t samples = box->samples.size();
    if (first > samples || count > samples - first) {
      throw Error(Code::kOutOfRange, str("parameter first is ", first, " for ", count,
                                         " scores, but the batch has ", samples, " samples"))
          .with_key("first");
    }
    std::vector<SampleRewards> made;
    for (size_t i = 0; i < count; ++i) {
      made.push_back(rewards_from(given[i], i, *box->samples[first + i]));
    }
    box->set_rewards(first, std::move(made));
  });
}

void rl_batch_release(rl_batch* batch) { drop(batch); }

void rl_request_init(rl_request* request, size_t size) {
  if (init_struct(request, size, kFirstSize<rl_request>)) request->num_samples = 1;
}

void rl_engine_stats_init(rl_engine_stats* stats, size_t size) {
  init_struct(stats, size, kFirstSize<rl_engine_stats>);
}

rl_status rl_engine_create(rl_model* model, const rl_options* options, rl_engine** out,
                           rl_error** err) {
  return create_on_model<EngineBox>(model, options, out, err);
}

void rl_engine_destroy(rl_engine* engine) {
  const auto target = destroy(engine);
  if (target == nullptr) return;
  // An rl_engine_run of another thread may still use it and then returns without requests. There
  // is no caller left to report a failure to, and the engine ends in any case.
  guarded(nullptr, nullptr, [&] { target->close(); });
}

rl_status rl_engine_submit(rl_engine* engine, const rl_request* request, uint64_t* first_sample_id,
                           rl_error** err) {
  clear(first_sample_id);
  return guarded(err, engine, [&] {
    const auto target = use(engine, "engine");
    const rl_request view = input_struct(request, "request");
    require(first_sample_id, "first_sample_id");
    *first_sample_id = target->submit(request_from_view(*target, view));
  });
}

rl_status rl_engine_step(rl_engine* engine, rl_error** err) {
  return guarded(err, engine, [&] { return status_of(use(engine, "engine")->step()); });
}

rl_status rl_engine_run(rl_engine* engine, rl_error** err) {
  return guarded(err, engine, [&] { return status_of_whole(use(engine, "engine")->run()); });
}

rl_status rl_engine_pause(rl_engine* engine, rl_error** err) {
  return guarded(err, engine, [&] { use(engine, "engine")->pause(); });
}

rl_status rl_engine_unpause(rl_engine* engine, rl_error** err) {
  return guarded(err, engine, [&] { use(engine, "engine")->unpause(); });
}

rl_status rl_engine_drain(rl_engine* engine, int64_t timeout_ns, rl_error** err) {
  return guarded(err, engine,
                 [&] { return status_of_whole(use(engine, "engine")->drain(timeout_ns)); });
}

rl_status rl_engine_take(rl_engine* engine, rl_batch** out, rl_error** err) {
  clear(out);
  return guarded(err, engine, [&]() -> rl_status {
    const auto source = use(engine, "engine");
    require(out, "out");
    Reserved<rl_batch> place;
    const auto box = std::make_shared<BatchBox>();
    box->samples = source->take_finished();
    if (box->samples.empty()) return source->idle() ? RL_IDLE : RL_WOULD_BLOCK;
    *out = place.fill(box);
    return RL_OK;
  });
}

rl_status rl_engine_abort(rl_engine* engine, uint64_t flags, uint64_t* num_spared, rl_error** err) {
  clear(num_spared);
  return guarded(err, engine, [&] {
    const auto target = use(engine, "engine");
    flags_arg(flags, RL_ABORT_SPARE, "flags");
    int64_t spared = 0;
    if ((flags & RL_ABORT_SPARE) != 0) {
      spared = target->abort_unspared();
    } else {
      target->abort_all();
    }
    if (num_spared != nullptr) *num_spared = static_cast<uint64_t>(spared);
  });
}

rl_status rl_engine_abort_request(rl_engine* engine, uint64_t sample_id, rl_error** err) {
  return guarded(err, engine, [&] { use(engine, "engine")->abort_request(sample_id); });
}

rl_status rl_engine_sleep(rl_engine* engine, int32_t level, rl_error** err) {
  return guarded(err, engine, [&] { use(engine, "engine")->sleep(level); });
}

rl_status rl_engine_wake(rl_engine* engine, rl_error** err) {
  return guarded(err, engine, [&] { use(engine, "engine")->wake(); });
}

rl_status rl_engine_get_stats(const rl_engine* engine, int64_t replica, int32_t period,
                              rl_engine_stats* stats, rl_error** err) {
  clear_result(stats);
  return guarded(err, engine, [&]() -> rl_status {
    const auto source = use(engine, "engine");
    bool known = false;
    write_result(stats, "stats", [&](rl_engine_stats& out) {
      const std::optional<EngineStats> found = stats_over(*source, replica, period);
      known = found.has_value();
      if (known) fill(out, *found);
    });
    return known ? RL_OK : RL_WOULD_BLOCK;
  });
}

rl_status rl_buffer_create(const rl_options* options, uint64_t max_samples, rl_buffer** out,
                           rl_error** err) {
  clear(out);
  return guarded(err, nullptr, [&] {
    const OptionSet set = options_or(options, OptionSet());
    const int64_t capacity = count_arg(max_samples, "max_samples");
    require(out, "out");
    *out = issue<rl_buffer>(std::make_shared<BufferSession>(set, capacity));
  });
}

void rl_buffer_destroy(rl_buffer* buffer) { destroy(buffer); }

rl_status rl_buffer_put(rl_buffer* buffer, const rl_sample_view* sample, rl_error** err) {
  return guarded(err, buffer, [&] {
    const auto target = use(buffer, "buffer");
    target->put(sample_from(input_struct(sample, "sample")));
  });
}

rl_status rl_buffer_put_batch(rl_buffer* buffer, const rl_batch* batch, rl_error** err) {
  return guarded(err, buffer, [&] {
    const auto target = use(buffer, "buffer");
    const auto box = use(batch, "batch");
    const std::vector<SampleRewards> rewards = box->rewards();
    std::vector<SamplePtr> copies;
    for (size_t i = 0; i < rewards.size(); ++i) {
      const auto& copy = copies.emplace_back(std::make_shared<Sample>(*box->samples[i]));
      copy->scored = rewards[i].scored;
      copy->reward = rewards[i].reward;
      copy->reward_parts = rewards[i].parts;
    }
    target->put_all(std::move(copies), "batch");
  });
}

rl_status rl_buffer_take(rl_buffer* buffer, uint64_t max_groups, rl_batch** out, rl_error** err) {
  clear(out);
  return guarded(err, buffer, [&]() -> rl_status {
    const auto source = use(buffer, "buffer");
    const int64_t limit = count_arg(max_groups, "max_groups");
    require(out, "out");
    Reserved<rl_batch> place;
    const auto box = std::make_shared<BatchBox>();
    box->samples = source->take(limit);
    if (box->samples.empty()) return RL_WOULD_BLOCK;
    *out = place.fill(box);
    return RL_OK;
  });
}

rl_status rl_buffer_count(const rl_buffer* buffer, uint64_t* num_samples,
                          uint64_t* num_whole_groups, rl_error** err) {
  clear(num_samples);
  clear(num_whole_groups);
  return guarded(err, buffer, [&] {
    const auto source = use(buffer, "buffer");
    require(num_samples, "num_samples");
    require(num_whole_groups, "num_whole_groups");
    *num_samples = static_cast<uint64_t>(source->num_samples());
    *num_whole_groups = static_cast<uint64_t>(source->num_whole_groups());
  });
}

rl_status rl_buffer_save(const rl_buffer* buffer, const char* path, size_t path_len,
                         const rl_model* model, uint64_t flags, rl_error** err) {
  return guarded(err, buffer, [&] {
    const auto source = use(buffer, "buffer");
    const std::string file = path_arg(path, path_len, "path");
    const auto start = model != nullptr ? use(model, "model") : nullptr;
    flags_arg(flags, RL_SAVE_REPLACE, "flags");
    source->save(file, start.get(), (flags & RL_SAVE_REPLACE) != 0);
  });
}

rl_status rl_buffer_load(rl_buffer* buffer, const char* path, size_t path_len,
                         const rl_model* model, uint64_t* num_samples, rl_error** err) {
  clear(num_samples);
  return guarded(err, buffer, [&] {
    const auto target = use(buffer, "buffer");
    const std::string file = path_arg(path, path_len, "path");
    const auto start = model != nullptr ? use(model, "model") : nullptr;
    require(num_samples, "num_samples");
    *num_samples = static_cast<uint64_t>(target->load(file, start.get()));
  });
}

void rl_buffer_file_info_init(rl_buffer_file_info* info, size_t size) {
  init_struct(info, size, sizeof(*info));
}

rl_status rl_buffer_get_file_info(const char* path, size_t path_len, rl_buffer_file_info* info,
                                  rl_error** err) {
  clear_result(info);
  return guarded(err, nullptr, [&] { describe_file(nullptr, path, path_len, info); });
}

rl_status rl_buffer_get_hosted_file_info(const rl_runtime* runtime, const char* path,
                                         size_t path_len, rl_buffer_file_info* info,
                                         rl_error** err) {
  clear_result(info);
  return guarded(err, runtime,
                 [&] { describe_file(use(runtime, "runtime").get(), path, path_len, info); });
}

}  // extern "C"
