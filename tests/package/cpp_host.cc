// A host in C++ that links librl.a: it uses templates of the standard library that librl is made of
// as well, throws and catches, and has a function with a name that librl has inside. None of that
// may reach from one side to the other.
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "rl.h"

namespace rl {
// Of src/core/error.h, which librl calls for a broken promise of its own.
int fail_check(const char* condition, const char* file, int line) {
  return condition == nullptr && file == nullptr ? line : 0;
}
}  // namespace rl

namespace {

struct Node {
  std::map<std::string, std::vector<float>> values;
};

size_t work_of_its_own() {
  std::vector<std::shared_ptr<Node>> nodes;
  for (size_t i = 0; i < 10; ++i) {
    nodes.push_back(std::make_shared<Node>());
    nodes.back()->values["a" + std::to_string(i)].resize(i + 1);
  }
  try {
    throw std::runtime_error("caught");
  } catch (const std::exception& error) {
    return nodes.size() + std::strlen(error.what());
  }
}

}  // namespace

int main() {
  rl_options* options = nullptr;
  rl_error* error = nullptr;
  if (rl_options_create(&options, &error) != RL_OK) return 1;
  if (rl_options_set_text(options, "engine.blok_size", RL_NUL_TERMINATED, "1", 1, &error) !=
      RL_UNKNOWN_OPTION)
    return 2;
  const char* const nearest = rl_error_nearest(error, 0);
  if (nearest == nullptr || std::strcmp(nearest, "engine.block_size") != 0) return 3;
  rl_error_release(error);
  rl_options_destroy(options);
  return work_of_its_own() == 16 && rl::fail_check(nullptr, nullptr, 7) == 7 ? 0 : 4;
}
