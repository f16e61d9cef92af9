// Tensors in the memory of the GPU: weights and gradients that a host reads and writes
// there, and its own tensors as weights, ordered by streams.
#include <gtest/gtest.h>

#include <cstring>

#include "core/encoding/dlpack.h"
#include "core/encoding/tensor_exchange.h"
#include "cuda/device_data.h"
#include "cuda_models/emulated_gpu.h"
#include "pipeline/session/device_tensors.h"
#include "reference/host_parts.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

constexpr DeviceId kGpu{DeviceId::kCuda, 0};
const char* const kNorm = Parts::kNorm;

// A host's array in memory of the device, as DLPack hands it over; counts its end.
class Producer {
 public:
  Producer(DeviceArray<float>& array, std::vector<int64_t> dims) : shape(std::move(dims)) {
    managed.version = {1, 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      ++static_cast<Producer*>(self->manager_ctx)->deleted;
    };
    managed.dl_tensor = {.data = array.data(),
                         .device = {DeviceId::kCuda, 0},
                         .ndim = static_cast<int32_t>(shape.size()),
                         .dtype = {dlpack::kFloat, 32, 1},
                         .shape = shape.data(),
                         .strides = nullptr,
                         .byte_offset = 0};
  }
  Producer(const Producer&) = delete;

  std::vector<int64_t> shape, strides;
  DLManagedTensorVersioned managed{};
  int deleted = 0;
};

class CudaTensors : public ::testing::Test {
 protected:
  CudaTensors() { emulated::restart(0); }
  ~CudaTensors() override { emulated::restart(0); }

  static std::vector<float> host_values(const Tensor& t) {
    const auto* const data = static_cast<const float*>(t.data());
    return {data, data + t.num_elements()};
  }
  // A number that can be no address. CUDA reads what other handles point to.
  static void* no_stream() { return reinterpret_cast<void*>(12344); }
  // By a copy in this stream, which waits for nothing else.
  static std::vector<float> values_in(const Tensor& t, const cuda::Stream& stream) {
    std::vector<float> values(static_cast<size_t>(t.num_elements()));
    RL_CUDA(cudaMemcpyAsync(values.data(), t.data(), t.num_bytes(), cudaMemcpyDeviceToHost,
                            stream.get()));
    stream.wait();
    return values;
  }
  static TensorPtr imported(Parts& parts, Producer& producer, void* stream) {
    const std::shared_ptr<Runtime> runtime = parts.model->shared_runtime();
    TensorPtr tensor = import_tensor(ForeignTensor(&producer.managed),
                                     {runtime, home_of(*runtime), order_of(runtime)});
    receive(*runtime, *tensor, stream);
    return tensor;
  }
};

TEST_F(CudaTensors, AWeightIsTheMastersInPlaceOrACopy) {
  Parts parts(emulated_gpu(), {});
  const cuda::Stream stream(0);
  const TensorPtr live = device_weight(parts.model, kNorm, false),
                  copy = device_weight(parts.model, kNorm, true);
  for (const TensorPtr& t : {live, copy}) {
    EXPECT_EQ(t->device(), kGpu);
    EXPECT_FALSE(t->in_host());
    t->order()->lead(stream.get());
    EXPECT_EQ(values_in(*t, stream), host_values(*copy_weight(*parts.model, kNorm)));
  }
  EXPECT_TRUE(live->read_only());
  EXPECT_FALSE(copy->read_only());
  const std::vector<float> before = values_in(*copy, stream);
  parts.step();
  copy->order()->lead(stream.get());
  EXPECT_EQ(values_in(*copy, stream), before);
  live->order()->lead(stream.get());
  EXPECT_NE(values_in(*live, stream), before);
}

