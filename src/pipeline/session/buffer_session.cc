#include "pipeline/session/buffer_session.h"

#include <utility>

#include "buffer/directory_store.h"
#include "buffer/store_producer.h"
#include "core/error.h"
#include "pipeline/plan/role_check.h"

namespace rl {

namespace {

void refuse_lease(int64_t lease_ns) {
  if (lease_ns == 0) return;
  throw Error(Code::kConflict,
              str("buffer.store_lease_ns is ", lease_ns, ", but the buffer has no store"))
      .with_key("buffer.store_lease_ns")
      .with_other_key("buffer.store_path")
      .with_expected("0");
}

}  // namespace

BufferSession::BufferSession(const Settings& settings, int64_t capacity,
                             std::shared_ptr<ExperienceStore> store)
    : needs_scores_(is_rl(settings.algo.objective)),
      buffer_(attempts_per_prompt(settings), capacity, needs_scores_),
      options_(settings.set),
      compression_level_(static_cast<int>(settings.buffer.compression_level)),
      newest_first_(settings.buffer.policy == BufferPolicy::kNewest),
      max_staleness_(settings.buffer.max_staleness),
      store_(std::move(store)) {
  if (!settings.buffer.spill_path.empty()) {
    const GroupSpill::Rules rules{settings.buffer.num_storage_units, compression_level_};
    spill_ = std::make_unique<GroupSpill>(real_fs(), settings.buffer.spill_path, rules);
    buffer_.spill_to(*spill_);
  }
  const std::string& dir = settings.buffer.store_path;
  if (store_ != nullptr && spill_ != nullptr) {
    throw Error(Code::kConflict, str("buffer.spill_path is ", settings.buffer.spill_path,
                                     ", but groups wait in the store of the host"))
        .with_key("buffer.spill_path")
        .with_other_key("store");
  }
  if (store_ != nullptr && !dir.empty()) {
    throw Error(Code::kConflict,
                str("buffer.store_path is ", dir, ", but the host has a store of its own"))
        .with_key("buffer.store_path")
        .with_other_key("store");
  }
  if (!dir.empty()) {
    store_ = std::make_shared<DirectoryStore>([this] { return files(); }, dir,
                                              settings.buffer.num_storage_units);
  }
  if (store_ == nullptr) {
    refuse_lease(settings.buffer.store_lease_ns);
    return;
  }
  require_lease_length(settings.buffer.store_lease_ns);
  consumer_ = std::make_unique<StoreConsumer>(store_, buffer_.group_size(), capacity, needs_scores_,
                                              settings.buffer.store_lease_ns);
}

std::shared_ptr<FileSystem> BufferSession::files() const {
  const std::lock_guard lock(mutex_);
  if (runtime_ == nullptr) return {std::shared_ptr<void>(), &real_fs()};
  return {runtime_, &runtime_->fs()};
}

StoreConsumer& BufferSession::consumer() const {
  if (consumer_ != nullptr) return *consumer_;
  throw Error(
      Code::kUnsupported,
      "the buffer has no store: groups that are taken are gone, and no step is acknowledged")
      .with_key("buffer.store_path");
}

void BufferSession::refuse_with_store(const char* operation) const {
  if (store_ == nullptr) return;
  throw Error(Code::kUnsupported, str("a buffer with a store cannot ", operation))
      .with_key("buffer.store_path");
}

void BufferSession::deliver(std::span<const SamplePtr> samples) {
  if (store_ == nullptr) return;
  try {
    deliver_groups(buffer_, *store_);
  } catch (...) {
    buffer_.take_back(samples);
    throw;
  }
}

void BufferSession::put(SamplePtr sample) {
  buffer_.put(sample);
  deliver({&sample, 1});
}

void BufferSession::put_all(std::vector<SamplePtr> samples, std::string_view name) {
  buffer_.put_all(samples, name);
  deliver(samples);
}

std::vector<SamplePtr> BufferSession::take(const Wanted& wanted) {
  const auto behind = static_cast<uint64_t>(max_staleness_);
  const bool ages = max_staleness_ >= 0 && wanted.version > behind;
  const TakeRule rule{.min_groups = wanted.min_groups,
                      .max_groups = wanted.max_groups,
                      .newest_first = newest_first_,
                      .min_version = ages ? wanted.version - behind : 0};
  if (consumer_ != nullptr) return consumer_->take(rule, wanted.step, wanted.timeout_ns);
  return buffer_.take(rule, wanted.timeout_ns);
}

int64_t BufferSession::drop(const DropRule& rule) {
  return buffer_.drop(rule) + (consumer_ != nullptr ? consumer_->drop(rule) : 0);
}

void BufferSession::close() {
  buffer_.close();
  if (consumer_ != nullptr) consumer_->close();
}

void BufferSession::set_queue(std::shared_ptr<EventQueue> queue, uint64_t source) {
  refuse_with_store("send events of groups, which wait in the store");
  events_.set_queue(std::move(queue), source);
  buffer_.observe(events_);
}

void BufferSession::save(const std::string& path, const LoadedModel* model,
                         bool replace_existing) const {
  refuse_with_store("be saved: its groups are in the store");
  BufferInfo info{
      .options_identity = options_.identity(), .options = options_.dump(true), .model = {}};
  if (model != nullptr) info.model = model->identity();
  save_buffer(*files(), path, buffer_, std::move(info),
              {.compression_level = compression_level_, .replace_existing = replace_existing});
}

int64_t BufferSession::load(const std::string& path, const LoadedModel* model) {
  const std::shared_ptr<FileSystem> fs = files();
  ModelIdentity identity;
  if (model != nullptr) identity = model->identity();
  const ModelIdentity* const start = model != nullptr ? &identity : nullptr;
  if (store_ == nullptr) return load_buffer(*fs, path, buffer_, start);
  ExperienceBuffer loaded(buffer_.group_size(), buffer_.capacity(), needs_scores_);
  const int64_t count = load_buffer(*fs, path, loaded, start);
  std::vector<SamplePtr> samples;
  loaded.visit([&](const Group& group) {
    samples.insert(samples.end(), group.samples.begin(), group.samples.end());
  });
  put_all(std::move(samples), path);
  return count;
}

BufferInfo BufferSession::file_info(const std::string& path, Runtime* runtime) {
  return BufferFileReader(runtime != nullptr ? runtime->fs() : real_fs(), path).info();
}

BufferSession::Counts BufferSession::counts() const {
  Counts sum{buffer_.counts()};
  sum.spilled = buffer_.num_spilled();
  if (consumer_ == nullptr) return sum;
  const BufferCounts claimed = consumer_->buffer_counts();
  sum.stored = sum.taken;
  sum.held += claimed.held;
  sum.groups += claimed.groups;
  sum.whole_groups += claimed.whole_groups;
  sum.put += claimed.put;
  sum.taken = claimed.taken;
  sum.dropped += claimed.dropped;
  sum.stale += claimed.stale;
  sum.store = consumer_->counts();
  return sum;
}

}  // namespace rl
