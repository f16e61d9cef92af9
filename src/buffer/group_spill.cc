// A group of an ordinal has one file, whatever the number of units was when it was written.
#include "buffer/group_spill.h"

#include <charconv>
#include <optional>
#include <utility>

#include "buffer/buffer_file.h"
#include "buffer/unit_files.h"
#include "core/error.h"

namespace rl {
namespace {

// "00000000000000000042.rlbuf"
std::string file_name(uint64_t ordinal) {
  const std::string digits = str(ordinal);
  return str(std::string(20 - digits.size(), '0'), digits, kGroupSuffix);
}

std::optional<uint64_t> ordinal_of(std::string_view name) {
  name.remove_suffix(kGroupSuffix.size());
  uint64_t ordinal = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), ordinal);
  if (code != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return ordinal;
}

}  // namespace

GroupSpill::GroupSpill(FileSystem& fs, std::string dir, Rules rules)
    : fs_(fs), dir_(std::move(dir)), rules_(rules) {
  fs_.make_directories(dir_);
  for (const UnitFile& file : unit_files(fs_, dir_)) {
    const std::string path = str(dir_, "/", file.token());
    const std::optional<uint64_t> ordinal = ordinal_of(file.name);
    if (!ordinal || !paths_.emplace(*ordinal, path).second) {
      throw Error(Code::kDataLoss, str(path, " is not the file of a group, or the second of one"))
          .with_location(path);
    }
  }
}

std::vector<uint64_t> GroupSpill::ordinals() const {
  std::vector<uint64_t> ordinals;
  for (const auto& [ordinal, path] : paths_) ordinals.push_back(ordinal);
  return ordinals;
}

void GroupSpill::write(uint64_t ordinal, std::span<const SamplePtr> samples) {
  const std::string path =
      str(dir_, "/", unit_of(ordinal, rules_.num_units), "/", file_name(ordinal));
  fs_.make_directories(parent_directory(path));
  BufferFileWriter writer(
      fs_, path, BufferInfo(),
      {.compression_level = rules_.compression_level, .replace_existing = true});
  writer.append({ordinal, {samples.begin(), samples.end()}});
  writer.commit();
  paths_[ordinal] = path;
}

std::vector<SamplePtr> GroupSpill::read_file(const std::string& path, uint64_t ordinal) const {
  BufferFileReader file(fs_, path);
  std::optional<Group> group = file.next();
  if (!group || group->ordinal != ordinal || file.next()) {
    throw Error(Code::kDataLoss, str(path, " offset 0: is not the file of group ", ordinal))
        .with_location(path + " offset 0");
  }
  return std::move(group->samples);
}

std::vector<SamplePtr> GroupSpill::read(uint64_t ordinal) {
  const std::string path = paths_.at(ordinal);
  try {
    return read_file(path, ordinal);
  } catch (const Error& e) {
    if (e.code != Code::kDataLoss && e.code != Code::kIncompatible) throw;
    fs_.rename(path, path + ".damaged");
    paths_.erase(ordinal);
    throw;
  }
}

void GroupSpill::remove(uint64_t ordinal) {
  fs_.remove_all(paths_.at(ordinal));
  paths_.erase(ordinal);
}

}  // namespace rl
