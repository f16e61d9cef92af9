// The user_data of a callback, with the host's destroy function for it.
#pragma once
#include <utility>

#include "rl.h"

namespace rl::abi {

// Owns a callback's user_data: destroyed exactly once, whatever happens.
class UserData {
 public:
  UserData(void* data, rl_destroy_fn destroy) : data_(data), destroy_(destroy) {}
  ~UserData() {
    if (destroy_ != nullptr) destroy_(data_);
  }
  UserData(UserData&& other) noexcept
      : data_(other.data_), destroy_(std::exchange(other.destroy_, nullptr)) {}
  UserData& operator=(UserData&&) = delete;
  void* data() const { return data_; }

 private:
  void* data_;
  rl_destroy_fn destroy_;
};

}  // namespace rl::abi
