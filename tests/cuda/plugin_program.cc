// A program that knows rl.h alone and loads librl from the folder of the emulated plugin: the GPU
// is there, and a runtime on it can be made and ended. Exit status 0 if all of it holds.
#include <cstdio>
#include <cstring>
#include <string>

#include "rl.h"

namespace {

int problems = 0;

void expect(bool holds, const std::string& text) {
  if (holds) return;
  std::printf("%s\n", text.c_str());
  ++problems;
}

std::string message_of(rl_error* error) {
  const char* const text = error != nullptr ? rl_error_text(error, RL_ERROR_MESSAGE, nullptr) : "";
  const std::string copy = text;
  rl_error_release(error);
  return copy;
}

void look_for_devices() {
  uint32_t available = 0;
  const char* reason = "";
  rl_feature("cuda", RL_NUL_TERMINATED, &available, &reason, nullptr);
  expect(available == 1 && *reason == '\0', std::string("cuda is not available: ") + reason);
  size_t count = 0;
  expect(rl_device_count(&count, nullptr) == RL_OK && count == 1, "not one device");
  rl_device_info info;
  rl_device_info_init(&info, sizeof info);
  expect(rl_device_get(0, &info, nullptr) == RL_OK && info.name != nullptr &&
             std::strcmp(info.name, "Emulated GPU 0") == 0 && info.memory_bytes > 0 &&
             info.architecture_major == 8,
         "device 0 is another one");
  expect(rl_device_get(1, &info, nullptr) == RL_OUT_OF_RANGE, "there is a device 1");
}

// The status of a runtime on the device, which is ended again.
rl_status runtime_on(int64_t index, std::string* message) {
  rl_options* options = nullptr;
  rl_options_create(&options, nullptr);
  rl_options_set_string(options, "runtime.device", RL_NUL_TERMINATED, "cuda", RL_NUL_TERMINATED,
                        nullptr);
  rl_options_set_i64(options, "runtime.device_index", RL_NUL_TERMINATED, index, nullptr);
  rl_runtime* runtime = nullptr;
  rl_error* error = nullptr;
  const rl_status status = rl_runtime_create(RL_ABI_VERSION, options, &runtime, &error);
  *message = message_of(error);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  return status;
}

}  // namespace

int main() {
  look_for_devices();
  std::string message;
  expect(runtime_on(0, &message) == RL_OK, "no runtime on device 0: " + message);
  expect(runtime_on(1, &message) == RL_UNSUPPORTED, "a runtime on device 1");
  expect(message.find("there is no device 1; this machine has 1") != std::string::npos, message);
  return problems == 0 ? 0 : 1;
}
