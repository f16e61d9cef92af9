// Runs on given responses: what a row of sft, dpo and reward_model may say and how it becomes
// tokens, and that such a run lowers its loss, draws nothing, keeps its books, resumes and replays
// to the same bits.
#include <cmath>
#include <filesystem>

#include "buffer/buffer_file.h"
#include "core/arena.h"
#include "host_batch.h"
#include "pipeline/prompts/prompt_row.h"
#include "pipeline/update/trainer_session.h"
#include "replay_rig.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "tokenized_model.h"

namespace rl {
namespace {

using testing::host_batch;
using testing::Replay;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::write_lines;

std::string ids_text(int first, int count) {
  std::string out = "[";
  for (int i = 0; i < count; ++i) out += str(i > 0 ? ", " : "", (first + 7 * i) % 256);
  return out + "]";
}

// Twelve rows of ids: responses of 3 to 8 tokens.
std::vector<std::string> response_rows(const std::string& objective) {
  std::vector<std::string> rows;
  for (int i = 0; i < 12; ++i) {
    std::string row = str("{\"ids\": ", ids_text(i, 2 + i % 4), ", \"tag\": \"", i, "\"");
    if (objective == "sft") row += str(", \"response\": ", ids_text(50 + i, 3 + i % 6));
    if (objective != "sft") {
      row += str(", \"chosen\": ", ids_text(50 + i, 3 + i % 6));
      row += str(", \"rejected\": ", ids_text(150 + i, 8 - i % 6));
    }
    rows.push_back(row + "}");
  }
  return rows;
}

OptionSet response_options(const TempDir& dir, const std::string& objective) {
  OptionSet o = tiny_options(dir);
  for (const char* key :
       {"engine.max_num_batched_tokens", "engine.max_num_seqs", "pipeline.samples_per_prompt",
        "sampling.ignore_eos", "sampling.max_new_tokens"}) {
    o.unset(key);
  }
  o.set_text("algo.objective", objective);
  o.set_text("pipeline.total_steps", "6");
  o.set_f64("optimizer.lr", 1e-3);
  write_lines(dir.file("data.jsonl"), response_rows(objective));
  return o;
}

class GivenResponses : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Objectives, GivenResponses,
                         ::testing::Values("sft", "dpo", "reward_model"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GivenResponses, LowerTheirLossWithoutGeneratingAnything) {
  const TempDir dir;
  const OptionSet o = response_options(dir, GetParam());
  const bool pairs = std::string(GetParam()) != "sft";
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  EXPECT_TRUE(log.samples.empty());
  ASSERT_EQ(log.steps.size(), 6u);
  const std::vector<double> loss = log.series("actor/loss");
  EXPECT_LT(loss.back(), 0.97 * loss.front());
  if (pairs) {
    // The policy is its reference yet, and a head of zeros scores 0.
    EXPECT_NEAR(loss.front(), std::log(2.0), 1e-12);
    EXPECT_EQ(log.series("rewards/accuracies").back(), 1);
    EXPECT_GT(log.series("rewards/margins").back(), 0);
  }
  for (const char* name : {"critic/score/mean", "rollout/decode_tokens", "timing_s/gen",
                           "pipeline/filter_rounds", "actor/ppo_kl"}) {
    EXPECT_FALSE(log.steps.back().get(name)) << name;
  }
  const LedgerCounts c = rig.pipeline().status().ledger;
  EXPECT_EQ(c.prompts_trained, 24);
  EXPECT_EQ(c.attempts_trained, pairs ? 48 : 24);
  EXPECT_EQ(c.dropped() + c.discarded() + c.attempts_in_flight, 0);
  EXPECT_GT(log.series("prompt_length/mean").front(), 0);
  EXPECT_EQ(log.series("training/epoch").back(), 1);
}

TEST_P(GivenResponses, AreBitForBitTheSameAgainAlsoAfterAResume) {
  const TempDir dir;
  OptionSet o = response_options(dir, GetParam());
  Rig whole(o);
  const RunLog all = whole.start_and_serve();
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_i64("checkpoint.every_steps", 2);
  o.set_i64("pipeline.total_steps", 4);
  Rig(o).start_and_serve();
  o.set_text("pipeline.total_steps", "6");
  o.set_string("checkpoint.resume", dir.file("checkpoints") + "/step_000002");
  o.set_i64("runtime.threads", 2);
  Rig resumed(o);
  const RunLog rest = resumed.start_and_serve();
  ASSERT_EQ(rest.steps.size(), 4u);
  EXPECT_EQ(rest.steps.back().without_times().to_json(),
            all.steps.back().without_times().to_json());
  EXPECT_EQ(resumed.model().weight_digest(), whole.model().weight_digest());
}

TEST_P(GivenResponses, AreRecordedAndReplayed) {
  const TempDir dir;
  OptionSet o = response_options(dir, GetParam());
  o.set_string("buffer.record_dir", dir.file("record"));
  o.set_i64("trainer.global_batch_size", 2);
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.series("training/optimizer_steps"), std::vector<double>(6, 2));
  Replay replay(o);
  for (int step = 1; step <= 6; ++step) {
    replay.step(dir.file(str("record/step_00000", step, ".rlbuf")));
    EXPECT_EQ(replay.metrics.back().get("actor/loss"), log.steps[step - 1].get("actor/loss"));
  }
  BufferFileReader recorded(real_fs(), dir.file("record/step_000001.rlbuf"));
  while (const auto group = recorded.next()) {
    for (const SamplePtr& s : group->samples) EXPECT_EQ(s->tag, str(s->data_row));
  }
  EXPECT_EQ(replay.digest(), rig.model().weight_digest());
}

TEST_P(GivenResponses, TakeNoMemoryForRolloutUnlessTheyEvaluate) {
  const TempDir dir;
  OptionSet o = response_options(dir, GetParam());
  const auto rollout = [&] {
    uint64_t bytes = 0;
    for (const PlanEntry& e : plan_memory(o, real_fs(), PlanUse::kPipeline).parts) {
      bytes += e.phase == "rollout" ? e.bytes : 0;
    }
    return bytes;
  };
  EXPECT_EQ(rollout(), 0u);
  {
    Rig rig(o);
    EXPECT_EQ(rig.runtime().ledger().bytes(),
              plan_memory(o, real_fs(), PlanUse::kPipeline).arena_bytes);
  }
  const bool draws = std::string(GetParam()) != "reward_model";
  write_lines(dir.file("eval.jsonl"), testing::id_rows(3));
  if (!draws) write_lines(dir.file("eval.jsonl"), response_rows("reward_model"));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_i64("eval.every_steps", 3);
  o.set_i64("eval.max_prompts", 3);
  if (draws) o.set_i64("sampling.max_new_tokens", 8);
  EXPECT_EQ(rollout() > 0, draws);
  Rig rig(o);
  EXPECT_EQ(rig.runtime().ledger().bytes(),
            plan_memory(o, real_fs(), PlanUse::kPipeline).arena_bytes);
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.evals.size(), 2u);
  EXPECT_EQ(log.evals[0]->num_scored, 3);
  for (const SamplePtr& s : log.samples) EXPECT_EQ(s->purpose, Purpose::kEval);
  EXPECT_EQ(log.steps.size(), 6u);
}

