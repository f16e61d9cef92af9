// Whole runs against tests/fixtures/runs: every event with its fields, every sample and metric, the
// ledger and the records are what they were. A change that is meant to move them rewrites the files
// with RL_WRITE_GOLDEN_RUNS=tests/fixtures/runs, and the diff shows what moved.
#include <cstdlib>

#include "golden_log.h"
#include "host_batch.h"
#include "scenarios.h"

namespace rl::testing {
namespace {

// Two minibatches: the second one's ratios are not 1.
Scenario policy_loss(const char* name, Texts more = {}) {
  more.insert(more.begin(), {str("algo.policy_loss=", name), "trainer.num_minibatches=2",
                             "optimizer.lr=3e-2", "algo.entropy_coef=0.01"});
  return {.name = name, .assignments = more};
}

std::vector<Scenario> golden_scenarios() {
  std::vector<Scenario> all = scenarios();
  std::erase_if(all, [](const Scenario& s) { return s.timed; });
  for (const char* loss : {"none", "sapo", "dro"}) all.push_back(policy_loss(loss));
  const Texts clips = {"algo.clip_low=0.02", "algo.clip_high=0.03"};
  for (const char* loss : {"ppo_clip", "gspo", "cispo", "gmpo", "dppo_tv", "dppo_kl"}) {
    all.push_back(policy_loss(loss, clips));
  }
  all.push_back(policy_loss(
      "clip_cov", {"algo.cov_ratio=0.2", "algo.clip_cov_low=-10", "algo.clip_cov_high=10"}));
  all.push_back(policy_loss("kl_cov", {"algo.cov_ratio=0.2"}));
  const std::vector<Scenario> more = {
      {.name = "shaped rewards",
       .assignments = {"algo.reward.normalize=true", "algo.reward.truncation_penalty=0.5",
                       "algo.whiten=eps", "algo.loss_agg=seq_mean_token_mean"}},
      {.name = "sampling rules",
       .assignments = {"sampling.top_k=40", "sampling.top_p=0.9", "sampling.min_p=0.01",
                       "sampling.repetition_penalty=1.1", "sampling.presence_penalty=0.2",
                       "sampling.frequency_penalty=0.1", "sampling.temperature=0.8",
                       "sampling.logprobs=2", "pipeline.total_steps=2"}},
      {.name = "responses that stop",
       .assignments = {"sampling.ignore_eos=false", "sampling.stop_token_ids=3,17,40,77,120,200",
                       "sampling.min_new_tokens=2", "pipeline.total_steps=2"}},
      {.name = "stop tokens at the last position",
       .assignments =
           {"sampling.ignore_eos=false", "sampling.max_new_tokens=4",
            "sampling.stop_token_ids=7,12,26,38,55,61,74,88,97,112,126,131,147,162,173,186,"
            "198,202,212,226,231,239,247,250",
            "pipeline.total_steps=2"}},
      {.name = "intervals while the critic warms up",
       .assignments = {"algo.advantage=gae", "algo.critic_warmup_steps=1", "pipeline.total_steps=3",
                       "engine.stats_interval_ns=1ns"}},
      {.name = "algorithms of the host",
       .assignments = {"algo.advantage=custom", "algo.policy_loss=custom",
                       "trainer.num_minibatches=2", "optimizer.lr=3e-2"}},
      {.name = "two engines and few blocks",
       .assignments = {"engine.num_engines=2", "engine.max_num_seqs=3", "pipeline.total_steps=2"}},
      {.name = "cut micro-batches",
       .assignments = {"trainer.max_tokens_per_device=48", "trainer.balance=tokens",
                       "trainer.epochs=2", "trainer.pad_to_multiple_of=16",
                       "trainer.logprob_chunk_tokens=5"}},
      {.name = "one step off",
       .assignments = {"pipeline.mode=one_step_off", "model.compute_copies=2",
                       "trainer.max_tokens_per_device=48", "pipeline.total_steps=3"}},
      {.name = "async by a reward model",  // which nobody waits for, so times decide nothing
       .assignments = {"pipeline.mode=async", "model.compute_copies=2", "pipeline.max_staleness=2",
                       "pipeline.partial_rollout=true", "trainer.max_tokens_per_device=48",
                       "sampling.max_new_tokens=12", "pipeline.total_steps=4"},
       .rewarded = true},
      {.name = "distill in chunks",
       .objective = "distill",
       .assignments = {"trainer.logprob_chunk_tokens=5", "trainer.max_tokens_per_device=48"}},
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// With an epsilon as large as gradients an update follows their values and not only their signs,
// so that the last digits of a gradient stay last digits of the weights.
OptionSet golden_options(const Scenario& run, const TempDir& dir) {
  OptionSet o = options_of(run, dir);
  o.set_f64("optimizer.eps", 1e-2);
  return o;
}

std::vector<std::string> log_of_sessions(const Scenario& run) {
  const TempDir dir;
  const OptionSet o = golden_options(run, dir);
  TrainerSession trainer(LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain),
                         for_session(o));
  const bool is_sft = std::string_view(run.objective) == "sft";
  const std::vector<SamplePtr> batch = host_batch(trainer, {.with_logprobs = !is_sft});
  const std::vector<double> advantages(batch.size(), 0.5);
  GoldenLog log;
  log.metrics("step", run.lacks.contains("estimated")
                          ? trainer.step_with_advantages(batch, advantages)
                          : trainer.step(batch));
  log.line("version", trainer.trained_version());
  return log.lines();
}

// Advantages are rewards, the loss is the negative ratio times the advantage.
void set_algorithms(Pipeline& p) {
  p.set_custom_advantage([](const AlgoArrays& in, std::span<double> advantages) {
    size_t t = 0;
    for (size_t i = 0; i < in.lengths.size(); ++i) {
      for (int32_t g = 0; g < in.lengths[i]; ++g) advantages[t++] = in.rewards[i];
    }
  });
  p.set_custom_loss(
      [](const AlgoArrays& in, std::span<const double> weights, std::span<double> gradient) {
        double loss = 0;
        for (size_t t = 0; t < weights.size(); ++t) {
          const double ratio = std::exp(double{in.logprobs[t]} - in.old_logprobs[t]);
          loss -= weights[t] * ratio * in.advantages[t];
          gradient[t] -= weights[t] * ratio * in.advantages[t];
        }
        return loss;
      });
}

std::vector<std::string> log_of_pipeline(const Scenario& run) {
  const TempDir dir;
  OptionSet o = golden_options(run, dir);
  const std::string_view objective = run.objective;
  const bool keeps = objective != "dpo" && objective != "reward_model";
  if (keeps) o.set_string("metrics.samples", dir.file("samples.jsonl"));
  Rig rig(o);
  const std::span<const float> masters(rig.model().model().master(),
                                       rig.model().model().layout().num_parameters());
  const std::vector<float> before(masters.begin(), masters.end());
  if (run.on_score) rig.on_score = run.on_score;
  if (o.get_string("algo.policy_loss") == "custom") set_algorithms(rig.pipeline());
  GoldenLog log;
  rig.on_event = [&](const Event& e) { log.event(e); };
  rig.start_and_serve();
  log.ledger(rig.pipeline().status().ledger);
  log.change(before, masters);
  if (keeps) log.text_file("kept", dir.file("samples.jsonl"));
  return log.lines();
}

std::string file_of(const std::string& dir, const Scenario& run) {
  std::string name = run.name;
  std::ranges::replace(name, ' ', '_');
  std::erase_if(name, [](char c) { return c == ':' || c == ','; });
  return str(dir, "/", name, ".txt");
}

class GoldenRun : public ::testing::TestWithParam<Scenario> {};
INSTANTIATE_TEST_SUITE_P(All, GoldenRun, ::testing::ValuesIn(golden_scenarios()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase_if(name, [](char c) {
                             return std::isalnum(static_cast<unsigned char>(c)) == 0;
                           });
                           return name;
                         });

TEST_P(GoldenRun, DoesWhatItDid) {
  const Scenario& run = GetParam();
  const std::vector<std::string> lines = run.part ? log_of_sessions(run) : log_of_pipeline(run);
  if (const char* dir = std::getenv("RL_WRITE_GOLDEN_RUNS")) {
    write_lines(file_of(dir, run), lines);
    return;
  }
  std::vector<std::string> expected;
  ReadNotes notes;
  for_each_line(real_fs(), file_of(std::string(RL_FIXTURES) + "/runs", run), notes,
                [&](size_t, std::string_view text) { expected.emplace_back(text); });
  EXPECT_EQ(lines.size(), expected.size());
  int shown = 0;
  for (size_t i = 0; i < std::min(lines.size(), expected.size()) && shown < 5; ++i) {
    if (same_line(lines[i], expected[i])) continue;
    ADD_FAILURE() << "line " << i + 1 << "\n  is       " << lines[i] << "\n  expected "
                  << expected[i];
    ++shown;
  }
}

}  // namespace
}  // namespace rl::testing
