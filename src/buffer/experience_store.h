// Where complete groups wait between the processes that sample and the one that trains. A store
// delivers at least once: what it gives, it may give again until it was acknowledged. That a group
// is trained on once is the work of StoreConsumer, which keeps a book in the store.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/function_ref.h"

namespace rl {

// A group among those of all processes that sample: runtime.instance and ordinal.
struct GroupKey {
  uint64_t instance = 0, ordinal = 0;
  auto operator<=>(const GroupKey&) const = default;
};
// "000001-00000000000000000042": sorts by instance and ordinal.
std::string group_name(const GroupKey& key);
// The key of this name; none if it is no name of a group.
std::optional<GroupKey> key_named(std::string_view name);

struct StoredGroup {
  std::string token;                 // what the store calls this delivery
  std::string bytes;                 // as encode_samples made them; not checked
  std::optional<GroupKey> key = {};  // as the store names it, whatever the bytes are
};

// Thread-safe. Errors are the store's own, such as kIo.
class ExperienceStore {
 public:
  virtual ~ExperienceStore() = default;
  // Durable on return. A group of this key that waits may be replaced.
  virtual void put(const GroupKey& key, std::string_view group) = 0;
  // At most so many groups that nobody has claimed; they belong to the caller from now on.
  virtual std::vector<StoredGroup> claim(int64_t max_groups) = 0;
  // Groups that were claimed and not acknowledged can be claimed again.
  virtual void recover() = 0;
  // The store forgets a group; nothing happens if it has none of this token.
  virtual void acknowledge(const std::string& token) = 0;
  // The group cannot be read: it is kept where nobody claims it.
  virtual void set_aside(const std::string& token) = 0;
  // The bytes of the last write_book, which replaces them in one go; empty: there are none.
  virtual std::string read_book() = 0;
  // check: called at the last moment before that; if it throws, the one before stays.
  virtual void write_book(std::string_view book, FunctionRef<void()> check) = 0;
  // Names for errors: of a group, and of the book.
  virtual std::string place(const std::string& token) const = 0;
  virtual std::string book_place() const = 0;
};

}  // namespace rl
