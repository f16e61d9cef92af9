// One table of outputs for models and trainers.
#include "pipeline/session/model_forward.h"

#include <vector>

#include "core/error.h"
#include "pipeline/config/run_options.h"
#include "train/passes/output_tensor.h"

namespace rl {
namespace {

const char* name_of(ForwardOutput output) {
  switch (output) {
    case ForwardOutput::kLogprobs:
      return "log-probs";
    case ForwardOutput::kHidden:
      return "hidden states";
    case ForwardOutput::kScores:
      return "scores";
    case ForwardOutput::kEntropies:
      return "entropies";
    case ForwardOutput::kValues:
      return "values";
    case ForwardOutput::kLogits:
      break;
  }
  return "logits";
}

int64_t num_tokens(std::span<const Sample* const> samples) {
  int64_t count = 0;
  for (const Sample* s : samples) count += s->generated();
  return count;
}

struct Floats {
  Floats(const Model& model, int64_t count)
      : owned(make_output(model, ElementType::kF32, {count})),
        values(reinterpret_cast<float*>(owned.data), static_cast<size_t>(count)) {}
  OwnedTensor owned;
  std::span<float> values;
};

TensorPtr per_token(ForwardPass& pass, const Model& model, ForwardOutput output,
                    ForwardPass::Samples samples) {
  const Floats out(model, num_tokens(samples));
  if (output == ForwardOutput::kValues) {
    pass.values(samples, out.values);
  } else if (output == ForwardOutput::kLogprobs) {
    pass.tokens(samples, out.values, {});
  } else {
    std::vector<float> logprobs(out.values.size());
    pass.tokens(samples, logprobs, out.values);
  }
  return out.owned.tensor;
}

}  // namespace

std::vector<const Sample*> inputs_of(const ForwardRequest& request) {
  std::vector<const Sample*> inputs;
  for (const SamplePtr& s : request.samples) {
    if (s == nullptr) {
      throw Error(Code::kInvalidArgument, str("sample ", inputs.size(), " of the batch is null"));
    }
    if (s->prompt_tokens < 0 || s->generated() < 0) {
      throw Error(Code::kOutOfRange, str(sample_name(*s), " has ", s->prompt_tokens,
                                         " prompt tokens among ", s->ids.size()))
          .with_key("prompt_tokens");
    }
    inputs.push_back(s.get());
  }
  return inputs;
}

void require_output(const Model& model, ForwardOutput output) {
  const bool scalar = model.config().scalar_head;
  const bool of_scalar = output == ForwardOutput::kScores || output == ForwardOutput::kValues;
  if (output == ForwardOutput::kHidden || of_scalar == scalar) return;
  throw Error(Code::kFailedPrecondition,
              str("the model has ", scalar ? "a scalar head" : "no scalar head", " and therefore ",
                  "no ", name_of(output)))
      .with_key("algo.objective")
      .with_expected(of_scalar ? "reward_model" : "another objective than reward_model");
}

TensorPtr compute_output(ForwardPass pass, const Model& model, const ForwardRequest& request) {
  require_output(model, request.output);
  const std::vector<const Sample*> inputs = inputs_of(request);
  switch (request.output) {
    case ForwardOutput::kHidden:
      return pass.hidden(inputs, request.rows);
    case ForwardOutput::kLogits:
      return pass.logits(inputs, request.rows);
    case ForwardOutput::kScores: {
      const Floats out(model, static_cast<int64_t>(inputs.size()));
      pass.scores(inputs, out.values);
      return out.owned.tensor;
    }
    default:
      return per_token(pass, model, request.output, inputs);
  }
}

ModelForward::ModelForward(const Model& model, const Settings& settings, const MemoryPlan& plan)
    : model_(model),
      options_(forward_options_from(settings, plan.max_tokens, plan.max_model_len)),
      workspace_("forward workspace", plan.train_workspace_bytes, Touch::kNow,
                 model.compute().memory()),
      buffers_(shape_of(model), options_, workspace_.data()) {}

}  // namespace rl
