// Calls on files under one directory, which a test can let fail: the functions of libc that
// librl.so and libstdc++ call, replaced in this program.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gates {

enum class FileOp { kOpen, kRead, kWrite, kSync, kRename, kTruncate, kMakeDirectory, kClose };
constexpr int kNumFileOps = 8;
const char* name_of(FileOp op);

// A fault is an errno, or one of these for reads and writes: only half of what was asked for, or an
// interruption before anything was done.
constexpr int kShort = -1;

// kClose is that of files opened for writing.

// From now on files whose path begins with dir are watched.
void watch_files(const std::string& dir);
// Counting begins anew; call n (from 1) of op fails with error; 0 fails none.
void arm_file(FileOp op, int error, uint64_t n);
// Whether it failed.
bool disarm_file();
// The path of the call that failed.
std::string failed_file();
// The file of each call since arm_file, in order.
std::vector<std::string> files_of(FileOp op);

}  // namespace gates
