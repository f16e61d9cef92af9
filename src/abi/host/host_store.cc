// Its functions run inside a CallbackScope, so that they can call nothing that might wait for the
// thread they run on.
#include "abi/host/host_store.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "abi/host/host_service.h"
#include "core/error.h"

namespace rl::abi {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 31;  // of a group, which is at most a document

// What a host found, copied. Its codes are its own, so what goes wrong here is kept apart.
struct Collected {
  std::vector<StoredGroup> groups;
  bool out_of_memory = false;
  bool invalid = false;
};

int32_t collect(void* context, const char* token, size_t token_len, const void* data,
                uint64_t size) noexcept {
  auto& into = *static_cast<Collected*>(context);
  if ((token == nullptr && token_len != 0 && token_len != RL_NUL_TERMINATED) ||
      (data == nullptr && size > 0) || size > kMaxBytes) {
    into.invalid = true;
    return EINVAL;
  }
  try {
    StoredGroup& group = into.groups.emplace_back();
    if (token != nullptr) {
      group.token.assign(token, token_len == RL_NUL_TERMINATED ? std::strlen(token) : token_len);
    }
    group.key = key_named(group.token);
    if (size > 0) group.bytes.assign(static_cast<const char*>(data), size);
    return 0;
  } catch (...) {
    into.out_of_memory = true;
    return ENOMEM;
  }
}

class HostStore final : public ExperienceStore {
 public:
  HostStore(const rl_store* store, UserData&& user) : host_(store, std::move(user), "store") {
    const rl_store& s = host_.table();
    require_function(s.put, "store.put");
    require_function(s.claim, "store.claim");
    require_function(s.recover, "store.recover");
    require_function(s.acknowledge, "store.acknowledge");
    require_function(s.set_aside, "store.set_aside");
    require_function(s.read_book, "store.read_book");
    require_function(s.write_book, "store.write_book");
  }

  void put(const GroupKey& key, std::string_view group) override {
    const std::string name = group_name(key);
    call(str("put group ", name), host_.table().put, name.c_str(), name.size(),
         static_cast<const void*>(group.data()), uint64_t{group.size()});
  }

  std::vector<StoredGroup> claim(int64_t max_groups) override {
    Collected found;
    const int32_t code = host_.result_of(host_.table().claim, static_cast<uint64_t>(max_groups),
                                         &collect, static_cast<void*>(&found));
    check_collected("claim groups", found, code);
    if (static_cast<int64_t>(found.groups.size()) > max_groups) {
      throw Error(Code::kIo, str("store.claim gave ", found.groups.size(), " groups, but ",
                                 max_groups, " were asked for"));
    }
    return std::move(found.groups);
  }

  void recover() override { call("recover", host_.table().recover); }
  void acknowledge(const std::string& token) override {
    call(str("acknowledge ", token), host_.table().acknowledge, token.c_str(), token.size());
  }
  void set_aside(const std::string& token) override {
    call(str("set aside ", token), host_.table().set_aside, token.c_str(), token.size());
  }

  std::string read_book() override {
    Collected found;
    const int32_t code =
        host_.result_of(host_.table().read_book, &collect, static_cast<void*>(&found));
    check_collected("read the book", found, code);
    return found.groups.empty() ? std::string() : std::move(found.groups.back().bytes);
  }
  void write_book(std::string_view book, FunctionRef<void()> check) override {
    check();
    call("write the book", host_.table().write_book, static_cast<const void*>(book.data()),
         uint64_t{book.size()});
  }

  std::string place(const std::string& token) const override { return str("store group ", token); }
  std::string book_place() const override { return "store book"; }

 private:
  template <typename Function, typename... Args>
  void call(const std::string& operation, Function function, Args... arguments) const {
    const int32_t code = host_.result_of(function, arguments...);
    if (code != 0) fail(operation, code);
  }
  void check_collected(const char* operation, const Collected& found, int32_t code) const {
    if (found.out_of_memory) throw std::bad_alloc();
    if (found.invalid) {
      throw Error(Code::kIo, str("cannot ", operation,
                                 ": the store gave a group without data, or "
                                 "of more than ",
                                 kMaxBytes, " bytes"));
    }
    if (code != 0) fail(operation, code);
  }
  [[noreturn]] void fail(const std::string& operation, int32_t code) const {
    throw Error(Code::kIo, str("the store cannot ", operation, ": ", host_.meaning_of(code)))
        .with_system_code(code);
  }

  HostService<rl_store> host_;
};

}  // namespace

std::shared_ptr<ExperienceStore> host_store(const rl_store* store, UserData&& user) {
  if (store == nullptr) return nullptr;
  return std::make_shared<HostStore>(store, std::move(user));
}

}  // namespace rl::abi