TEST_P(GivenResponses, RefuseSamplingOptions) {
  const TempDir dir;
  OptionSet o = response_options(dir, GetParam());
  o.set_f64("sampling.temperature", 0.5);
  o.set_i64("sampling.max_new_tokens", 8);
  const Error e = expect_error(Code::kConflict, [&] { Rig rig(o); });
  for (const char* text :
       {"sampling.temperature = 0.5 has no effect", "sampling.max_new_tokens = 8"})
    EXPECT_TRUE(contains(e.message, text));
  EXPECT_EQ(e.other_key, "algo.objective");
  // An engine of the host's own may draw by them.
  LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
  write_lines(dir.file("eval.jsonl"), testing::id_rows(3));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  if (std::string(GetParam()) == "reward_model") {
    EXPECT_EQ(expect_error(Code::kConflict, [&] { Rig rig(o); }).other_key, "algo.objective");
    return;
  }
  // Evaluations generate as eval.* says, and take only their length and ends from sampling.*.
  const Error idle = expect_error(Code::kConflict, [&] { Rig rig(o); });
  EXPECT_EQ(idle.key, "sampling.temperature");
  EXPECT_TRUE(contains(idle.message, "generates only for evaluations"));
  o.set_f64("sampling.temperature", OptionSet().get_f64("sampling.temperature"));
  Rig rig(o);
}

