// Combinations of options. Two tables: options that act only beside a certain value of another one
// (setting them without it would be silently inert, which is an error), and checks over several
// values.
#include <string>

#include "core/options.h"

namespace rl {
namespace {

// key, when it differs from its default, acts only if the text of other is (or, negated, is not)
// value.
struct Needs {
  const char* key;
  const char* other;
  bool negated;
  const char* value;
};

constexpr Needs kNeeds[] = {
    {"algo.adv_eps", "algo.adv_norm_std", false, "true"},
    {"algo.clip_high", "algo.policy_loss", false, "ppo_clip"},
    {"algo.clip_low", "algo.policy_loss", false, "ppo_clip"},
    {"algo.kl.coef", "algo.kl.where", true, "none"},
    {"algo.kl.estimator", "algo.kl.where", true, "none"},
    {"checkpoint.every_steps", "checkpoint.dir", true, ""},
    {"data.shuffle_seed", "data.shuffle", false, "true"},
    {"engine.memory_fraction", "runtime.memory_budget_bytes", true, "0"},
    {"eval.every_steps", "eval.path", true, ""},
    {"eval.max_new_tokens", "eval.path", true, ""},
    {"eval.max_prompts", "eval.path", true, ""},
    {"model.reference_path", "algo.kl.where", true, "none"},
    {"profiler.timeline.dir", "profiler.timeline.enable", false, "true"},
    {"sampling.min_p", "sampling.temperature", true, "0"},
    {"sampling.top_k", "sampling.temperature", true, "0"},
    {"sampling.top_p", "sampling.temperature", true, "0"},
    {"schedule.min_lr", "schedule.name", true, "constant"},
    {"schedule.total_steps", "schedule.name", true, "constant"},
};

// key is the one to name first; violated gives one sentence, or an empty text.
struct Rule {
  const char* key;
  std::string (*violated)(const OptionSet&);
};

std::string at_most(const OptionSet& o, const char* small, const char* large) {
  const int64_t a = o.get_i64(small), b = o.get_i64(large);
  return a <= b ? "" : str(small, " is ", a, " but must not exceed ", large, ", which is ", b);
}

constexpr Rule kRules[] = {
    {"algo.advantage",
     [](const OptionSet& o) -> std::string {
       if (o.get_i64("pipeline.samples_per_prompt") > 1) return "";
       return "algo.advantage = grpo compares the samples of a prompt, but "
              "pipeline.samples_per_prompt is 1: every advantage would be 0";
     }},
    {"checkpoint.resume",
     [](const OptionSet& o) -> std::string {
       const bool automatic = o.get_string("checkpoint.resume") == "auto";
       if (!automatic || !o.get_string("checkpoint.dir").empty()) return "";
       return "checkpoint.resume = auto looks into checkpoint.dir, which is empty";
     }},
    {"checkpoint.resume",
     [](const OptionSet& o) -> std::string {
       if (!o.get_string("checkpoint.resume").empty()) return "";
       return "checkpoint.resume is empty; it is never, auto or the path of a checkpoint";
     }},
    {"engine.max_num_seqs",
     [](const OptionSet& o) {
       return at_most(o, "engine.max_num_seqs", "engine.max_num_batched_tokens");
     }},
    {"sampling.max_new_tokens",
     [](const OptionSet& o) -> std::string {
       const int64_t most = o.get_i64("engine.max_model_len");
       const int64_t tokens = o.get_i64("sampling.max_new_tokens");
       if (most == 0 || tokens < most) return "";
       return str("sampling.max_new_tokens is ", tokens,
                  " and leaves no room for a prompt: engine.max_model_len is ", most);
     }},
    {"profiler.timeline.dir",
     [](const OptionSet& o) -> std::string {
       const bool enabled = o.get_bool("profiler.timeline.enable");
       if (!enabled || !o.get_string("profiler.timeline.dir").empty()) return "";
       return "profiler.timeline.enable is true but profiler.timeline.dir is empty";
     }},
    {"schedule.total_steps",
     [](const OptionSet& o) -> std::string {
       const std::string& name = o.get_string("schedule.name");
       if (name == "constant" || o.get_i64("schedule.total_steps") > 0) return "";
       return str("schedule.name = ", name, " needs schedule.total_steps");
     }},
    {"schedule.warmup_steps",
     [](const OptionSet& o) -> std::string {
       if (o.get_i64("schedule.total_steps") == 0) return "";
       return at_most(o, "schedule.warmup_steps", "schedule.total_steps");
     }},
    {"schedule.min_lr",
     [](const OptionSet& o) -> std::string {
       const double low = o.get_f64("schedule.min_lr"), lr = o.get_f64("optimizer.lr");
       return low <= lr ? "" : str("schedule.min_lr is ", low, " but optimizer.lr is ", lr);
     }},
    {"trainer.num_minibatches",
     [](const OptionSet& o) -> std::string {
       const int64_t samples =
           o.get_i64("pipeline.prompts_per_step") * o.get_i64("pipeline.samples_per_prompt");
       const int64_t parts = o.get_i64("trainer.num_minibatches");
       if (parts <= samples) return "";
       return str("trainer.num_minibatches is ", parts, " but a step has ", samples, " samples");
     }},
};

}  // namespace

std::vector<Error> OptionSet::validate_all() const {
  std::vector<Error> errors;
  for (const Needs& need : kNeeds) {
    const std::string other = get_text(need.other);
    if (is_default(need.key) || (other == need.value) != need.negated) continue;
    const std::string shown = other.empty() ? "empty" : other;
    errors.push_back(Error(Code::kConflict, str(need.key, " = ", get_text(need.key),
                                                " has no effect while ", need.other, " is ", shown))
                         .with_key(need.key));
  }
  for (const Rule& rule : kRules) {
    const std::string sentence = rule.violated(*this);
    if (!sentence.empty()) errors.push_back(Error(Code::kConflict, sentence).with_key(rule.key));
  }
  return errors;
}

void OptionSet::validate() const {
  std::vector<Error> errors = validate_all();
  if (errors.empty()) return;
  if (errors.size() == 1) throw errors.front();
  std::string all = str(errors.size(), " options conflict");
  for (const Error& error : errors) all += str("; ", error.message);
  throw Error(Code::kConflict, all).with_key(errors.front().key).with_cause(errors.front());
}

}  // namespace rl
