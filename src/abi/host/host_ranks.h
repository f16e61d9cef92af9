// A host's transport (rl_transport) as a Transport. Nothing of the host's struct is read after
// construction.
#pragma once
#include <memory>

#include "abi/user_data.h"
#include "comm/transport.h"
#include "rl.h"

namespace rl::abi {

// user is the user_data of the struct. Null for null.
std::shared_ptr<Transport> host_ranks(const rl_transport* transport, UserData&& user);

}  // namespace rl::abi