TEST_P(GivenResponses, MayBeFedByTheHost) {
  const TempDir dir;
  OptionSet o = response_options(dir, GetParam());
  o.set_string("data.path", "");
  Rig rig(o);
  const std::vector<std::string> rows = response_rows(GetParam());
  for (size_t i = 0; i < 8; ++i) ASSERT_TRUE(rig.pipeline().feed_line(rows[i]));
  const Error e = expect_error(Code::kDataLoss, [&] {
    rig.pipeline().feed_ids({1, 2, 3}, "no answer");
  });
  EXPECT_TRUE(contains(e.message, "feed:9: /"));
  rig.pipeline().end_feed();
  EXPECT_EQ(rig.start_and_serve().steps.size(), 2u);
}

TEST_P(GivenResponses, OfAWrongRowEndTheRunWithItsPlace) {
  const TempDir dir;
  OptionSet o = response_options(dir, GetParam());
  o.set_bool("data.shuffle", false);
  std::vector<std::string> rows = response_rows(GetParam());
  rows[2] = R"({"ids": [1, 2]})";
  write_lines(dir.file("data.jsonl"), rows);
  Rig rig(o);
  rig.pipeline().start();
  const Error e = expect_error(Code::kDataLoss, [&] {
    while (rig.pipeline().next(10 * testing::kSecond).status == Code::kOk) continue;
  });
  EXPECT_EQ(e.location, dir.file("data.jsonl") + ":3");
  EXPECT_TRUE(contains(e.message, str("is missing: algo.objective = ", GetParam())));
}

// A trainer of the host's own on the samples that a run of the same rows would make.
TEST_P(GivenResponses, AreTakenByTheHostsTrainerWithoutLogprobsAndScores) {
  const TempDir dir;
  const OptionSet o = response_options(dir, GetParam());
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
  TrainerSession trainer(model, testing::for_session(o));
  std::vector<SamplePtr> batch;
  for (const int i : {3, 2, 1, 0}) {
    auto s = std::make_shared<Sample>();
    s->id = static_cast<uint64_t>(i) + 1;
    s->ordinal = static_cast<uint64_t>(i / 2);
    s->slot = static_cast<uint32_t>(i % 2);
    s->ids = {5, 6, 7, 20 + i, 30 + 3 * i, 9};
    s->prompt_tokens = 3;
    s->versions.assign(3, kUnknownVersion);
    s->loss_mask.assign(3, 1);
    batch.push_back(s);
  }
  const double first = trainer.step(batch).get("actor/loss").value();
  EXPECT_LT(trainer.step(batch).get("actor/loss").value(), first);
  const std::vector<double> advantages(4, 1.0);
  const Error e =
      expect_error(Code::kConflict, [&] { trainer.step_with_advantages(batch, advantages); });
  EXPECT_EQ(e.other_key, "algo.objective");
  if (std::string(GetParam()) == "sft") return;
  batch.pop_back();
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { trainer.step(batch); }).key,
            "algo.objective");
}

TEST(GivenResponseRows, SayWhatIsWrongWithThem) {
  const TempDir dir;
  const OptionSet o = tiny_options(dir);
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kModel);
  const auto refused = [&](Objective objective, Code code, const std::string& row,
                           const std::string& what) {
    const Error e = expect_error(code, [&] {
      make_prompt(parse_prompt_row(row, "f:3"), *model, {8, 12, objective}, "f:3");
    });
    EXPECT_EQ(e.location, "f:3") << row;
    EXPECT_TRUE(contains(e.message, what));
  };
  const auto sft = Objective::kSft, dpo = Objective::kDpo, rl = Objective::kRl;
  const Code bad = Code::kDataLoss, range = Code::kOutOfRange;
  refused(sft, bad, R"({"ids": [1]})", "/response is missing");
  refused(sft, bad, R"({"ids": [1], "response": [2], "chosen": [3]})", "/chosen is not read");
  refused(sft, bad, R"({"ids": [1], "response": []})", "/response is not a list");
  refused(sft, bad, R"({"ids": [1], "response": [2, "x"]})", "/response/1 is not a token id");
  refused(sft, bad, R"({"ids": [1], "response": 5})", "/response is number");
  refused(sft, range, R"({"ids": [1], "response": [2, 256]})", "/response/1 is 256");
  refused(sft, range, R"({"ids": [1, 2, 3, 4, 5], "response": [1, 2, 3, 4, 5, 6, 7, 8]})",
          "a prompt of 5 tokens and 8 tokens of /response exceed engine.max_model_len 12");
  refused(sft, Code::kFailedPrecondition, R"({"ids": [1], "response": "x"})", "tokenizer");
  refused(sft, bad, R"({"response": [1]})", "exactly one of");
  refused(dpo, bad, R"({"ids": [1], "chosen": [2]})", "/rejected is missing");
  refused(dpo, bad, R"({"ids": [1], "rejected": [2]})", "/chosen is missing");
  refused(dpo, bad, R"({"ids": [1], "chosen": [2], "rejected": [3], "response": [4]})",
          "/response is not read with algo.objective = dpo");
  refused(Objective::kRewardModel, bad, R"({"ids": [1], "rejected": [2]})",
          "/chosen is missing: algo.objective = reward_model");
  refused(rl, bad, R"({"ids": [1], "response": [2]})",
          "/response is not read with algo.objective = rl or by an evaluation");
  const Prompt pair =
      make_prompt(parse_prompt_row(R"({"rejected": [3], "ids": [1], "chosen": [2, 4]})", "f:3"),
                  *model, {8, 12, dpo}, "f:3");
  EXPECT_EQ(pair.responses, (std::vector<std::vector<int32_t>>{{2, 4}, {3}}));
}