TEST_F(CudaTensors, AnExportNamesTheDevice) {
  Parts parts(emulated_gpu(), {});
  DLManagedTensorVersioned* const managed =
      export_tensor(device_weight(parts.model, kNorm, false), []() noexcept { return false; });
  EXPECT_EQ(managed->dl_tensor.device.device_type, DeviceId::kCuda);
  EXPECT_EQ(managed->dl_tensor.device.device_id, 0);
  EXPECT_EQ(managed->flags, dlpack::kReadOnly);
  managed->deleter(managed);
}

// Work of the runtime on a weight that only ends with `last`: whoever reads it earlier sees ones.
class PendingWrites {
 public:
  PendingWrites(Parts& parts, const Tensor& weight)
      : compute_(parts.model->runtime().compute()),
        values_(static_cast<float*>(const_cast<void*>(weight.data()))),
        count_(weight.num_elements()),
        ones_(std::vector<float>(static_cast<size_t>(count_), 1.0f)) {}
  void enqueue(float last) {
    const auto bytes = static_cast<uint64_t>(count_) * sizeof(float);
    last_.emplace(std::vector<float>(static_cast<size_t>(count_), last));
    for (int i = 0; i < 20; ++i) copy_bytes(compute_, {ones_.data(), values_, bytes});
    copy_bytes(compute_, {last_->data(), values_, bytes});
  }

 private:
  Compute& compute_;
  float* const values_;
  const int64_t count_;
  DeviceArray<float> ones_;
  std::optional<DeviceArray<float>> last_;
};

// A step's last work is still in the stream of ops when it returns. Whoever orders its own stream
// behind it, or waits, reads the new weights; a copy is complete when it is handed out.
TEST_F(CudaTensors, AConsumersStreamRunsBehindWhatWritesTheValues) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    emulated::restart(seed);
    Parts parts(emulated_gpu(), {});
    const TensorPtr weight = device_weight(parts.model, kNorm, false);
    PendingWrites writes(parts, *weight);
    const cuda::Stream stream(0);
    writes.enqueue(2.0f);
    weight->order()->lead(stream.get());
    EXPECT_EQ(values_in(*weight, stream).front(), 2.0f) << "seed " << seed;
    writes.enqueue(3.0f);
    weight->order()->lead(nullptr);
    EXPECT_EQ(values_in(*weight, stream).front(), 3.0f) << "seed " << seed;
    writes.enqueue(4.0f);
    const TensorPtr copy = device_weight(parts.model, kNorm, true);
    EXPECT_EQ(values_in(*copy, stream).front(), 4.0f) << "seed " << seed;
    parts.model->runtime().compute().complete();
  }
}

TEST_F(CudaTensors, AForeignTensorIsReadBehindItsProducersStream) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    emulated::restart(seed);
    Parts parts(emulated_gpu(), {});
    const std::vector<int64_t> shape = copy_weight(*parts.model, kNorm)->shape();
    std::vector<float> wanted(static_cast<size_t>(shape[0]));
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = 0.5f + static_cast<float>(i);
    const DeviceArray<float> from(wanted);
    DeviceArray<float> array(shape[0]);
    Producer producer(array, shape);
    {
      const cuda::Stream stream(0);
      for (int i = 0; i < 20; ++i) {
        RL_CUDA(cudaMemcpyAsync(array.data(), from.data(), wanted.size() * sizeof(float),
                                cudaMemcpyDeviceToDevice, stream.get()));
      }
      const TensorPtr tensor = imported(parts, producer, stream.get());
      const NamedTensor named{kNorm, tensor};
      EXPECT_EQ(set_weights(*parts.model, {&named, 1}), 1u);
      EXPECT_EQ(host_values(*copy_weight(*parts.model, kNorm)), wanted) << "seed " << seed;
      EXPECT_EQ(producer.deleted, 0);
    }
    EXPECT_EQ(producer.deleted, 1);
  }
}

