// Families of options belong to a role as a whole, with a few exceptions. Options that are read
// beside another one only (read_when) are refused with that.
#include "pipeline/plan/role_check.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>

#include "core/error.h"
#include "pipeline/config/run_options.h"

namespace rl {
namespace {

using Keys = std::span<const std::string_view>;

// What neither half of a run has, since only the whole one does.
constexpr std::string_view kOfTheWhole[] = {
    "eval.path",
    "model.reward_path",
    "pipeline.max_off_policy_steps",
    "pipeline.record_path",
    "pipeline.replay_path",
    "pipeline.rollout_turns",
    "pipeline.train_turns",
};
constexpr std::string_view kOfRollout[] = {
    "buffer.num_storage_units",
    "data.",
    "engine.",
    "pipeline.free_lane_after_generation",
    "pipeline.max_concurrent_prompts_per_engine",
    "pipeline.over_sampling_prompts",
    "pipeline.partial_rollout",
    "pipeline.prompt_prefetch",
    "pipeline.queue_size",
    "pipeline.reply_timeout_ns",
    "pipeline.reward_timeout_ns",
    "pipeline.score_events",
    "pipeline.turns",
    "sampling.",
};
// Layout of keys and values, the longest sequence, and the longest response of an overlong penalty.
constexpr std::string_view kOfRolloutButReadByBoth[] = {
    "engine.block_size", "engine.kv_dtype", "engine.max_model_len", "sampling.max_new_tokens"};
constexpr std::string_view kOfTraining[] = {
    "algo.",
    "buffer.record_dir",
    "buffer.store_lease_ns",
    "checkpoint.",
    "critic.",
    "metrics.interval_steps",
    "metrics.max_samples",
    "metrics.samples",
    "model.critic_path",
    "model.freeze",
    "model.reference_path",
    "model.teacher_path",
    "model.train_only",
    "optimizer.",
    "parallel.sequence_parallel",
    "pipeline.discard_zero_advantage",
    "pipeline.filter",
    "pipeline.overlong_filter",
    "pipeline.repetition_filter",
    "reference.",
    "schedule.",
    "trainer.",
};
// How many samples a group has, and what a score of one must have.
constexpr std::string_view kOfTrainingButReadByBoth[] = {"algo.advantage", "algo.gdpo_weights"};

// Keys that end in a dot stand for all that begin with them.
bool is_in(Keys keys, std::string_view key) {
  return std::ranges::any_of(
      keys, [&](std::string_view k) { return k.ends_with('.') ? key.starts_with(k) : key == k; });
}

Error unread(const Settings& settings, const std::string& key) {
  const PipelineRole role = settings.pipeline.role;
  const std::string expected = OptionSet().get_text(key);
  const char* const lacks = role == PipelineRole::kTrain ? " generates nothing" : " trains nothing";
  return Error(Code::kConflict,
               str(key, " = ", settings.set.get_text(key),
                   " has no effect: a pipeline of pipeline.role = ", role_name(role), lacks))
      .with_key(key)
      .with_other_key("pipeline.role")
      .with_expected(expected.empty() ? "empty" : expected);
}

Error of_the_whole(const Settings& settings, const std::string& key) {
  return Error(Code::kUnsupported,
               str(key, " = ", settings.set.get_text(key),
                   " is for pipeline.role = both in this build, but pipeline.role is ",
                   role_name(settings.pipeline.role)))
      .with_key(key)
      .with_other_key("pipeline.role");
}

void check_lease(const Settings& settings, Violations& v) {
  try {
    require_lease_length(settings.buffer.store_lease_ns);
  } catch (const Error& e) {
    v.add(e);
  }
}

// Groups leave the store, and the pipeline that generates gets weights, with a checkpoint.
void check_that_it_saves(const Settings& settings, Violations& v) {
  if (settings.checkpoint.every_steps == 0) {
    v.add(Error(Code::kConflict,
                "checkpoint.every_steps is 0, but the pipeline that generates for this one, of "
                "pipeline.role = train, gets weights with its checkpoints")
              .with_key("checkpoint.every_steps")
              .with_other_key("pipeline.role")
              .with_expected(str("1..", settings.pipeline.max_staleness + 1)));
  }
  if (settings.checkpoint.on_failure == CheckpointOnFailure::kContinue) {
    v.add(Error(Code::kConflict,
                "checkpoint.on_failure = continue leaves out a checkpoint, but the pipeline that "
                "generates for this one, of pipeline.role = train, waits for its weights")
              .with_key("checkpoint.on_failure")
              .with_other_key("pipeline.role")
              .with_expected("stop"));
  }
}

// By the next checkpoint that pipeline has given groups for at most max_staleness + 1 steps.
void check_checkpoints(const Settings& settings, Violations& v) {
  const int64_t steps = settings.checkpoint.every_steps, most = settings.pipeline.max_staleness + 1;
  if (settings.checkpoint.dir.empty()) return;
  check_that_it_saves(settings, v);
  if (steps <= most) return;
  v.add(Error(Code::kConflict,
              str("checkpoint.every_steps is ", steps,
                  ", but the pipeline that generates for this one, of pipeline.role = train, gives "
                  "groups for at most ",
                  most,
                  " steps before it gets the weights of a checkpoint: "
                  "pipeline.max_staleness is ",
                  settings.pipeline.max_staleness))
            .with_key("checkpoint.every_steps")
            .with_other_key("pipeline.max_staleness")
            .with_expected(str("at most ", most)));
}

void check_rollout(const Settings& settings, Violations& v) {
  if (settings.data.path.empty()) {
    v.add(Error(Code::kUnsupported,
                "data.path is empty, but a pipeline of pipeline.role = rollout that starts again "
                "draws prompts again, which a feed cannot")
              .with_key("data.path")
              .with_other_key("pipeline.role"));
  }
  if (settings.algo.objective != Objective::kRl) {
    v.add(Error(Code::kConflict,
                str("algo.objective = ", objective_name(settings.algo.objective),
                    " trains, but a pipeline of pipeline.role = rollout only generates"))
              .with_key("algo.objective")
              .with_other_key("pipeline.role")
              .with_expected("rl"));
  }
  if (settings.pipeline.total_steps != 0 && settings.pipeline.weights_dir.empty()) {
    v.add(Error(Code::kConflict,
                str("pipeline.total_steps is ", settings.pipeline.total_steps,
                    ", but a pipeline of pipeline.role = rollout counts the steps of the weights "
                    "that it follows, and pipeline.weights_dir is empty"))
              .with_key("pipeline.total_steps")
              .with_other_key("pipeline.weights_dir")
              .with_expected("0"));
  }
}

}  // namespace

void require_lease_length(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  if (ns == 0 || ns >= kSecond) return;
  const std::string expected = str("0 or at least ", kSecond);
  throw Error(Code::kOutOfRange, str("buffer.store_lease_ns is ", ns, ", expected ", expected))
      .with_key("buffer.store_lease_ns")
      .with_expected(expected);
}

bool is_read_in(PipelineRole role, std::string_view key) {
  if (role == PipelineRole::kBoth) return true;
  if (is_in(kOfTheWhole, key)) return false;
  if (role == PipelineRole::kTrain) {
    return !is_in(kOfRollout, key) || is_in(kOfRolloutButReadByBoth, key);
  }
  return !is_in(kOfTraining, key) || is_in(kOfTrainingButReadByBoth, key);
}

void check_role(const Settings& settings, Violations& violations) {
  const PipelineRole role = settings.pipeline.role;
  if (role == PipelineRole::kBoth) return;
  for (size_t i = 0; i < option_count(); ++i) {
    const std::string key = option_at(i).key;
    if (is_read_in(role, key) || settings.set.is_default(key)) continue;
    if (key == "algo.objective") continue;  // below
    violations.add(is_in(kOfTheWhole, key) ? of_the_whole(settings, key) : unread(settings, key));
  }
  if (role == PipelineRole::kTrain) {
    check_lease(settings, violations);
    check_checkpoints(settings, violations);
  }
  if (role == PipelineRole::kRollout) check_rollout(settings, violations);
}

}  // namespace rl
