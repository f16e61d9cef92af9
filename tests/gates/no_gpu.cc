// The library needs nothing of a GPU, on machines with one and without: it starts and computes
// while no library of a GPU's vendor (driver, run time or kernels) and no device of one is mapped,
// and refuses a request for a GPU with an error that gives the reason. It starts nowhere without
// the libraries it is linked with, so one of a vendor among them fails this gate everywhere.
//
// usage: gate_no_gpu MODEL DIRECTORY
#include <fstream>
#include <set>

#include "gates/gate_scenarios.h"
#include "gates/linked_api.h"

namespace {

int problems = 0;

void expect(bool condition, const std::string& text) {
  if (condition) return;
  std::printf("%s\n", text.c_str());
  ++problems;
}

constexpr const char* kOfVendors[] = {
    "libcuda",       "libcublas",      "libcudnn",    "libcufft",  "libcurand",
    "libcusolver",   "libcusparse",    "libcupti",    "libnvrtc",  "libnvJitLink",
    "libnvToolsExt", "libnvidia",      "libnccl",     "libamdhip", "libhip",
    "librocblas",    "libhsa-runtime", "/dev/nvidia", "/dev/kfd"};

// The files of GPU vendors that are mapped into the process, each once.
std::string files_of_vendors() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos) continue;
    for (const char* name : kOfVendors) {
      if (line.find(name, path) != std::string::npos) found.insert(line.substr(path));
    }
  }
  std::string text;
  for (const std::string& file : found) text += "\n  " + file;
  return text;
}

void ask_for_cuda(const std::string& reason) {
  rl_options* options = nullptr;
  rl_error* err = nullptr;
  rl_options_create(&options, nullptr);
  rl_options_set_text(options, "runtime.device", RL_NUL_TERMINATED, "cuda", RL_NUL_TERMINATED,
                      nullptr);
  rl_runtime* runtime = nullptr;
  const rl_status status = rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err);
  const std::string message = rl_error_text(err, RL_ERROR_MESSAGE, nullptr);
  expect(status == RL_NOT_IN_BUILD, "cuda is answered with " + std::string(rl_status_name(status)));
  expect(runtime == nullptr, "there is a runtime without a device");
  expect(message.find(reason) != std::string::npos, "no reason in: " + message);
  rl_error_release(err);
  rl_options_destroy(options);
}

int run(const gates::Place& place) {
  gates::prepare(place);
  const gates::Api rl = gates::linked_api();
  for (const gates::Scenario& scenario : gates::scenarios()) scenario.run(rl, place);
  const std::string mapped = files_of_vendors();
  expect(mapped.empty(), "librl.so needs or loads files of a GPU's vendor:" + mapped);
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
