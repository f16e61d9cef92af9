// A store in a directory that processes share: every group is a buffer file of its own
// (docs/buffer_format.md), which appears by one rename, complete and synced, in DIR/ready, and
// moves by renames: to DIR/claimed when it is claimed, back by recover, to DIR/damaged when it
// cannot be read. It is removed when it is acknowledged. The book is DIR/book; a process that is
// killed as it writes one may leave DIR/book.NUMBER, which nobody reads. Groups are spread
// over directories, the units, by ordinal; one that claims looks at all that are there.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "buffer/experience_store.h"
#include "core/fs.h"

namespace rl {

class DirectoryStore final : public ExperienceStore {
 public:
  // Whose files an operation uses.
  using Files = std::function<std::shared_ptr<FileSystem>()>;

  // num_units: over how many units put spreads its groups.
  DirectoryStore(Files files, std::string dir, int64_t num_units);

  void put(const GroupKey& key, std::string_view group) override;
  // Those of the lowest names, over all units.
  std::vector<StoredGroup> claim(int64_t max_groups) override;
  void recover() override;
  void acknowledge(const std::string& token) override;
  void set_aside(const std::string& token) override;
  std::string read_book() override;
  void write_book(std::string_view book, FunctionRef<void()> check) override;
  std::string place(const std::string& token) const override;
  std::string book_place() const override;

 private:
  std::string path(const char* state, const std::string& token) const;
  // False if the file is not there any more.
  bool move(FileSystem& fs, const std::string& token, const char* from, const char* to) const;

  const Files files_;
  const std::string dir_;
  const int64_t num_units_;
  const std::string writer_;  // part of the name of a book that is being written
};

}  // namespace rl
