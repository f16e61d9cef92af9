// A host's store (rl_store) as an ExperienceStore. Every failure of a host's function is an Error
// that names what was done, with the host's code as system_code. Nothing of the host's struct is
// read after construction.
#pragma once
#include <memory>

#include "abi/user_data.h"
#include "buffer/experience_store.h"
#include "rl.h"

namespace rl::abi {

// user is the user_data of the struct. Null for null.
std::shared_ptr<ExperienceStore> host_store(const rl_store* store, UserData&& user);

}  // namespace rl::abi
