// On a machine without a GPU the library starts and computes, loads no GPU driver library, and
// refuses a request for a GPU with an error that gives the reason.
//
// usage: gate_no_gpu MODEL DIRECTORY
#include <fstream>

#include "gates/gate_scenarios.h"
#include "gates/linked_api.h"

namespace {

int problems = 0;

void expect(bool condition, const std::string& text) {
  if (condition) return;
  std::printf("%s\n", text.c_str());
  ++problems;
}

// Names of driver files mapped into the process.
std::string driver_libraries() {
  std::string found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    for (const char* name : {"libcuda", "libnvidia", "libnccl", "libhip", "/dev/nvidia"}) {
      if (line.find(name) != std::string::npos) found += line + "\n";
    }
  }
  return found;
}

void ask_for_cuda(const std::string& reason) {
  rl_options* options = nullptr;
  rl_error* err = nullptr;
  rl_options_create(&options, nullptr);
  const rl_status status = rl_options_set_text(options, "runtime.device", RL_NUL_TERMINATED, "cuda",
                                               RL_NUL_TERMINATED, &err);
  const std::string message = rl_error_text(err, RL_ERROR_MESSAGE, nullptr);
  expect(status == RL_NOT_IN_BUILD, "cuda is answered with " + std::string(rl_status_name(status)));
  expect(message.find("runtime.device") != std::string::npos, "no key in: " + message);
  expect(message.find(reason) != std::string::npos, "no reason in: " + message);
  rl_error_release(err);
  rl_options_destroy(options);
}

int run(const gates::Place& place) {
  gates::prepare(place);
  const gates::Api rl = gates::linked_api();
  for (const gates::Scenario& scenario : gates::scenarios()) scenario.run(rl, place);
  expect(driver_libraries().empty(), "mapped beside the library:\n" + driver_libraries());
  uint32_t cpu = 0, cuda = 1;
  const char* reason = nullptr;
  expect(rl_feature("cpu", RL_NUL_TERMINATED, &cpu, &reason, nullptr) == RL_OK && cpu == 1,
         "no cpu");
  expect(rl_feature("cuda", RL_NUL_TERMINATED, &cuda, &reason, nullptr) == RL_OK && cuda == 0 &&
             std::string(reason).starts_with("cuda: unavailable, because "),
         std::string("of cuda it says: ") + reason);
  ask_for_cuda(reason);
  return problems == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return gates::reported([&] { return run({argv[1], argv[2]}); });
}