// The stream may be named when the weights are set, too.
TEST_F(CudaTensors, WeightsAreSetBehindAStream) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    emulated::restart(seed);
    Parts parts(emulated_gpu(), {});
    const TensorPtr copy = device_weight(parts.model, kNorm, true);
    const cuda::Stream stream(0);
    auto* const values = const_cast<void*>(copy->data());
    for (int i = 0; i < 20; ++i)
      RL_CUDA(cudaMemsetAsync(values, 0, copy->num_bytes(), stream.get()));
    const NamedTensor named{kNorm, copy};
    set_weights(*parts.model, {&named, 1}, 0, stream.get());
    RL_CUDA(cudaMemsetAsync(values, 1, copy->num_bytes(), stream.get()));  // they were read
    for (const float value : host_values(*copy_weight(*parts.model, kNorm)))
      EXPECT_EQ(value, 0.0f) << "seed " << seed;
  }
}

// Values in bf16 too, and both kinds beside values of the host.
TEST_F(CudaTensors, WeightsOfBothMemoriesAreSetTogether) {
  Parts parts(emulated_gpu(), {});
  const char *const first = "model.layers.0.input_layernorm.weight",
                    *const second = "model.layers.0.post_attention_layernorm.weight";
  const auto count = static_cast<size_t>(copy_weight(*parts.model, kNorm)->num_elements());
  const std::vector<uint16_t> halves(count, 0x3fc0);  // 1.5
  DeviceArray<uint16_t> half(halves);
  DeviceArray<float> whole(std::vector<float>(count, 2.5f));
  const std::shared_ptr<Runtime> runtime = parts.model->shared_runtime();
  const auto shape = std::vector<int64_t>{static_cast<int64_t>(count)};
  OwnedTensor own = make_tensor(ElementType::kF32, shape);
  std::fill_n(reinterpret_cast<float*>(own.data), count, 3.5f);
  const std::vector<NamedTensor> named{
      {first,
       device_tensor(runtime, {.data = half.data(), .type = ElementType::kBf16, .shape = shape})},
      {kNorm, own.tensor},
      {second, device_tensor(runtime, {.data = whole.data(), .shape = shape})}};
  set_weights(*parts.model, named);
  const std::vector<float> wanted{1.5f, 3.5f, 2.5f};
  for (size_t i = 0; i < named.size(); ++i) {
    EXPECT_EQ(host_values(*copy_weight(*parts.model, named[i].name)),
              std::vector<float>(count, wanted[i]));
  }
}

// Values of the device that are not finite are named by their place.
TEST_F(CudaTensors, ValuesOfTheDeviceAreCheckedThere) {
  Parts parts(emulated_gpu(), {});
  const auto count = static_cast<size_t>(copy_weight(*parts.model, kNorm)->num_elements());
  const std::shared_ptr<Runtime> runtime = parts.model->shared_runtime();
  const auto set = [&](const std::vector<float>& values) {
    DeviceArray<float> array(values);
    const NamedTensor named{
        kNorm, device_tensor(runtime, {.data = array.data(),
                                       .shape = {static_cast<int64_t>(values.size())}})};
    set_weights(*parts.model, {&named, 1});
  };
  std::vector<float> values(count, 1.0f);
  values[1] = 3e38f;  // finite, as its square in double is
  set(values);
  const uint64_t digest = parts.model->weight_digest();
  values[3] = std::numeric_limits<float>::infinity();
  const Error error = expect_error(Code::kNonFinite, [&] { set(values); });
  EXPECT_TRUE(contains(error.message, "value 3 in row-major order is inf")) << error.message;
  EXPECT_EQ(parts.model->weight_digest(), digest);
}

