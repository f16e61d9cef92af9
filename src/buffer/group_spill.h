// Complete groups of a buffer in files instead of in memory (buffer.spill_path): each is a buffer
// file of its own, in a unit of the directory by its ordinal. The files outlive the process; what
// is there when a spill is made belongs to it. Not thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/fs.h"
#include "data/sample.h"

namespace rl {

class GroupSpill {
 public:
  struct Rules {
    int64_t num_units = 1;      // buffer.num_storage_units
    int compression_level = 3;  // buffer.compression_level
  };
  // Finds the files, which read() reads. fs outlives the spill.
  GroupSpill(FileSystem& fs, std::string dir, Rules rules);

  std::vector<uint64_t> ordinals() const;
  // Durable on return.
  void write(uint64_t ordinal, std::span<const SamplePtr> samples);
  // kDataLoss names file and offset; the file is then kept as NAME.damaged, and the group is gone.
  std::vector<SamplePtr> read(uint64_t ordinal);
  void remove(uint64_t ordinal);

 private:
  std::vector<SamplePtr> read_file(const std::string& path, uint64_t ordinal) const;

  FileSystem& fs_;
  const std::string dir_;
  const Rules rules_;
  std::map<uint64_t, std::string> paths_;  // by ordinal
};

}  // namespace rl
