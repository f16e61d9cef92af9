// The experience buffer as the host drives it: samples generated here or elsewhere collect into
// groups of pipeline.samples_per_prompt (one more with remax; given responses alone or in pairs),
// are taken by buffer.policy and buffer.max_staleness, and are saved to files and loaded.
// Thread-safe.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "buffer/batch_bytes.h"
#include "buffer/buffer_file.h"
#include "buffer/experience_buffer.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/session/buffer_events.h"
#include "pipeline/session/loaded_model.h"
#include "pipeline/session/runtime.h"

namespace rl {

class BufferSession {
 public:
  BufferSession(const Settings& settings, int64_t capacity)
      : buffer_(attempts_per_prompt(settings), capacity, is_rl(settings.algo.objective)),
        options_(settings.set),
        compression_level_(static_cast<int>(settings.buffer.compression_level)),
        newest_first_(settings.buffer.policy == BufferPolicy::kNewest),
        max_staleness_(settings.buffer.max_staleness) {}

  void put(SamplePtr sample) { buffer_.put(std::move(sample)); }
  // All or none; an error names the sample as "name[i]".
  void put_all(std::vector<SamplePtr> samples, std::string_view name) {
    buffer_.put_all(std::move(samples), name);
  }
  struct Wanted {
    int64_t min_groups = 1, max_groups = std::numeric_limits<int64_t>::max();
    uint64_t version = 0;    // of the weights that are to be trained
    int64_t timeout_ns = 0;  // of the wait for min_groups
  };
  // Complete groups. Empty if they do not come in time, or once the buffer is closed.
  std::vector<SamplePtr> take(const Wanted& wanted) {
    const auto behind = static_cast<uint64_t>(max_staleness_);
    const bool ages = max_staleness_ >= 0 && wanted.version > behind;
    return buffer_.take({.min_groups = wanted.min_groups,
                         .max_groups = wanted.max_groups,
                         .newest_first = newest_first_,
                         .min_version = ages ? wanted.version - behind : 0},
                        wanted.timeout_ns);
  }
  std::vector<SamplePtr> take(int64_t max_groups) { return take({.max_groups = max_groups}); }
  int64_t drop(const DropRule& rule) { return buffer_.drop(rule); }
  // Ends all waits.
  void close() { buffer_.close(); }
  bool closed() const { return buffer_.closed(); }

  // Events of complete groups and of groups that were removed go there from now on, with this
  // number; null: nowhere. One comes at once if complete groups wait.
  void set_queue(std::shared_ptr<EventQueue> queue, uint64_t source) {
    events_.set_queue(std::move(queue), source);
    buffer_.observe(events_);
  }
  const OptionSet& options() const { return options_; }  // as given

  // Whose files save and load use; null: those of the operating system.
  void set_runtime(std::shared_ptr<Runtime> runtime) {
    const std::lock_guard lock(mutex_);
    runtime_.swap(runtime);
  }

  // model, which may be null, is what training on the samples starts from (buffer_file.h).
  void save(const std::string& path, const LoadedModel* model, bool replace_existing) const {
    BufferInfo info{
        .options_identity = options_.identity(), .options = options_.dump(true), .model = {}};
    if (model != nullptr) info.model = model->identity();
    const std::shared_ptr<Runtime> runtime = this->runtime();
    save_buffer(files_of(runtime.get()), path, buffer_, std::move(info),
                {.compression_level = compression_level_, .replace_existing = replace_existing});
  }
  // model: the file must be for its weights; null skips the check. Returns the number of samples
  // added.
  int64_t load(const std::string& path, const LoadedModel* model) {
    const std::shared_ptr<Runtime> runtime = this->runtime();
    FileSystem& fs = files_of(runtime.get());
    if (model == nullptr) return load_buffer(fs, path, buffer_, nullptr);
    const ModelIdentity identity = model->identity();
    return load_buffer(fs, path, buffer_, &identity);
  }
  // What batch_bytes.h says; name stands for the bytes in errors.
  static std::string to_bytes(const std::vector<SamplePtr>& samples) {
    return encode_samples(samples);
  }
  static std::vector<SamplePtr> from_bytes(std::span<const std::byte> bytes,
                                           std::string_view name) {
    return decode_samples(bytes, name);
  }
  // runtime, whose files are read, may be null.
  static BufferInfo file_info(const std::string& path, Runtime* runtime = nullptr) {
    return BufferFileReader(files_of(runtime), path).info();
  }

  int64_t num_samples() const { return buffer_.num_samples(); }
  int64_t num_whole_groups() const { return buffer_.num_whole_groups(); }
  int64_t most_groups() const { return buffer_.capacity() / buffer_.group_size(); }
  BufferCounts counts() const { return buffer_.counts(); }

 private:
  static FileSystem& files_of(Runtime* runtime) {
    return runtime != nullptr ? runtime->fs() : real_fs();
  }
  std::shared_ptr<Runtime> runtime() const {
    const std::lock_guard lock(mutex_);
    return runtime_;
  }

  BufferEvents events_;  // outlives what tells it
  ExperienceBuffer buffer_;
  const OptionSet options_;
  const int compression_level_;
  const bool newest_first_;
  const int64_t max_staleness_;
  mutable std::mutex mutex_;
  std::shared_ptr<Runtime> runtime_;
};

}  // namespace rl
