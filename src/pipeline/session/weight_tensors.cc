// Each weight of the host is one task, both when values are checked and when they are written.
#include "pipeline/session/weight_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "data/sample.h"
#include "pipeline/session/device_tensors.h"
#include "pipeline/session/step_watch.h"

namespace rl {
namespace {

const Parameter& find_weight(const LoadedModel& model, std::string_view name, std::string key) {
  const std::vector<Parameter>& all = model.model().layout().parameters();
  const auto found = std::ranges::find(all, name, &Parameter::name);
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const Parameter& p : all) names.push_back(p.name);
  throw Error(Code::kNotFound, str("the model has no weight \"", name, "\""))
      .with_key(std::move(key))
      .with_nearest(nearest_names(name, std::move(names)));
}

// What a call for one rank's weights cannot have: ranks that divide masters have a part each.
[[noreturn]] void refuse_divided(const std::string& what) {
  throw Error(Code::kUnsupported,
              str(what, ": with parallel.zero_stage = 3 each rank has a part of the weights"))
      .with_key("parallel.zero_stage")
      .with_expected("0, 1 or 2");
}

// A weight that all ranks have.
const Parameter& find_whole_weight(const LoadedModel& model, std::string_view name) {
  const Parameter& p = find_weight(model, name, "name");
  if (model.model().held_masters().divides(p.offset))
    refuse_divided(str("weight ", p.name, " cannot be read"));
  return p;
}

[[noreturn]] void fail(const NamedTensor& weight, Code code, const std::string& what) {
  throw Error(code, str("weight ", weight.name, ": ", what)).with_key(weight.name);
}

void check_weight(const LoadedModel& model, const Parameter& p, const NamedTensor& weight) {
  const Tensor& t = *weight.values;
  const DeviceId home = home_of(model.runtime());
  if (!t.in_host() && t.device() != home) {
    fail(weight, Code::kUnsupported,
         str("the values are on device (", t.device().kind, ", ", t.device().index,
             "), but the model's runtime reads (1, 0)",
             home == DeviceId() ? "" : str(" and (", home.kind, ", ", home.index, ")")));
  }
  if (t.type() == ElementType::kI32) {
    fail(weight, Code::kWrongType, "the values are int32, expected fp32 or bf16");
  }
  if (t.shape() != p.shape) {
    fail(weight, Code::kIncompatible,
         str("the values have shape ", shape_text(t.shape()), ", expected ", shape_text(p.shape)));
  }
  const auto begin = reinterpret_cast<uintptr_t>(model.model().master());
  const auto size = static_cast<uintptr_t>(model.model().layout().total()) * sizeof(float);
  if (t.lowest() < begin + size && t.end() > begin) {
    fail(weight, Code::kConflict, "the values overlap the model's own weights; copy them first");
  }
}

// Visits values in row-major order, for any address and strides.
template <typename Visit>
void for_each_value(const Tensor& t, Visit&& visit) {
  for_each_run(t, [&](const ElementRun& run) {
    for (int64_t i = 0; i < run.count; ++i) {
      const std::byte* const at = run.data + i * run.stride;
      if (t.type() == ElementType::kF32) {
        float value;
        std::memcpy(&value, at, sizeof value);
        visit(value);
      } else {
        bf16 value;
        std::memcpy(&value, at, sizeof value);
        visit(to_float(value));
      }
    }
  });
}

// Of values of the device in fp32; false also for finite ones whose squares have no sum in double.
bool norm_is_finite(Compute& compute, const Tensor& t) {
  if (t.in_host() || t.type() != ElementType::kF32) return false;
  std::vector<double> chunks(static_cast<size_t>(num_optimizer_chunks(t.num_elements())));
  double squares = 0;
  squared_norm(compute, {static_cast<const float*>(t.data()), t.num_elements(), chunks, squares});
  return std::isfinite(squares);
}

// Values of the device cross to the host only if their norm does not show that all are finite.
void check_finite(Compute& compute, const NamedTensor& weight) {
  if (norm_is_finite(compute, *weight.values)) return;
  int64_t index = 0;
  for_each_value(*in_host(compute, weight.values), [&](float value) {
    if (!std::isfinite(value)) {
      fail(weight, Code::kNonFinite, str("value ", index, " in row-major order is ", value));
    }
    ++index;
  });
}

void write_on_device(Compute& compute, const Tensor& from, const DeviceFloats& to) {
  RL_CHECK(from.is_row_major());
  if (from.type() == ElementType::kF32) {
    return copy_bytes(compute, {from.data(), to.data(), from.num_bytes()});
  }
  widen_bf16(compute, {static_cast<const uint16_t*>(from.data()), to.data(), to.count()});
}

void write(Compute& compute, const Tensor& from, const DeviceFloats& to) {
  if (!from.in_host()) return write_on_device(compute, from, to);
  if (to.is_host_memory()) {
    float* next = to.data();
    return for_each_value(from, [&](float value) { *next++ = value; });
  }
  std::vector<float> values;
  values.reserve(static_cast<size_t>(to.count()));
  for_each_value(from, [&](float value) { values.push_back(value); });
  to.write(values);
}

// Values of the host are visited by all threads at once, those of the device, whose ops have one
// caller at a time, before.
template <typename Visit>
void for_each_weight(Executor& executor, std::span<const NamedTensor> weights, Visit&& visit) {
  const auto count = static_cast<int64_t>(weights.size());
  const auto in_host = [&](int64_t i) { return weights[static_cast<size_t>(i)].values->in_host(); };
  for (int64_t i = 0; i < count; ++i) {
    if (!in_host(i)) visit(static_cast<size_t>(i));
  }
  executor.parallel_for(count, [&](int64_t i, int) {
    if (in_host(i)) visit(static_cast<size_t>(i));
  });
}

std::vector<const Parameter*> targets_of(const LoadedModel& model,
                                         std::span<const NamedTensor> weights) {
  std::vector<const Parameter*> targets;
  std::set<const Parameter*> seen;
  for (const NamedTensor& weight : weights) {
    const Parameter& p = find_weight(model, weight.name, weight.name);
    if (!seen.insert(&p).second) fail(weight, Code::kDuplicate, "it is given twice");
    check_weight(model, p, weight);
    targets.push_back(&p);
  }
  return targets;
}

}  // namespace

