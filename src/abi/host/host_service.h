// What the structs of host services have in common: the struct is copied, its user_data is consumed
// whatever happens, and its functions must be there.
#pragma once
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "abi/arguments.h"
#include "abi/callbacks.h"
#include "abi/user_data.h"
#include "core/error.h"

namespace rl::abi {

// The user_data of a service; nothing if there is no service, or if its struct_size says that the
// struct cannot be read.
template <typename T>
UserData user_data_of(const T* given) noexcept {
  if (given == nullptr || !is_struct_size(given->struct_size, kFirstSize<T>))
    return {nullptr, nullptr};
  return {given->user_data, given->destroy};
}

// A copied service struct with its user_data.
template <typename T>
class HostService {
 public:
  HostService(const T* given, UserData user, const char* name)
      : user_(std::move(user)), table_(input_struct(given, name)) {}

  void* data() const { return user_.data(); }
  const T& table() const { return table_; }
  // Of a function of the service, which can call nothing that might wait for the thread it runs on.
  template <typename Function, typename... Args>
  int32_t result_of(Function function, Args... arguments) const {
    const CallbackScope scope;
    return function(user_.data(), arguments...);
  }
  // By the service's `describe`, or as an errno value.
  std::string meaning_of(int32_t code) const {
    if (table_.describe == nullptr) return std::strerror(code);
    std::array<char, 256> text{};
    {
      const CallbackScope scope;
      table_.describe(user_.data(), code, text.data(), text.size());
    }
    text.back() = '\0';
    return text[0] != '\0' ? std::string(text.data()) : str("code ", code);
  }

 private:
  UserData user_;
  T table_;
};

// RL_INVALID_ARGUMENT naming "service.function" if the pointer is null.
template <typename Function>
void require_function(Function function, const char* name) {
  if (function == nullptr) refuse(name, "is NULL");
}

}  // namespace rl::abi