TEST_F(CudaTensors, WhatIsNotOfTheDeviceIsRefused) {
  Parts parts(emulated_gpu(), {});
  DeviceArray<float> array(std::vector<float>(8, 1.0f));
  const auto refused = [&](Code code, const std::string& text, auto spoil) {
    Producer producer(array, {2, 4});
    spoil(producer);
    const Error error = expect_error(code, [&] { imported(parts, producer, nullptr); });
    EXPECT_EQ(error.key, "managed");
    EXPECT_TRUE(contains(error.message, text)) << error.message;
    EXPECT_EQ(producer.deleted, 1);
  };
  refused(Code::kUnsupported,
          "device type 2 number 1; librl reads the CPU's memory (1, 0) and that "
          "of (2, 0)",
          [](Producer& p) { p.managed.dl_tensor.device.device_id = 1; });
  refused(Code::kUnsupported, "device type 13 number 0",
          [](Producer& p) { p.managed.dl_tensor.device.device_type = 13; });
  std::vector<float> host(8);
  refused(Code::kInvalidArgument, "data is not memory of device (2, 0)",
          [&](Producer& p) { p.managed.dl_tensor.data = host.data(); });
  refused(Code::kInvalidArgument, "data is not memory of device (2, 0)",
          [&](Producer& p) { p.shape[0] = 1 << 20; });
  // A kernel that read such elements would end the device for the process.
  refused(Code::kUnsupported, "no multiple of 4", [](Producer& p) {
    p.shape[1] = 3;
    p.managed.dl_tensor.byte_offset = 2;
  });
  refused(Code::kUnsupported, "row-major", [](Producer& p) {
    p.strides = {1, 2};
    p.managed.dl_tensor.strides = p.strides.data();
  });
}

TEST_F(CudaTensors, AStreamThatIsNoneIsRefused) {
  Parts parts(emulated_gpu(), {});
  const TensorPtr weight = device_weight(parts.model, kNorm, false);
  const auto odd = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&parts) + 1);
  for (void* number : {no_stream(), odd}) {
    const Error led = expect_error(Code::kInvalidArgument, [&] { weight->order()->lead(number); });
    EXPECT_TRUE(contains(led.message, "the stream is none of device 0")) << led.message;
    EXPECT_TRUE(contains(led.message, "is no handle")) << led.message;
    expect_error(Code::kInvalidArgument, [&] { parts.model->runtime().compute().follow(number); });
  }
  parts.step();  // nothing is lost
}

TEST_F(CudaTensors, AHostsRuntimeRefusesADevicesTensor) {
  Parts gpu(emulated_gpu(), {}), cpu(cpu_device(), {});
  const NamedTensor named{kNorm, device_weight(gpu.model, kNorm, true)};
  const Error error = expect_error(Code::kUnsupported, [&] {
    set_weights(*cpu.model, {&named, 1});
  });
  EXPECT_EQ(error.key, kNorm);
  EXPECT_TRUE(contains(error.message, "on device (2, 0), but the model's runtime reads (1, 0)"))
      << error.message;
  const NamedTensor own{kNorm, device_weight(gpu.model, kNorm, false)};
  EXPECT_EQ(expect_error(Code::kConflict, [&] { set_weights(*gpu.model, {&own, 1}); }).key, kNorm);
}

void backward(Parts& parts) {
  const std::vector<SamplePtr> batch = host_batch(*parts.trainer);
  std::vector<SampleRewards> rewards;
  for (const SamplePtr& s : batch) rewards.push_back(rewards_of(*s));
  parts.trainer->backward({batch, rewards, {}, {}});
}