TensorPtr lend_weight(std::shared_ptr<const LoadedModel> model, std::string_view name) {
  if (model->runtime().compute().has_own_memory()) return copy_weight(*model, name);
  const Parameter& p = find_whole_weight(*model, name);
  const float* const data = model->model().held_masters().at(p.offset);
  return std::make_shared<const Tensor>(Tensor::Description{.data = data,
                                                            .type = ElementType::kF32,
                                                            .shape = p.shape,
                                                            .read_only = true,
                                                            .owner = std::move(model)});
}

TensorPtr device_weight(std::shared_ptr<const LoadedModel> model, std::string_view name,
                        bool copied) {
  const Parameter& p = find_whole_weight(*model, name);
  const std::shared_ptr<Runtime> runtime = model->shared_runtime();
  const LoadedModel& source = *model;
  TensorPtr weight = device_tensor(runtime, {.data = source.model().held_masters().at(p.offset),
                                             .shape = p.shape,
                                             .read_only = true,
                                             .owner = std::move(model)});
  if (!copied) return weight;
  source.with_steady_weights([&] { weight = copy_on_device(runtime, *weight); });
  return weight;
}

TensorPtr copy_weight(const LoadedModel& model, std::string_view name) {
  const Parameter& p = find_whole_weight(model, name);
  const OwnedTensor copy =
      make_tensor(ElementType::kF32, p.shape, model.runtime().ledger().memory());
  const std::span<float> values(reinterpret_cast<float*>(copy.data), static_cast<size_t>(p.size));
  const MasterFloats masters = model.model().held_masters();
  model.with_steady_weights([&] { masters.part(p.offset, p.size).read(values); });
  return copy.tensor;
}

namespace {

// Versions grow, so that a token's version says which weights are newer.
uint64_t next_version(const Model& m, uint64_t as_version) {
  if (m.masters_changed() || m.trained_version() != m.version()) {
    throw Error(
        Code::kFailedPrecondition,
        "a training step's weights have not been published yet; call rl_trainer_publish first");
  }
  if (as_version == 0) return m.version() + 1;
  if (as_version > m.version() && as_version != kUnknownVersion) return as_version;
  throw Error(Code::kOutOfRange, str("as_version is ", as_version, ", but the weights are version ",
                                     m.version(), " already"))
      .with_key("as_version")
      .with_expected("a version above the present one, or 0");
}

}  // namespace

// With two compute copies engines go on with the published one, and take their turns before and
// after. A pipeline computes alone, so it excludes this and is excluded.
uint64_t set_weights(LoadedModel& model, std::span<const NamedTensor> weights, uint64_t as_version,
                     void* producer_stream) {
  if (model.model().master_cut().divides()) refuse_divided("weights cannot be set");
  const std::vector<const Parameter*> targets = targets_of(model, weights);
  Runtime& runtime = model.runtime();
  const ComputeLease compute(runtime, "setting weights", model.compute_sharing(), &model);
  std::optional<LoadedModel::RunLease> run;
  if (!model.published_apart()) run.emplace(model, "setting weights");
  const LoadedModel::WriteLease lease(model, runtime.busy_timeout_ns());
  Model& m = model.model();
  model.prepare_compute(LoadedModel::Weights::kTrained);
  const uint64_t version = next_version(m, as_version);
  Compute& device = runtime.compute();
  if (producer_stream != nullptr) device.follow(producer_stream);
  for_each_weight(runtime.executor(), weights, [&](size_t i) { check_finite(device, weights[i]); });
  StepWatch watch(model, nullptr);
  m.mark_masters_changed();
  for_each_weight(runtime.executor(), weights, [&](size_t i) {
    const Parameter& p = *targets[i];
    write(device, *weights[i].values, m.masters().part(p.offset, p.size));
  });
  device.complete();  // the host may write to its own tensors again
  m.publish_as(version);
  watch.done();
  return version;
}

}  // namespace rl
