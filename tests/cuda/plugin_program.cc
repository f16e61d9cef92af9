// A program that knows rl.h alone and loads librl from the folder of the emulated plugin: the GPU
// is there, a runtime on it can be made and ended, a plan says what lies in its memory, and weights
// come and go there as tensors of DLPack. Exit status 0 if all of it holds.
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

rl_options* options_on_gpu() {
  rl_options* options = nullptr;
  rl_options_create(&options, nullptr);
  const auto set = [&](const char* key, const char* text) {
    expect(rl_options_set_text(options, key, RL_NUL_TERMINATED, text, RL_NUL_TERMINATED, nullptr) ==
               RL_OK,
           std::string("cannot set ") + key);
  };
  set("runtime.device", "cuda");
  set("model.path", RL_FIXTURES "/models/llama");
  set("model.dtype", "fp32");
  set("engine.max_model_len", "64");
  set("sampling.max_new_tokens", "16");
  return options;
}

// The status of a runtime on the device, which is ended again.
rl_status runtime_on(int64_t index, std::string* message) {
  rl_options* options = options_on_gpu();
  rl_options_set_i64(options, "runtime.device_index", RL_NUL_TERMINATED, index, nullptr);
  rl_runtime* runtime = nullptr;
  rl_error* error = nullptr;
  const rl_status status = rl_runtime_create(RL_ABI_VERSION, options, &runtime, &error);
  *message = message_of(error);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  return status;
}

void look_at_plan() {
  rl_options* options = options_on_gpu();
  rl_plan* plan = nullptr;
  rl_error* error = nullptr;
  rl_plan_create(options, RL_USE_PARTS, &plan, &error);
  const std::string message = message_of(error);
  expect(plan != nullptr, "no plan: " + message);
  uint64_t on_gpu = 0, in_host = 0;
  for (size_t i = 0; i < rl_plan_count(plan); ++i) {
    rl_plan_item item;
    rl_plan_item_init(&item, sizeof item);
    rl_plan_at(plan, i, &item, nullptr);
    const bool staging = std::strcmp(item.name, "copy staging, host") == 0;
    const bool host = staging || item.kind == RL_PLAN_OUTSIDE;
    expect(item.device == (host ? RL_DEVICE_CPU : RL_DEVICE_CUDA) && item.device_index == 0,
           std::string("another memory holds ") + item.name);
    if (item.kind == RL_PLAN_ARENA) (host ? in_host : on_gpu) += item.bytes;
  }
  rl_plan_info info;
  rl_plan_info_init(&info, sizeof info);
  rl_plan_get_info(plan, &info, nullptr);
  expect(info.total_bytes == on_gpu && info.arena_bytes == on_gpu + in_host && in_host > 0,
         "the totals are not those of the GPU");
  rl_plan_release(plan);
  rl_options_destroy(options);
}

// A weight in memory of the GPU or of the host.
rl_tensor* weight(rl_model* model, const char* name, int32_t device, uint64_t flags) {
  rl_tensor_request request;
  rl_tensor_request_init(&request, sizeof request);
  request.device = device;
  request.flags = flags;
  rl_tensor* tensor = nullptr;
  rl_error* error = nullptr;
  rl_model_weight(model, name, RL_NUL_TERMINATED, &request, &tensor, &error);
  const std::string message = message_of(error);
  expect(tensor != nullptr, "no weight: " + message);
  return tensor;
}

rl_tensor_info info_of(rl_tensor* tensor) {
  rl_tensor_info info;
  rl_tensor_info_init(&info, sizeof info);
  rl_tensor_get_info(tensor, &info, nullptr);
  return info;
}

