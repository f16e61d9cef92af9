// A host's allocator (rl_allocator) as the MemorySource of a runtime's arenas. Memory is checked
// for its alignment; arenas clear it before anything uses it.
#pragma once
#include <memory>

#include "abi/user_data.h"
#include "core/arena.h"
#include "rl.h"

namespace rl::abi {

// user is the user_data of the struct. Null for null.
std::shared_ptr<MemorySource> host_memory(const rl_allocator* allocator, UserData&& user);

}  // namespace rl::abi
