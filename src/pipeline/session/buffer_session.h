// The experience buffer as the host drives it: samples generated here or elsewhere collect into
// groups of pipeline.samples_per_prompt (one more with remax; given responses alone or in pairs),
// are taken by buffer.policy and buffer.max_staleness, and are saved to files and loaded. With a
// store, complete groups go there, and are taken from there. Thread-safe.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/batch_bytes.h"
#include "buffer/buffer_file.h"
#include "buffer/experience_buffer.h"
#include "buffer/experience_store.h"
#include "buffer/group_spill.h"
#include "buffer/store_consumer.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/session/buffer_events.h"
#include "pipeline/session/loaded_model.h"
#include "pipeline/session/runtime.h"

namespace rl {

class BufferSession {
 public:
  // store: of the host; null: that of buffer.store_path, if it is set.
  BufferSession(const Settings& settings, int64_t capacity,
                std::shared_ptr<ExperienceStore> store = nullptr);

  void put(SamplePtr sample);
  // All or none; an error names the sample as "name[i]". With a store: those that are not stored
  // are not here either.
  void put_all(std::vector<SamplePtr> samples, std::string_view name);
  struct Wanted {
    int64_t min_groups = 1, max_groups = std::numeric_limits<int64_t>::max();
    uint64_t version = 0;    // of the weights that are to be trained
    uint64_t step = 0;       // that trains on them; only read with a store
    int64_t timeout_ns = 0;  // of the wait for min_groups
  };
  // Complete groups. Empty if they do not come in time, or once the buffer is closed.
  std::vector<SamplePtr> take(const Wanted& wanted);
  std::vector<SamplePtr> take(int64_t max_groups) { return take({.max_groups = max_groups}); }
  // StoreConsumer's; kUnsupported without a store.
  void acknowledge(uint64_t step) { consumer().acknowledge(step); }
  void resume(uint64_t step) { consumer().resume(step); }
  int64_t drop(const DropRule& rule);
  // Ends all waits.
  void close();
  bool closed() const { return buffer_.closed(); }

  // Events of complete groups and of groups that were removed go there from now on, with this
  // number; null: nowhere. One comes at once if complete groups wait. kUnsupported with a store.
  void set_queue(std::shared_ptr<EventQueue> queue, uint64_t source);
  const OptionSet& options() const { return options_; }  // as given

  // Whose files are used; null: those of the operating system.
  void set_runtime(std::shared_ptr<Runtime> runtime) {
    const std::lock_guard lock(mutex_);
    runtime_.swap(runtime);
  }

  // model, which may be null, is what training on the samples starts from (buffer_file.h).
  // kUnsupported with a store.
  void save(const std::string& path, const LoadedModel* model, bool replace_existing) const;
  // model: the file must be for its weights; null skips the check. Returns the number of samples
  // added.
  int64_t load(const std::string& path, const LoadedModel* model);
  // What batch_bytes.h says; name stands for the bytes in errors.
  static std::string to_bytes(const std::vector<SamplePtr>& samples) {
    return encode_samples(samples);
  }
  static std::vector<SamplePtr> from_bytes(std::span<const std::byte> bytes,
                                           std::string_view name) {
    return decode_samples(bytes, name);
  }
  // runtime, whose files are read, may be null.
  static BufferInfo file_info(const std::string& path, Runtime* runtime = nullptr);

  int64_t num_samples() const { return counts().held; }
  int64_t num_whole_groups() const { return counts().whole_groups; }
  int64_t most_groups() const { return buffer_.capacity() / buffer_.group_size(); }
  struct Counts : BufferCounts {  // put = taken + dropped + stale + stored + held
    int64_t stored = 0;           // samples given to the store
    int64_t spilled = 0;          // groups that wait in files
    StoreCounts store = {};
  };
  Counts counts() const;

 private:
  std::shared_ptr<FileSystem> files() const;
  StoreConsumer& consumer() const;
  void refuse_with_store(const char* operation) const;
  // Complete groups go to the store. After an error the samples that are not stored are taken back.
  void deliver(std::span<const SamplePtr> samples);

  const bool needs_scores_;
  BufferEvents events_;                // outlives what tells it
  std::unique_ptr<GroupSpill> spill_;  // with buffer.spill_path
  ExperienceBuffer buffer_;            // with a store: of incomplete groups
  const OptionSet options_;
  const int compression_level_;
  const bool newest_first_;
  const int64_t max_staleness_;
  mutable std::mutex mutex_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<ExperienceStore> store_;   // null: groups wait in buffer_
  std::unique_ptr<StoreConsumer> consumer_;  // with a store
};

}  // namespace rl
