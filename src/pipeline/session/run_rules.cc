// What options alone or one model make impossible, with every key reported at once.
#include "pipeline/session/run_rules.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/function_ref.h"
#include "core/violations.h"
#include "formats/open/open_weight_source.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/plan/planner.h"
#include "pipeline/session/loaded_model.h"
#include "rollout/request_check.h"

namespace rl {
namespace {

void check_experiment(const Settings& settings) {
  const std::string& name = settings.runtime.experiment;
  if (name.find('/') == std::string::npos && name != "." && name != "..") return;
  throw Error(Code::kOutOfRange,
              str("runtime.experiment is \"", name, "\"; it must be a single name, not a path"))
      .with_key("runtime.experiment")
      .with_expected("a name without '/', not . and not ..");
}

// Two writers of one file would overwrite each other's lines.
void refuse_shared_files(const Settings& settings, Violations& violations) {
  const MetricsSettings& metrics = settings.metrics;
  const std::pair<const char*, std::string> files[] = {{"metrics.jsonl", metrics.jsonl},
                                                       {"metrics.eval_jsonl", metrics.eval_jsonl},
                                                       {"metrics.samples", metrics.samples}};
  for (size_t i = 0; i < std::size(files); ++i) {
    const auto& [key, given] = files[i];
    const std::string path = output_path(settings, given);
    for (size_t k = 0; k < i && !path.empty(); ++k) {
      const auto& [other, earlier] = files[k];
      if (path != output_path(settings, earlier)) continue;
      violations.add(Error(Code::kConflict, str(other, " and ", key, " are the same file, ", path))
                         .with_key(key)
                         .with_other_key(other));
    }
  }
}

// Engine options that training reads too: the layout of keys and values, the longest sequence.
constexpr const char* kReadWithoutEngine[] = {"engine.block_size", "engine.kv_dtype",
                                              "engine.max_model_len"};

bool is_for_engine(std::string_view key) {
  if (std::ranges::find(kReadWithoutEngine, key) != std::end(kReadWithoutEngine)) return false;
  return key.starts_with("sampling.") || key.starts_with("engine.");
}

std::string default_text(const std::string& key) {
  const std::string text = OptionSet().get_text(key);
  return text.empty() ? "empty" : text;
}

// Adds an error for each option that was set and is never read; why: the end of its message.
void refuse_unread(const Settings& settings, FunctionRef<bool(std::string_view)> is_read,
                   const std::string& why, Violations& violations) {
  const OptionSet& options = settings.set;
  for (size_t i = 0; i < option_count(); ++i) {
    const std::string key = option_at(i).key;
    if (!is_for_engine(key) || is_read(key) || options.is_default(key)) continue;
    violations.add(Error(Code::kConflict, str(key, " = ", options.get_text(key),
                                              " has no effect: a run with algo.objective = ",
                                              objective_name(settings.algo.objective), why))
                       .with_key(key)
                       .with_other_key("algo.objective")
                       .with_expected(default_text(key)));
  }
}

// What evaluations of a run on given responses read of sampling.*; how they sample is eval.*.
constexpr const char* kReadByEvaluations[] = {"sampling.ignore_eos", "sampling.max_new_tokens",
                                              "sampling.seed", "sampling.stop",
                                              "sampling.stop_token_ids"};

// Options of engine and sampling have no effect in a run that never generates, and most of
// sampling.* has none in a run that generates only for evaluations.
void refuse_idle_engine(const Settings& settings, Violations& violations) {
  if (settings.pipeline.role == PipelineRole::kTrain) return;  // check_role
  if (!generates_samples(settings, PlanUse::kPipeline)) {
    const bool never = trained_head(settings) == ModelHead::kScalar;
    const auto nothing = [](std::string_view) { return false; };
    refuse_unread(settings, nothing,
                  never ? " generates nothing" : " and without eval.path generates nothing",
                  violations);
  } else if (!is_rl(settings.algo.objective)) {
    const auto by_evaluations = [](std::string_view key) {
      return !key.starts_with("sampling.") ||
             std::ranges::find(kReadByEvaluations, key) != std::end(kReadByEvaluations);
    };
    refuse_unread(settings, by_evaluations, " generates only for evaluations, which follow eval.*",
                  violations);
  }
}

void refuse_interrupts(const Settings& settings, Violations& violations) {
  const OptionSet& options = settings.set;
  const std::string key = "pipeline.partial_rollout_max_aborts";
  if (options.is_default(key) || settings.pipeline.partial_rollout) return;
  violations.add(Error(Code::kConflict,
                       str(key, " is ", options.get_text(key),
                           ", but a pipeline without pipeline.partial_rollout never changes the "
                           "weights of a sample under way"))
                     .with_key(key)
                     .with_other_key("pipeline.partial_rollout")
                     .with_expected(default_text(key)));
}

// A pipeline drives its engines, and tells of their samples itself.
void refuse_own_engine(const OptionSet& options, Violations& violations) {
  for (const std::string key : {"engine.thread", "engine.stream_tokens"}) {
    if (options.is_default(key)) continue;
    violations.add(
        Error(Code::kConflict, str(key, " is ", options.get_text(key),
                                   ", but it only applies to an engine of a host's own loop"))
            .with_key(key)
            .with_expected(default_text(key)));
  }
}

// Ranks draw their prompts from data.path. Those of parallel.data, and all with engines of their
// own, generate the groups of some ordinals each, and none is replaced. Those of a trainer over a
// store have all groups.
void refuse_with_ranks(const Settings& settings, Violations& violations) {
  if (settings.pipeline.role == PipelineRole::kTrain) return;
  const ParallelSettings& parallel = settings.parallel;
  const char* const axis = rank_axis_of(settings);
  const auto refuse = [&](const char* key, const char* why) {
    violations.add(
        Error(Code::kUnsupported, str(axis, " is ", settings.set.get_text(axis), ", but ", why))
            .with_key(key)
            .with_other_key(axis));
  };
  if (rank_count_of(settings) > 1 && settings.data.path.empty()) {
    refuse("data.path", "data.path is empty: ranks draw their prompts from one file");
  }
  const bool whole = engines_are_whole(settings);
  if (parallel.data == 1 && parallel.context == 1 && !whole) return;
  if (settings.pipeline.filter != PipelineFilter::kNone) {
    refuse("pipeline.filter", "pipeline.filter would replace groups of one rank");
  }
  if (settings.pipeline.discard_zero_advantage) {
    refuse("pipeline.discard_zero_advantage",
           "pipeline.discard_zero_advantage would judge the groups of one rank alone");
  }
  if (!whole) return;
  if (settings.eval.weights == EvalWeights::kEma) {
    refuse("eval.weights",
           "with engine.tensor_parallel_size = 1 rank 0 evaluates alone, and cannot publish "
           "eval.weights = ema without the ranks that divide its model");
  }
  if (settings.checkpoint.metric.starts_with("eval/")) {
    refuse("checkpoint.metric",
           "with engine.tensor_parallel_size = 1 rank 0 evaluates alone, and the ranks that make a "
           "checkpoint with it do not know checkpoint.metric");
  }
}

}  // namespace

std::vector<Error> run_violations(const Settings& settings, const LoadedModel& model) {
  Violations v;
  v.collect([&] { check_experiment(settings); });
  refuse_shared_files(settings, v);
  refuse_idle_engine(settings, v);
  refuse_interrupts(settings, v);
  refuse_own_engine(settings.set, v);
  refuse_with_ranks(settings, v);
  v.collect([&] { eval_sampling_from(settings); });
  // The shortest request is enough for the check: lengths depend on the prompts.
  Request shortest;
  shortest.prompt = {0};
  shortest.max_new_tokens = 1;
  const auto check = [&](const Request& r) {
    check_request(r, {.vocab = model.config().vocab,
                      .max_model_len = 2,
                      .block_size = model.model().block_size(),
                      .num_blocks = 2,
                      .has_tokenizer = model.has_tokenizer(),
                      .eos_ids = model.config().eos_ids});
  };
  Request rules = shortest, ids = shortest, texts = shortest;
  v.collect([&] {
    rules.sampling = sampling_from(settings);
    check(rules);
  });
  ids.stop_token_ids = ids_from(settings.sampling.stop_token_ids);
  texts.stop_strings = settings.sampling.stop;
  v.collect([&] { check(ids); });
  v.collect([&] { check(texts); });
  rules.stop_token_ids = ids.stop_token_ids;
  rules.ignore_eos = settings.sampling.ignore_eos;
  rules.min_new_tokens = std::min<int64_t>(settings.sampling.min_new_tokens, 1);
  if (v.empty()) v.collect([&] { check(rules); });
  // What the option records below refuse is a rule of the registry too, and reported as such.
  if (settings.set.validate_all().empty()) v.add(update_violations(settings));
  return v.errors();
}

std::vector<Error> update_violations(const Settings& settings) {
  Violations v;
  v.collect([&] { advantage_options_from(settings); });
  v.collect([&] { kl_controller_from(settings); });
  v.collect([&] { trainer_options_from(settings, 1, 0); });
  if (has_critic(settings)) v.collect([&] { critic_options_from(settings, 1, 0); });
  return v.errors();
}

std::vector<Error> session_violations(const OptionSet& options, const char* part) {
  Violations v;
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    if (!info.pipeline_only || options.is_default(info.key)) continue;
    v.add(Error(Code::kConflict, str(info.key, " = ", options.get_text(info.key),
                                     " only has an effect in a pipeline, and this is ", part))
              .with_key(info.key)
              .with_expected(default_text(info.key)));
  }
  return v.errors();
}

}  // namespace rl
