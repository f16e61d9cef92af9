// Forwards for a host: of a trainer, or of a model that was opened for them.
#include <cmath>
#include <limits>
#include <vector>

#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/samples.h"
#include "pipeline/session/model_forward.h"

using namespace rl;
using namespace rl::abi;

namespace {

void refuse_range(const char* field, std::string message) {
  throw Error(Code::kOutOfRange, str("parameter ", field, " ", message)).with_key(field);
}

// The sequence of ids as a sample.
SamplePtr sequence_of(const rl_forward& in, ForwardOutput output) {
  const auto ids = array_arg(in.ids, in.num_ids, "forward.ids");
  if (ids.empty()) refuse("forward.num_ids", "is 0");
  if (ids.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    refuse_range("forward.num_ids", str("is ", ids.size()));
  }
  const bool cut = is_per_token(output);
  if (cut && (in.num_prompt == 0 || in.num_prompt >= in.num_ids)) {
    refuse_range("forward.num_prompt", str("is ", in.num_prompt, " of ", in.num_ids, " ids"));
  }
  if (cut && (!(in.temperature > 0) || !std::isfinite(in.temperature))) {
    refuse_range("forward.temperature", str("is ", in.temperature, "; it must be > 0"));
  }
  auto sample = std::make_shared<Sample>();
  sample->ids.assign(ids.begin(), ids.end());
  sample->prompt_tokens = cut ? static_cast<int32_t>(in.num_prompt) : 1;
  sample->temperature = cut ? in.temperature : 1;
  return sample;
}

// Of a batch, or of one sequence.
std::shared_ptr<const BatchBox> box_of(const rl_forward& in, ForwardOutput output) {
  if (in.batch == nullptr) {
    return std::make_shared<BatchBox>(std::vector{sequence_of(in, output)});
  }
  if (in.ids != nullptr || in.num_ids != 0) refuse("forward.ids", "is given beside forward.batch");
  return use(in.batch, "forward.batch");
}

// An error about the one sequence names the field of the struct, which has no sample_id.
void name_sequence(SampleError& error) {
  if (error.field.empty()) {
    error.message = str("the sequence of forward.ids", error.text);
    return;
  }
  error.key = str("forward.", error.field);
  error.message = str("parameter forward.", error.text.substr(2));  // without ": "
}

ForwardPass::Rows rows_of(const rl_forward& in, ForwardOutput output) {
  const auto rows = array_arg(in.rows, in.num_rows, "forward.rows");
  if (in.rows == nullptr) return std::nullopt;
  if (output == ForwardOutput::kHidden || output == ForwardOutput::kLogits) return rows;
  refuse("forward.rows", "is given, but only hidden states and logits are those of rows");
}

ForwardOutput output_of(const rl_forward& in) {
  if (in.output < RL_OUTPUT_LOGPROBS || in.output > RL_OUTPUT_LOGITS) {
    refuse("forward.output",
           str("is ", in.output, ", expected RL_OUTPUT_LOGPROBS to RL_OUTPUT_LOGITS"));
  }
  return static_cast<ForwardOutput>(in.output);
}

// Checks the input and calls compute(request).
template <typename Compute>
TensorPtr forward_output(const rl_forward& in, Compute&& compute) {
  reserved_arg(in.reserved, "forward.reserved");
  reserved_arg(in.reserved2, "forward.reserved2");
  const ForwardOutput output = output_of(in);
  const auto box = box_of(in, output);
  const ForwardRequest request{output, box->samples, rows_of(in, output)};
  if (in.batch != nullptr) {
    return with_places(*box, "forward.batch", [&] { return compute(request); });
  }
  try {
    return compute(request);
  } catch (SampleError& error) {
    name_sequence(error);
    throw;
  }
}

}  // namespace

extern "C" {

void rl_forward_init(rl_forward* forward, size_t size) {
  if (!init_struct(forward, size, sizeof(*forward))) return;
  forward->output = RL_OUTPUT_LOGPROBS;
  forward->temperature = 1;
}

rl_status rl_trainer_forward(rl_trainer* trainer, const rl_forward* forward, rl_tensor** out,
                             rl_error** err) {
  clear(out);
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    const rl_forward input = input_struct(forward, "forward");
    require(out, "out");
    *out = issue<rl_tensor>(
        forward_output(input, [&](const ForwardRequest& r) { return target->forward(r); }));
  });
}

rl_status rl_model_forward(rl_model* model, const rl_forward* forward, rl_tensor** out,
                           rl_error** err) {
  clear(out);
  return guarded(err, model, [&] {
    const auto target = use(model, "model");
    const rl_forward input = input_struct(forward, "forward");
    require(out, "out");
    *out = issue<rl_tensor>(
        forward_output(input, [&](const ForwardRequest& r) { return target->forward(r); }));
  });
}

}  // extern "C"
