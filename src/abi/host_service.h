// What the structs of host services have in common: the struct is copied, its user_data is consumed
// whatever happens, and its functions must be there.
#pragma once
#include <utility>

#include "abi/arguments.h"
#include "abi/user_data.h"

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
