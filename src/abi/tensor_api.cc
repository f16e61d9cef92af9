// Tensors: their handles, DLPack import and export, and the functions that return or accept them.
#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/samples.h"
#include "core/encoding/tensor_exchange.h"
#include "pipeline/session/device_tensors.h"
#include "pipeline/session/weight_tensors.h"
#include "pipeline/update/trainer_session.h"

using namespace rl;
using namespace rl::abi;

namespace {

void stream_arg(const void* stream, const char* parameter) {
  if (stream == nullptr) return;
  throw Error(Code::kUnsupported,
              str("parameter ", parameter, " is a stream, but CPU memory has no streams"))
      .with_key(parameter);
}

void fill(rl_tensor_info& out, const Tensor& tensor) {
  const bool has_dims = !tensor.shape().empty();
  out.data = const_cast<void*>(tensor.data());  // read_only says whether a host may write
  out.shape = has_dims ? tensor.shape().data() : nullptr;
  out.strides = has_dims ? tensor.strides().data() : nullptr;
  out.num_dims = tensor.shape().size();
  out.num_elements = static_cast<uint64_t>(tensor.num_elements());
  out.dtype = static_cast<int32_t>(tensor.type());
  out.device = tensor.device().kind;
  out.device_index = tensor.device().index;
  out.read_only = tensor.read_only() ? 1 : 0;
}

template <typename T>
TensorPtr tensor_view(SamplePtr sample, const std::vector<T>& values, int64_t columns) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<int64_t> shape = {count};
  if (columns > 0) shape = {count / columns, columns};
  return std::make_shared<const Tensor>(
      Tensor::Description{.data = values.data(),
                          .type = std::is_same_v<T, float> ? ElementType::kF32 : ElementType::kI32,
                          .shape = std::move(shape),
                          .read_only = true,
                          .owner = std::move(sample)});
}

TensorPtr array_of(const SamplePtr& sample, int32_t array) {
  const Sample& s = *sample;
  const int64_t top = s.num_top;
  TensorPtr found;
  switch (array) {
    case RL_SAMPLE_IDS:
      return tensor_view(sample, s.ids, 0);
    case RL_SAMPLE_LOGPROBS:
      if (!s.logprobs.empty()) return tensor_view(sample, s.logprobs, 0);
      break;
    case RL_SAMPLE_LOGPROBS_SAMPLED:
      if (!s.logprobs_sampled.empty()) return tensor_view(sample, s.logprobs_sampled, 0);
      break;
    case RL_SAMPLE_TOP_IDS:
      if (!s.top_ids.empty()) return tensor_view(sample, s.top_ids, top);
      break;
    case RL_SAMPLE_TOP_LOGPROBS:
      if (!s.top_logprobs.empty()) return tensor_view(sample, s.top_logprobs, top);
      break;
    default:
      refuse("array", str("is ", array, ", expected RL_SAMPLE_IDS to RL_SAMPLE_TOP_LOGPROBS"));
  }
  throw Error(Code::kNotFound, str(sample_name(s), " has no array ", array)).with_key("array");
}

// Where a tensor is wanted.
struct Wanted {
  bool on_device = false;  // in memory of `home`, which is not the host's
  bool copied = false;
  void* stream = nullptr;
};

// The request, which may be null, for a tensor whose values are in memory of `home`.
Wanted wanted_of(const rl_tensor_request* given, DeviceId home) {
  const bool apart = home != DeviceId();
  if (given == nullptr) return {.on_device = apart};
  const rl_tensor_request request = input_struct(given, "request");
  const DeviceId device{request.device, request.device_index};
  const bool on_device = apart && device == home;
  if (!on_device && device != DeviceId()) {
    const std::string there = str("on the CPU (1, 0) or on (", home.kind, ", ", home.index, ")");
    throw Error(Code::kUnsupported,
                str("parameter request.device is (", device.kind, ", ", device.index,
                    "), but tensors are ", apart ? there : "on the CPU"))
        .with_key("request.device");
  }
  if (!on_device) stream_arg(request.stream, "request.stream");
  flags_arg(request.flags, RL_TENSOR_COPY, "request.flags");
  return {on_device, (request.flags & RL_TENSOR_COPY) != 0, request.stream};
}

