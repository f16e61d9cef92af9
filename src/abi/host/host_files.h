// A host's file system (rl_files) as a FileSystem. Paths outside its prefix belong to the operating
// system. Every failure of a host's function is an Error that names operation and path, with the
// host's code as system_code. Nothing of the host's struct is read after construction.
#pragma once
#include <memory>

#include "abi/user_data.h"
#include "core/fs.h"
#include "rl.h"

namespace rl::abi {

// user is the user_data of the struct. Null for null.
std::shared_ptr<FileSystem> host_files(const rl_files* files, UserData&& user);

}  // namespace rl::abi
