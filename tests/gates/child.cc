#include "gates/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

extern char** environ;

namespace gates {
namespace {

void sleep_seconds(double duration) {
  timespec left{time_t(duration), long((duration - double(time_t(duration))) * 1e9)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

std::string text_of(const std::string& path) {
  std::string text;
  if (FILE* const file = std::fopen(path.c_str(), "r"); file != nullptr) {
    for (int c; (c = std::fgetc(file)) != EOF;) text += char(c);
    std::fclose(file);
  }
  return text;
}

}  // namespace

double seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

bool has_checkpoint(const std::string& dir) {
  const std::string checkpoints = dir + "/checkpoints";
  return std::filesystem::exists(checkpoints) && !std::filesystem::is_empty(checkpoints);
}

Child run_child(std::vector<std::string> words, const std::string& output, double kill_after) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return {};
  if (kill_after >= 0) {
    sleep_seconds(kill_after);
    kill(pid, SIGKILL);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFSIGNALED(status), WIFEXITED(status) && WEXITSTATUS(status) == 0, text_of(output)};
}

}  // namespace gates