// Of a tensor of the host's memory.
bool wants_copy(const rl_tensor_request* given) { return wanted_of(given, DeviceId()).copied; }

// A stream that the device does not know is the parameter's error.
template <typename F>
void with_stream_key(const char* parameter, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    if (error.code != Code::kInvalidArgument || !error.key.empty()) throw;
    throw Error(error.code, str("parameter ", parameter, ": ", error.message)).with_key(parameter);
  }
}

// The values are there behind the stream's work, or now.
void hand_over(const Tensor& tensor, void* stream, const char* parameter) {
  if (tensor.order() == nullptr) return stream_arg(stream, parameter);
  with_stream_key(parameter, [&] { tensor.order()->lead(stream); });
}

rl_tensor* issue_as(TensorPtr tensor, bool copied) {
  if (copied) tensor = copy_of(*tensor);
  return issue<rl_tensor>(std::move(tensor));
}

// The weights of an array; keeps their tensors alive.
std::vector<NamedTensor> named_tensors(const rl_weight* weights, size_t count) {
  const std::vector<rl_weight> given = input_structs(weights, count, "weights");
  if (count == 0) refuse("num_weights", "is 0");
  std::vector<NamedTensor> all;
  for (size_t i = 0; i < count; ++i) {
    const auto field = [&](const char* name) { return str("weights[", i, "].", name); };
    all.push_back({std::string(name_arg(given[i].name, given[i].name_len, field("name").c_str())),
                   use(given[i].tensor, field("tensor").c_str())});
  }
  return all;
}

}  // namespace