std::shared_ptr<LoadedModel> chat_model(const TempDir& dir, const std::string& chat_template) {
  OptionSet o = tiny_options(dir);
  o.set_string("model.path", std::string(RL_FIXTURES) + "/gguf/tiny_llama_half.gguf");
  o.set_string("model.chat_template_path", dir.file("chat.jinja"));
  std::ofstream(dir.file("chat.jinja")) << chat_template;
  return LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kModel);
}

Prompt sft_prompt(const LoadedModel& model, const std::string& row) {
  return make_prompt(parse_prompt_row(row, "f:3"), model, {8, 256, Objective::kSft}, "f:3");
}

constexpr const char* kChat = R"("messages": [{"role": "user", "content": "hi"}])";

TEST(GivenResponseRows, AChatHasTheAssistantsTurnWithItsEndTokenAndNothingBehindIt) {
  const TempDir dir;
  const auto model = chat_model(
      dir,
      "{% for m in messages %}{{ bos_token }}{{ m.role }}:{{ m.content }}{{ eos_token }}\n"
      "{% endfor %}{% if add_generation_prompt %}{{ bos_token }}assistant:{% endif %}");
  const Prompt p = sft_prompt(*model, str("{", kChat, ", \"response\": \"h\\u00e9llo\"}"));
  const Prompt asked =
      make_prompt(parse_prompt_row(str("{", kChat, "}"), "f:3"), *model, {8, 256}, "f:3");
  EXPECT_EQ(p.ids, asked.ids);  // what a rollout begins with
  std::vector<int32_t> expected = model->encode("h\xc3\xa9llo", {}).ids;
  expected.push_back(model->tokenizer().eos_id().value());
  ASSERT_EQ(p.responses.size(), 1u);
  EXPECT_EQ(p.responses[0], expected);
  // A special token that a response spells stays text.
  const std::string eos(model->tokenizer().token_bytes(expected.back()));
  const auto spelled =
      sft_prompt(*model, str("{", kChat, ", \"response\": \"a", eos, "b\"}")).responses[0];
  EXPECT_EQ(std::ranges::count(spelled, expected.back()), 1);
  EXPECT_EQ(spelled.back(), expected.back());
  // Ids are taken as they are.
  EXPECT_EQ(sft_prompt(*model, str("{", kChat, ", \"response\": [5, 6]}")).responses[0],
            (std::vector<int32_t>{5, 6}));
}

// It refuses a chat of a user and an assistant alone, so the end of a turn is not known.
TEST(GivenResponseRows, AChatOfATemplateForOtherChatsEndsWithTheModelsEndToken) {
  const TempDir dir;
  const auto model = chat_model(
      dir,
      "{% if messages[0].role != 'system' %}{{ raise_exception('no system message') }}{% endif %}"
      "{% for m in messages %}{{ bos_token }}{{ m.content }}{{ eos_token }}\n{% endfor %}"
      "{% if add_generation_prompt %}{{ bos_token }}{% endif %}");
  ASSERT_TRUE(model->chat_stop_ids().empty());
  const auto response = sft_prompt(*model, R"({"messages": [{"role": "system", "content": "s"},
      {"role": "user", "content": "hi"}], "response": "one"})")
                            .responses[0];
  std::vector<int32_t> expected = model->encode("one", {}).ids;
  expected.push_back(model->config().eos_ids.front());
  EXPECT_EQ(response, expected);
}

