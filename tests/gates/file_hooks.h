// Lets a test fail calls on files under one directory: replaces, in this program, the libc
// functions that librl.so and libstdc++ call.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gates {

// kClose counts only files opened for writing.
enum class FileOp { kOpen, kRead, kWrite, kSync, kRename, kTruncate, kMakeDirectory, kClose };
constexpr int kNumFileOps = 8;
const char* name_of(FileOp op);

// A fault is an errno (EINTR: nothing was done yet), or for reads and writes kShort: only half of
// the bytes are transferred.
constexpr int kShort = -1;

// From now on files whose path begins with dir are watched.
void watch_files(const std::string& dir);
// Restarts counting; call n (from 1) of op fails with error; 0 fails none.
void arm_file(FileOp op, int error, uint64_t n);
// Returns whether it failed.
bool disarm_file();
// The path of the call that failed.
std::string failed_file();
// The file of each call since arm_file, in order.
std::vector<std::string> files_of(FileOp op);

}  // namespace gates
