// Collects what the checks find.
#pragma once
#include <string>

#include "cuda_host/emulator.h"

namespace rl::emulated {

// A fault of the running thread, or of the running copy or call `what` outside of kernels.
void report(Fault fault, uint64_t address, const std::string& text);
void set_running_work(const char* what);
void clear_reports();

}  // namespace rl::emulated