// A host halves the gradients on the device, or in its own memory: the step is the same.
TEST_F(CudaTensors, GradientsMayBeChangedWhereTheyAre) {
  std::vector<uint64_t> digests;
  for (const bool on_device : {true, false}) {
    emulated::restart(0);
    Parts parts(emulated_gpu(), {});
    backward(parts);
    const TensorPtr all = on_device ? TrainerSession::device_gradient(parts.trainer, "", false)
                                    : TrainerSession::gradient(parts.trainer, "");
    auto* const data = static_cast<float*>(const_cast<void*>(all->data()));
    if (on_device) {
      const cuda::Stream stream(0);
      all->order()->lead(stream.get());
      std::vector<float> values = values_in(*all, stream);
      for (float& value : values) value *= 0.5f;
      RL_CUDA(cudaMemcpyAsync(data, values.data(), all->num_bytes(), cudaMemcpyHostToDevice,
                              stream.get()));
      stream.wait();
    } else {
      for (int64_t i = 0; i < all->num_elements(); ++i) data[i] *= 0.5f;
    }
    parts.trainer->apply();
    digests.push_back(parts.model->weight_digest());
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST_F(CudaTensors, ACopyOfGradientsBindsNobodyToItsMemory) {
  Parts parts(emulated_gpu(), {});
  backward(parts);
  const TensorPtr copy = TrainerSession::device_gradient(parts.trainer, kNorm, true);
  parts.trainer->copy_gradient(kNorm);
  const TensorPtr device = TrainerSession::device_gradient(parts.trainer, kNorm, false);
  EXPECT_FALSE(device->in_host());
  parts.trainer->apply();
  parts.trainer->publish();
  backward(parts);
  TrainerSession::device_gradient(parts.trainer, kNorm, true);
  auto* const values = static_cast<float*>(
      const_cast<void*>(TrainerSession::gradient(parts.trainer, kNorm)->data()));
  values[0] = 7.0f;
  EXPECT_EQ(host_values(*parts.trainer->copy_gradient(kNorm))[0], 7.0f);
  const TensorPtr changed = TrainerSession::device_gradient(parts.trainer, kNorm, true);
  const cuda::Stream stream(0);
  changed->order()->lead(stream.get());
  EXPECT_EQ(values_in(*changed, stream)[0], 7.0f);
}

TEST_F(CudaTensors, GradientsAreHandedOutInOneMemory) {
  Parts parts(emulated_gpu(), {});
  for (const bool device_first : {true, false}) {
    backward(parts);
    const auto on_device = [&] { TrainerSession::device_gradient(parts.trainer, kNorm, false); };
    const auto in_host = [&] { TrainerSession::gradient(parts.trainer, kNorm); };
    device_first ? on_device() : in_host();
    const Error error =
        expect_error(Code::kFailedPrecondition, [&] { device_first ? in_host() : on_device(); });
    EXPECT_EQ(error.key, "request.device");
    EXPECT_TRUE(contains(error.message, device_first ? "the memory of the device" : "of the host"))
        << error.message;
    // Copies are of what will be applied, wherever that is.
    const TensorPtr copy = TrainerSession::device_gradient(parts.trainer, kNorm, true);
    const cuda::Stream stream(0);
    copy->order()->lead(stream.get());
    EXPECT_EQ(values_in(*copy, stream), host_values(*parts.trainer->copy_gradient(kNorm)));
    parts.trainer->apply();
    parts.trainer->publish();
  }
}

// Neither a copy nor a request that fails decides in which memory the host has them.
TEST_F(CudaTensors, WhatHandsOutNoGradientsBindsNobody) {
  Parts parts(emulated_gpu(), {});
  for (const bool on_device : {true, false}) {
    backward(parts);
    const auto gradient = [&](bool device, const char* name) {
      return device ? TrainerSession::device_gradient(parts.trainer, name, false)
                    : TrainerSession::gradient(parts.trainer, name);
    };
    EXPECT_EQ(expect_error(Code::kNotFound, [&] { gradient(!on_device, "no weight"); }).key,
              "name");
    for (const bool copied : {true, false}) {
      const Error error = expect_error(Code::kInvalidArgument, [&] {
        TrainerSession::device_gradient(parts.trainer, kNorm, copied, no_stream());
      });
      EXPECT_TRUE(contains(error.message, "the stream is none of device 0")) << error.message;
    }
    TrainerSession::device_gradient(parts.trainer, kNorm, true);
    parts.trainer->copy_gradient(kNorm);
    EXPECT_EQ(gradient(on_device, kNorm)->in_host(), !on_device);
    parts.trainer->apply();
    parts.trainer->publish();
  }
}

}  // namespace
}  // namespace rl::testing
