// A run in a process of its own, which is killed at a given moment or ends by itself.
#pragma once
#include <string>
#include <vector>

namespace gates {

double seconds();  // of a steady clock
// Whether the run in `dir` has a checkpoint, whole or on its way there.
bool has_checkpoint(const std::string& dir);

struct Child {
  bool killed = false, good = false;
  std::string output;  // of its standard output
};

// Starts words[0] with the words as its arguments, and returns when it has ended. Its output goes
// through the file. Killed (SIGKILL) after so many seconds unless it has ended; negative: never.
Child run_child(std::vector<std::string> words, const std::string& output, double kill_after);

}  // namespace gates
