// NCCL on the emulated GPU, for ranks that are threads of one process and may share the GPU. A
// message moves when both ends have come to it in the order of their streams; a rank whose partner
// does not come waits for ever, as on a GPU, until its communicator is aborted.
#pragma once
#include <string>

#include "device/cuda/nccl_library.h"

namespace rl::emulated {

// From now on every communicator has met this error, with this text; kSuccess: none.
void set_nccl_error(cuda::NcclResult error, const std::string& text = "");
// The library has another version, or lacks a function. Until forget_nccl().
void set_nccl_version(int version);
void hide_nccl_function(const std::string& name);
// Starts over.
void forget_nccl();
// Communicators that were made and not aborted.
int live_nccl_communicators();

}  // namespace rl::emulated
