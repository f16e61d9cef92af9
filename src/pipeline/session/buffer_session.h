// The experience buffer as the host drives it: samples generated here or elsewhere collect into
// groups of pipeline.samples_per_prompt (one more with remax; given responses alone or in pairs),
// and are saved to files and loaded. Thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "buffer/buffer_file.h"
#include "buffer/experience_buffer.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/session/loaded_model.h"

namespace rl {

class BufferSession {
 public:
  BufferSession(const Settings& settings, int64_t capacity)
      : buffer_(attempts_per_prompt(settings), capacity, is_rl(settings.algo.objective)),
        options_identity_(settings.set.identity()),
        options_(settings.set.dump(true)),
        compression_level_(static_cast<int>(settings.buffer.compression_level)) {}

  void put(SamplePtr sample) { buffer_.put(std::move(sample)); }
  // All or none; an error names the sample as "name[i]".
  void put_all(std::vector<SamplePtr> samples, std::string_view name) {
    buffer_.put_all(std::move(samples), name);
  }
  std::vector<SamplePtr> take(int64_t max_groups) { return buffer_.take(max_groups); }

  // model, which may be null, is what training on the samples starts from (buffer_file.h).
  void save(const std::string& path, const LoadedModel* model, bool replace_existing) const {
    BufferInfo info{.options_identity = options_identity_, .options = options_, .model = {}};
    if (model != nullptr) info.model = model->identity();
    save_buffer(real_fs(), path, buffer_, std::move(info),
                {.compression_level = compression_level_, .replace_existing = replace_existing});
  }
  // model: the file must be for its weights; null skips the check. Returns the number of samples
  // added.
  int64_t load(const std::string& path, const LoadedModel* model) {
    if (model == nullptr) return load_buffer(real_fs(), path, buffer_, nullptr);
    const ModelIdentity identity = model->identity();
    return load_buffer(real_fs(), path, buffer_, &identity);
  }
  static BufferInfo file_info(const std::string& path) {
    return BufferFileReader(real_fs(), path).info();
  }

  int64_t num_samples() const { return buffer_.num_samples(); }
  int64_t num_whole_groups() const { return buffer_.num_whole_groups(); }

 private:
  ExperienceBuffer buffer_;
  const uint64_t options_identity_;
  const std::string options_;
  const int compression_level_;
};

}  // namespace rl