TEST(GivenResponseRows, APlainTextEndsWithTheModelsEndToken) {
  const TempDir dir;
  const auto model = chat_model(dir, "{{ messages[0].content }}");
  const auto response = sft_prompt(*model, R"({"prompt": "one", "response": " two"})").responses[0];
  std::vector<int32_t> expected = model->encode(" two", {}).ids;
  expected.push_back(model->tokenizer().eos_id().value());
  EXPECT_EQ(response, expected);
}

TEST(GivenResponseRows, OfTheModelsEndsTheTokenizersOwnEndsAPlainText) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const std::string path = testing::with_small_tokenizer(dir);
  auto config = nlohmann::json::parse(read_text_file(real_fs(), path + "/config.json", 1 << 20));
  config["eos_token_id"] = {2, 41};
  write_file_atomically(real_fs(), path + "/config.json", config.dump());
  write_file_atomically(real_fs(), path + "/tokenizer_config.json", R"({"eos_token": "</s>"})");
  o.set_string("model.path", path);
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kModel);
  const auto response = sft_prompt(*model, R"({"prompt": "a", "response": "b"})").responses[0];
  EXPECT_EQ(response.back(), 41);
}

TEST(GivenResponseRows, ATemplateThatDoesNotContinueThePromptIsNamed) {
  const TempDir dir;
  const auto refused = [&](const std::string& chat_template) {
    const auto model = chat_model(dir, chat_template);
    const Error e = expect_error(Code::kIncompatible, [&] {
      sft_prompt(*model, str("{", kChat, ", \"response\": \"x\"}"));
    });
    EXPECT_EQ(e.location, "f:3");
    return e.message;
  };
  EXPECT_TRUE(contains(refused("{{ messages | length }}{{ messages[0].content }}"), "differently"));
  EXPECT_TRUE(contains(refused("{% for m in messages %}{{ m.content }}{% endfor %}"),
                       "no end-of-turn token after /response"));
}

// Samples of another library: ids without log-probs.
// Flags of mixed keys and values are of the log-probs that another library generated with.
TEST(ForeignSamples, AreComparedWhateverTheirFlagsAre) {
  for (const uint8_t mixed : {0, 1}) {
    const TempDir dir;
    const OptionSet o = testing::for_session(tiny_options(dir));
    TrainerSession trainer(LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain), o);
    const auto batch = host_batch(trainer, {.with_logprobs = false});
    for (const SamplePtr& s : batch) s->mixed_kv.assign(3, mixed);
    const MetricList m = trainer.step(batch);
    EXPECT_EQ(m.get("training/logprob_compared_tokens"), m.get("training/loss_tokens"));
    EXPECT_EQ(batch[0]->mixed_kv, std::vector<uint8_t>(3, mixed));
  }
}

TEST(ForeignSamples, AreForwardedOnceSoThatTheirRatioIsOne) {
  for (const std::string assignment : {"algo.policy_loss=ppo_clip", "algo.policy_loss=gspo",
                                       "algo.kl.where=reward", "algo.correction.decoupled=true"}) {
    SCOPED_TRACE(assignment);
    const TempDir dir;
    OptionSet o = tiny_options(dir);
    o.set_assignment(assignment);
    const auto run = [&](bool with_logprobs) {
      const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
      TrainerSession trainer(model, testing::for_session(o));
      MetricList metrics;
      for (int step = 0; step < 2; ++step) {
        const auto batch = host_batch(trainer, {.with_logprobs = with_logprobs});
        metrics = trainer.step(batch);
        EXPECT_EQ(metrics.get("actor/ratio_max"), 1.0);
        EXPECT_EQ(metrics.get("training/samples_without_logprobs"), with_logprobs ? 0.0 : 8.0);
        EXPECT_EQ(metrics.get("training/old_log_prob_samples"), with_logprobs ? 0.0 : 8.0);
        EXPECT_EQ(metrics.get("timing_s/current_log_prob"), 0.0);
        for (const SamplePtr& s : batch) EXPECT_EQ(s->logprobs.empty(), !with_logprobs);
      }
      return model->weight_digest();
    };
    EXPECT_EQ(run(false), run(true));
  }
}

}  // namespace
}  // namespace rl
