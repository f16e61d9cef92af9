// A file of the same step, of an earlier attempt at it, is replaced.
#include "pipeline/groups/batch_recorder.h"

#include <utility>
#include <vector>

#include "core/error.h"
#include "core/step_name.h"

namespace rl {
namespace {
constexpr std::string_view kSuffix = ".rlbuf";
}

BatchRecorder::BatchRecorder(FileSystem& fs, std::string dir, int compression_level, bool resumes)
    : fs_(fs), dir_(std::move(dir)), compression_level_(compression_level) {
  if (resumes || !fs_.is_directory(dir_)) return;
  for (const std::string& name : fs_.list(dir_)) {
    if (!step_of(name, kSuffix)) continue;
    throw Error(Code::kAlreadyExists, str("buffer.record_dir contains ", name,
                                          " of an earlier run; use another directory"))
        .with_key("buffer.record_dir")
        .with_location(str(dir_, "/", name));
  }
}

void BatchRecorder::begin(uint64_t step) {
  fs_.make_directories(dir_);
  for (const std::string& name : fs_.list(dir_)) {
    const auto recorded = step_of(name, kSuffix);
    if (!recorded || static_cast<uint64_t>(*recorded) <= step) continue;
    const std::string path = str(dir_, "/", name);
    fs_.rename(path, path + ".abandoned");
  }
}

void BatchRecorder::write(const BufferInfo& info, std::span<const SamplePtr> batch) {
  const std::string path = str(dir_, "/", step_name(static_cast<int64_t>(info.step), kSuffix));
  BufferFileWriter writer(fs_, path, info,
                          {.compression_level = compression_level_, .replace_existing = true});
  for (size_t i = 0; i < batch.size();) {
    Group group{batch[i]->ordinal, {}};
    for (; i < batch.size() && batch[i]->ordinal == group.ordinal; ++i) {
      group.samples.push_back(batch[i]);
    }
    writer.append(group);
  }
  writer.commit();
}

}  // namespace rl