extern "C" {

void rl_tensor_info_init(rl_tensor_info* info, size_t size) {
  init_struct(info, size, sizeof(*info));
}

rl_status rl_tensor_get_info(const rl_tensor* tensor, rl_tensor_info* info, rl_error** err) {
  clear_result(info);
  return guarded_callback_safe(err, tensor, [&] {
    const auto source = use(tensor, "tensor");
    fill(result_struct(info, "info"), *source);
  });
}

rl_status rl_tensor_retain(const rl_tensor* tensor, rl_tensor** out, rl_error** err) {
  clear(out);
  return guarded_callback_safe(err, tensor, [&] {
    auto source = use(tensor, "tensor");
    require(out, "out");
    *out = issue<rl_tensor>(std::move(source));
  });
}

void rl_tensor_release(rl_tensor* tensor) { drop(tensor); }

rl_status rl_tensor_import_dlpack(rl_runtime* runtime, struct DLManagedTensorVersioned* managed,
                                  void* producer_stream, uint64_t flags, rl_tensor** out,
                                  rl_error** err) {
  ForeignTensor foreign(managed);
  clear(out);
  return guarded(err, runtime, [&] {
    auto owner = use(runtime, "runtime");
    require(managed, "managed");
    const DeviceId home = home_of(*owner);
    if (home == DeviceId()) stream_arg(producer_stream, "producer_stream");
    flags_arg(flags, RL_TENSOR_COPY, "flags");
    require(out, "out");
    TensorPtr tensor = import_tensor(std::move(foreign), {owner, home, order_of(owner)});
    if (tensor->in_host()) {
      stream_arg(producer_stream, "producer_stream");
    } else {
      with_stream_key("producer_stream", [&] { receive(*owner, *tensor, producer_stream); });
    }
    if ((flags & RL_TENSOR_COPY) != 0) {
      tensor = tensor->in_host() ? copy_of(*tensor, owner->ledger().memory())
                                 : copy_on_device(owner, *tensor);
    }
    *out = issue<rl_tensor>(std::move(tensor));
  });
}

rl_status rl_tensor_export_dlpack(const rl_tensor* tensor, void* consumer_stream,
                                  struct DLManagedTensorVersioned** out, rl_error** err) {
  clear(out);
  return guarded(err, tensor, [&] {
    auto source = use(tensor, "tensor");
    require(out, "out");
    hand_over(*source, consumer_stream, "consumer_stream");
    *out = export_tensor(std::move(source), handles_forked);
  });
}

size_t rl_model_weight_count(const rl_model* model) {
  const auto source = use_if_live(model);
  return source != nullptr ? source->model().layout().parameters().size() : 0;
}

rl_status rl_model_weight_name(const rl_model* model, size_t index, const char** name,
                               rl_error** err) {
  clear(name);
  return guarded(err, model, [&] {
    const auto source = use(model, "model");
    require(name, "name");
    const auto& all = source->model().layout().parameters();
    check_index(index, all.size());
    *name = all[index].name.c_str();
  });
}

void rl_tensor_request_init(rl_tensor_request* request, size_t size) {
  if (init_struct(request, size, sizeof(*request))) request->device = RL_DEVICE_CPU;
}

void rl_weight_init(rl_weight* weight, size_t size) {
  if (init_struct(weight, size, sizeof(*weight))) weight->name_len = RL_NUL_TERMINATED;
}

rl_status rl_model_weight(const rl_model* model, const char* name, size_t name_len,
                          const rl_tensor_request* request, rl_tensor** out, rl_error** err) {
  clear(out);
  return guarded(err, model, [&] {
    const auto source = use(model, "model");
    const std::string_view wanted = name_arg(name, name_len, "name");
    const Wanted form = wanted_of(request, home_of(source->runtime()));
    require(out, "out");
    TensorPtr weight = form.on_device ? device_weight(source, wanted, form.copied)
                       : form.copied  ? copy_weight(*source, wanted)
                                      : lend_weight(source, wanted);
    hand_over(*weight, form.stream, "request.stream");
    *out = issue<rl_tensor>(std::move(weight));
  });
}

rl_status rl_trainer_gradient(rl_trainer* trainer, const char* name, size_t name_len,
                              const rl_tensor_request* request, rl_tensor** out, rl_error** err) {
  clear(out);
  return guarded(err, trainer, [&] {
    const auto source = use(trainer, "trainer");
    const std::string_view wanted = name_arg(name, name_len, "name");
    const Wanted form = wanted_of(request, home_of(source->model().runtime()));
    require(out, "out");
    TensorPtr gradient;
    if (form.on_device) {
      with_stream_key("request.stream", [&] {
        gradient = TrainerSession::device_gradient(source, wanted, form.copied, form.stream);
      });
    } else {
      gradient =
          form.copied ? source->copy_gradient(wanted) : TrainerSession::gradient(source, wanted);
    }
    *out = issue<rl_tensor>(std::move(gradient));
  });
}

rl_status rl_model_set_weights(rl_model* model, const rl_weight* weights, size_t num_weights,
                               void* producer_stream, uint64_t as_version, uint64_t* version,
                               rl_error** err) {
  clear(version);
  return guarded(err, model, [&] {
    const auto target = use(model, "model");
    const std::vector<NamedTensor> named = named_tensors(weights, num_weights);
    if (home_of(target->runtime()) == DeviceId()) stream_arg(producer_stream, "producer_stream");
    require(version, "version");
    with_stream_key("producer_stream",
                    [&] { *version = set_weights(*target, named, as_version, producer_stream); });
  });
}

rl_status rl_batch_tensor(const rl_batch* batch, size_t index, int32_t array,
                          const rl_tensor_request* request, rl_tensor** out, rl_error** err) {
  clear(out);
  return guarded(err, batch, [&] {
    const auto box = use(batch, "batch");
    const bool copied = wants_copy(request);
    require(out, "out");
    check_index(index, box->samples.size());
    *out = issue_as(array_of(box->samples[index], array), copied);
  });
}

rl_status rl_event_tensor(const rl_event* event, size_t index, int32_t array,
                          const rl_tensor_request* request, rl_tensor** out, rl_error** err) {
  clear(out);
  return guarded(err, event, [&] {
    const auto source = use(event, "event");
    const bool copied = wants_copy(request);
    require(out, "out");
    *out = issue_as(array_of(event_sample(*source, index).sample, array), copied);
  });
}

}  // extern "C"
