// Records the batches of a run as buffer files, one per step: DIR/step_000001.rlbuf holds what the
// first step trains on. Each names the weights that its step starts from, so a trainer that
// processes the files in order, with the initial weights and options of the run, ends with the
// weights of the run.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "buffer/buffer_file.h"

namespace rl {

class BatchRecorder {
 public:
  // kAlreadyExists, naming buffer.record_dir, if a fresh run finds files of another one.
  BatchRecorder(FileSystem& fs, std::string dir, int compression_level, bool resumes);

  // Files of later steps belong to a continuation that the run gave up: they are renamed to
  // "step_000123.rlbuf.abandoned"; an older one of that name is replaced.
  void begin(uint64_t step);
  // Writes the batch, which is in (ordinal, slot) order and may be empty. A file of the same step
  // is replaced.
  void write(const BufferInfo& info, std::span<const SamplePtr> batch);

 private:
  FileSystem& fs_;
  const std::string dir_;
  const int compression_level_;
};

}  // namespace rl