// One norm's values, by way of another library, become those of another norm. The streams are
// cudaStreamLegacy and none.
void pass_weights(rl_runtime* runtime, rl_model* model) {
  const char *const from = "model.norm.weight", *const to = "model.layers.0.input_layernorm.weight";
  void* const legacy = reinterpret_cast<void*>(uintptr_t{1});
  for (void* const stream : {legacy, static_cast<void*>(nullptr)}) {
    rl_tensor* const copy = weight(model, from, RL_DEVICE_CUDA, RL_TENSOR_COPY);
    expect(info_of(copy).device == RL_DEVICE_CUDA && info_of(copy).read_only == 0, "not the GPU's");
    DLManagedTensorVersioned* managed = nullptr;
    expect(rl_tensor_export_dlpack(copy, stream, &managed, nullptr) == RL_OK, "no export");
    rl_tensor_release(copy);
    rl_tensor* foreign = nullptr;
    rl_error* error = nullptr;
    rl_tensor_import_dlpack(runtime, managed, stream, 0, &foreign, &error);
    std::string message = message_of(error);
    expect(foreign != nullptr, "no import: " + message);
    rl_weight set;
    rl_weight_init(&set, sizeof set);
    set.name = to;
    set.tensor = foreign;
    uint64_t version = 0;
    error = nullptr;
    rl_model_set_weights(model, &set, 1, stream, 0, &version, &error);
    message = message_of(error);
    expect(version > 0, "weights are not set: " + message);
    rl_tensor_release(foreign);
  }
  rl_tensor *const a = weight(model, from, RL_DEVICE_CPU, 0), *const b = weight(model, to,
                                                                                RL_DEVICE_CPU, 0);
  const rl_tensor_info wanted = info_of(a), got = info_of(b);
  expect(wanted.device == RL_DEVICE_CPU && got.num_elements == wanted.num_elements &&
             std::memcmp(got.data, wanted.data, wanted.num_elements * sizeof(float)) == 0,
         "other values arrived");
  rl_tensor_release(a);
  rl_tensor_release(b);
}

void refuse_other_places(rl_model* model) {
  rl_tensor_request request;
  rl_tensor_request_init(&request, sizeof request);
  rl_tensor* tensor = nullptr;
  int no_stream = 0;
  request.stream = &no_stream;
  const auto ask = [&] {
    return rl_model_weight(model, "model.norm.weight", RL_NUL_TERMINATED, &request, &tensor,
                           nullptr);
  };
  expect(ask() == RL_UNSUPPORTED, "a stream of the CPU");
  request.device = RL_DEVICE_CUDA;
  expect(ask() == RL_INVALID_ARGUMENT, "a stream that is none");
  request.stream = nullptr;
  request.device_index = 1;
  expect(ask() == RL_UNSUPPORTED, "a weight on another GPU");
  // Without a request the weight is where it is.
  expect(rl_model_weight(model, "model.norm.weight", RL_NUL_TERMINATED, nullptr, &tensor,
                         nullptr) == RL_OK &&
             info_of(tensor).device == RL_DEVICE_CUDA && info_of(tensor).read_only == 1,
         "not the weight in place");
  rl_tensor_release(tensor);
}

void look_at_weights() {
  rl_options* options = options_on_gpu();
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_error* error = nullptr;
  rl_runtime_create(RL_ABI_VERSION, options, &runtime, &error);
  rl_error_release(error);
  error = nullptr;
  rl_model_open(runtime, options, RL_USE_GENERATE, &model, &error);
  const std::string message = message_of(error);
  expect(model != nullptr, "no model: " + message);
  if (model != nullptr) {
    pass_weights(runtime, model);
    refuse_other_places(model);
  }
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
}

}  // namespace

int main() {
  look_for_devices();
  std::string message;
  expect(runtime_on(0, &message) == RL_OK, "no runtime on device 0: " + message);
  expect(runtime_on(1, &message) == RL_UNSUPPORTED, "a runtime on device 1");
  expect(message.find("there is no device 1; this machine has 1") != std::string::npos, message);
  look_at_plan();
  look_at_weights();
  return problems == 0 ? 0 : 1;
}
