// A token is "unit/name", the same in every state, so a group that is put twice is one file once it
// is claimed.
#include "buffer/directory_store.h"

#include <limits>
#include <utility>

#include "buffer/store_lease.h"
#include "buffer/unit_files.h"
#include "core/hash.h"

namespace rl {
namespace {

constexpr const char *kReady = "ready", *kClaimed = "claimed", *kDamaged = "damaged";

// Of a file in a unit.
std::optional<GroupKey> key_of_file(std::string_view name) {
  name.remove_suffix(kGroupSuffix.size());
  return key_named(name);
}

std::string read_all(FileSystem& fs, const std::string& path) {
  return read_text_file(fs, path, std::numeric_limits<int64_t>::max());
}

}  // namespace

DirectoryStore::DirectoryStore(Files files, std::string dir, int64_t num_units)
    : files_(std::move(files)),
      dir_(std::move(dir)),
      num_units_(num_units),
      writer_(hex64(new_lease_holder())) {}

std::string DirectoryStore::path(const char* state, const std::string& token) const {
  return str(dir_, "/", state, "/", token);
}

std::string DirectoryStore::place(const std::string& token) const { return path(kClaimed, token); }
std::string DirectoryStore::book_place() const { return dir_ + "/book"; }

bool DirectoryStore::move(FileSystem& fs, const std::string& token, const char* from,
                          const char* to) const {
  const std::string target = path(to, token);
  fs.make_directories(parent_directory(target));
  try {
    fs.rename(path(from, token), target);
    return true;
  } catch (const Error& e) {
    if (e.code != Code::kNotFound) throw;
    return false;
  }
}

void DirectoryStore::put(const GroupKey& key, std::string_view group) {
  const std::shared_ptr<FileSystem> fs = files_();
  const std::string unit = unit_of(key.ordinal, num_units_);
  const std::string target = path(kReady, str(unit, "/", group_name(key), kGroupSuffix));
  fs->make_directories(parent_directory(target));
  write_file_atomically(*fs, target, group);
}

// A file that cannot be read now stays where it can be claimed.
std::vector<StoredGroup> DirectoryStore::claim(int64_t max_groups) {
  const std::shared_ptr<FileSystem> fs = files_();
  std::vector<StoredGroup> claimed;
  for (const UnitFile& file : unit_files(*fs, str(dir_, "/", kReady))) {
    if (static_cast<int64_t>(claimed.size()) >= max_groups) break;
    const std::string token = file.token();
    if (!move(*fs, token, kReady, kClaimed)) continue;
    try {
      claimed.push_back({token, read_all(*fs, path(kClaimed, token)), key_of_file(file.name)});
    } catch (...) {
      for (const StoredGroup& group : claimed) move(*fs, group.token, kClaimed, kReady);
      move(*fs, token, kClaimed, kReady);
      throw;
    }
  }
  return claimed;
}

void DirectoryStore::recover() {
  const std::shared_ptr<FileSystem> fs = files_();
  for (const UnitFile& file : unit_files(*fs, str(dir_, "/", kClaimed))) {
    move(*fs, file.token(), kClaimed, kReady);
  }
}

// Also a copy that was put again meanwhile.
void DirectoryStore::acknowledge(const std::string& token) {
  const std::shared_ptr<FileSystem> fs = files_();
  fs->remove_all(path(kReady, token));
  fs->remove_all(path(kClaimed, token));
}

void DirectoryStore::set_aside(const std::string& token) {
  move(*files_(), token, kClaimed, kDamaged);
}

std::string DirectoryStore::read_book() {
  const std::shared_ptr<FileSystem> fs = files_();
  return fs->exists(book_place()) ? read_all(*fs, book_place()) : std::string();
}

// Of two processes that write at once each has a file of its own until it takes the name.
void DirectoryStore::write_book(std::string_view book, FunctionRef<void()> check) {
  const std::shared_ptr<FileSystem> fs = files_();
  fs->make_directories(dir_);
  const std::string own = str(book_place(), ".", writer_);
  write_file_atomically(*fs, own, book);
  try {
    check();
  } catch (...) {
    fs->remove_all(own);
    throw;
  }
  fs->rename(own, book_place());
  fs->sync_directory(dir_);
}

}  // namespace rl
