// Buffers: samples on their way to a trainer, here and in files.
#include <algorithm>
#include <limits>

#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/host/host_service.h"
#include "abi/host/host_store.h"
#include "abi/model_parts.h"
#include "abi/samples.h"

using namespace rl;
using namespace rl::abi;

namespace {

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

[[noreturn]] void refuse_groups(const char* field, uint64_t seen, const std::string& expected) {
  throw Error(Code::kOutOfRange, str("parameter ", field, " is ", seen, ", expected ", expected))
      .with_key(field)
      .with_expected(expected);
}

// most: the groups that the buffer has room for.
BufferSession::Wanted wanted_from(const rl_take* given, int64_t timeout_ns, int64_t most) {
  BufferSession::Wanted wanted{.timeout_ns = timeout_ns};
  if (given == nullptr) return wanted;
  const rl_take take = input_struct(given, "take");
  if (take.min_groups < 1 || take.min_groups > static_cast<uint64_t>(most)) {
    refuse_groups("take.min_groups", take.min_groups, str("1..", most));
  }
  if (take.max_groups < take.min_groups) {
    refuse_groups("take.max_groups", take.max_groups, str("at least ", take.min_groups));
  }
  wanted.min_groups = static_cast<int64_t>(take.min_groups);
  wanted.max_groups = static_cast<int64_t>(std::min(take.max_groups, static_cast<uint64_t>(most)));
  wanted.version = take.version;
  wanted.step = take.step;
  return wanted;
}

DropRule rule_from(const rl_drop& drop) {
  DropRule rule;
  rule.below_version = drop.below_version;
  rule.incomplete_only = bool_arg(drop.incomplete_only, "drop.incomplete_only");
  const auto ordinals = array_arg(drop.ordinals, drop.num_ordinals, "drop.ordinals");
  if (drop.ordinals != nullptr) rule.ordinals = ordinals;
  reserved_arg(drop.reserved, "drop.reserved");
  return rule;
}

void fill(rl_buffer_stats& out, const BufferSession::Counts& counts) {
  const auto count = [](int64_t v) { return static_cast<uint64_t>(v); };
  out.samples = count(counts.held);
  out.groups = count(counts.groups);
  out.whole_groups = count(counts.whole_groups);
  out.put = count(counts.put);
  out.taken = count(counts.taken);
  out.dropped = count(counts.dropped);
  out.stale = count(counts.stale);
  out.stored = count(counts.stored);
  out.acknowledged_groups = count(counts.store.acknowledged);
  out.duplicate_groups = count(counts.store.duplicates);
  out.damaged_groups = count(counts.store.damaged);
  out.spilled_groups = count(counts.spilled);
}

rl_status create_buffer(const rl_options* options, uint64_t max_samples, const rl_store* store,
                        rl_buffer** out, rl_error** err) {
  UserData user = user_data_of(store);
  clear(out);
  return guarded(err, nullptr, [&] {
    std::shared_ptr<ExperienceStore> hosted = host_store(store, std::move(user));
    const OptionSet set = options_or(options, OptionSet());
    const int64_t capacity = count_arg(max_samples, "max_samples");
    require(out, "out");
    *out = issue<rl_buffer>(std::make_shared<BufferSession>(set, capacity, std::move(hosted)));
  });
}

}  // namespace

extern "C" {

rl_status rl_buffer_create(const rl_options* options, uint64_t max_samples, rl_buffer** out,
                           rl_error** err) {
  return create_buffer(options, max_samples, nullptr, out, err);
}

void rl_store_init(rl_store* store, size_t size) { init_struct(store, size, kFirstSize<rl_store>); }

rl_status rl_buffer_create_stored(const rl_options* options, uint64_t max_samples,
                                  const rl_store* store, rl_buffer** out, rl_error** err) {
  return create_buffer(options, max_samples, store, out, err);
}

void rl_buffer_destroy(rl_buffer* buffer) {
  const auto target = destroy(buffer);
  // An rl_buffer_take of another thread may still wait.
  if (target != nullptr) target->close();
}

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
    target->put_all(scored_copies(*box), "batch");
  });
}

void rl_take_init(rl_take* take, size_t size) {
  if (!init_struct(take, size, kFirstSize<rl_take>)) return;
  take->min_groups = 1;
  take->max_groups = UINT64_MAX;
}

rl_status rl_buffer_take(rl_buffer* buffer, const rl_take* take, int64_t timeout_ns, rl_batch** out,
                         rl_error** err) {
  clear(out);
  return guarded(err, buffer, [&]() -> rl_status {
    const auto source = use(buffer, "buffer");
    const BufferSession::Wanted wanted = wanted_from(take, timeout_ns, source->most_groups());
    require(out, "out");
    Reserved<rl_batch> place;
    const auto box = std::make_shared<BatchBox>();
    box->samples = source->take(wanted);
    if (box->samples.empty()) return source->closed() ? RL_DONE : RL_TIMEOUT;
    *out = place.fill(box);
    return RL_OK;
  });
}

rl_status rl_buffer_acknowledge(rl_buffer* buffer, uint64_t step, rl_error** err) {
  return guarded(err, buffer, [&] { use(buffer, "buffer")->acknowledge(step); });
}

rl_status rl_buffer_resume(rl_buffer* buffer, uint64_t step, rl_error** err) {
  return guarded(err, buffer, [&] { use(buffer, "buffer")->resume(step); });
}

void rl_drop_init(rl_drop* drop, size_t size) { init_struct(drop, size, kFirstSize<rl_drop>); }

rl_status rl_buffer_drop(rl_buffer* buffer, const rl_drop* drop, uint64_t* num_samples,
                         rl_error** err) {
  clear(num_samples);
  return guarded(err, buffer, [&] {
    const auto target = use(buffer, "buffer");
    const DropRule rule = drop != nullptr ? rule_from(input_struct(drop, "drop")) : DropRule{};
    const int64_t dropped = target->drop(rule);
    if (num_samples != nullptr) *num_samples = static_cast<uint64_t>(dropped);
  });
}

rl_status rl_buffer_set_queue(rl_buffer* buffer, rl_event_queue* queue, uint64_t source,
                              rl_error** err) {
  return guarded(err, buffer, [&] {
    const auto target = use(buffer, "buffer");
    target->set_queue(queue != nullptr ? use(queue, "queue") : nullptr, source);
  });
}

void rl_buffer_stats_init(rl_buffer_stats* stats, size_t size) {
  init_struct(stats, size, kFirstSize<rl_buffer_stats>);
}

rl_status rl_buffer_get_stats(const rl_buffer* buffer, rl_buffer_stats* stats, rl_error** err) {
  clear_result(stats);
  return guarded(err, buffer, [&] {
    const auto source = use(buffer, "buffer");
    write_result(stats, "stats", [&](rl_buffer_stats& out) { fill(out, source->counts()); });
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
