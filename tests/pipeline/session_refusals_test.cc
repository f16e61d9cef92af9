// What the objects of a host refuse, with the names and numbers of the refusal: options that differ
// from those of runtime and model, leases that exclude each other, half-trained weights, room for
// arenas, and options that nothing would read.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <tuple>

#include "pipeline/session/loaded_model.h"
#include "pipeline/session/run_rules.h"
#include "pipeline/session/step_watch.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::fixture_model;
using testing::tiny_options;
using Texts = std::vector<std::string>;

// Options that must have the value of this parent.
size_t num_options_of(OptionParent parent) {
  size_t count = 0;
  for (size_t i = 0; i < option_count(); ++i) count += option_at(i).same_as == parent;
  return count;
}

// The llama fixture, opened with options that differ from tiny_options by assignments.
class Session {
 public:
  explicit Session(const Texts& texts = {}) : options(tiny_options(dir_)) {
    for (const std::string& text : texts) options.set_assignment(text);
    runtime = std::make_shared<Runtime>(options);
    model = LoadedModel::open(runtime, options, PlanUse::kModel);
  }
  OptionSet with(const Texts& texts) const {
    OptionSet o = options;
    for (const std::string& text : texts) o.set_assignment(text);
    return o;
  }

 private:
  const TempDir dir_;

 public:
  OptionSet options;
  std::shared_ptr<Runtime> runtime;
  std::shared_ptr<LoadedModel> model;
};

TEST(SessionRefusals, OptionsOfTheModelAreThoseItWasOpenedWith) {
  const Session s({"engine.max_model_len=64"});
  const std::tuple<const char*, const char*, std::string> cases[] = {
      {"engine.block_size", "32", "16"},    {"engine.kv_dtype", "bf16", "auto"},
      {"engine.max_model_len", "63", "64"}, {"model.chat_template_path", "t", ""},
      {"model.compute_copies", "2", "1"},   {"model.path", "elsewhere", fixture_model("llama")}};
  OptionSet all = s.options;
  for (const auto& [key, text, opened] : cases) {
    SCOPED_TRACE(key);
    const Error e = expect_error(Code::kConflict, [&, key = key, text = text] {
      require_same_model(*s.model, s.with({str(key, "=", text)}));
    });
    EXPECT_EQ(e.key, key);
    EXPECT_EQ(e.expected, opened);
    EXPECT_EQ(e.message, str(key, " is '", text, "' but the model was opened with '", opened, "'"));
    all.set_text(key, text);
  }
  EXPECT_EQ(std::size(cases), num_options_of(OptionParent::kModel));
  all.set_text("algo.objective", "reward_model");
  const Error joined = expect_error(Code::kConflict, [&] { require_same_model(*s.model, all); });
  EXPECT_EQ(joined.parts.size(), 7u);
  EXPECT_EQ(joined.parts.at(6).key, "algo.objective");
  EXPECT_EQ(joined.parts.at(6).expected, "rl");
  require_same_model(*s.model, s.with({"engine.num_engines=2", "algo.objective=sft"}));
}

TEST(SessionRefusals, OptionsOfTheRuntimeAreThoseItWasMadeWith) {
  const Session s({"runtime.memory_budget_bytes=4GiB"});
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"comm.backend", "gloo", "local"},
      {"comm.memory_check", "true", "false"},
      {"comm.memory_check_threshold_bytes", "3", "5000000000"},
      {"comm.rank", "1", "0"},
      {"comm.reduction_order", "backend", "ranks"},
      {"comm.rendezvous", "file:there", ""},
      {"comm.timeout_ns", "3", "1800000000000"},
      {"engine.tensor_parallel_size", "1", "0"},
      {"parallel.context", "2", "1"},
      {"parallel.context_kind", "ulysses", "all_gather"},
      {"parallel.context_zigzag", "true", "false"},
      {"parallel.data", "2", "1"},
      {"parallel.reduction_parts", "2", "1"},
      {"parallel.sequence_parallel", "true", "false"},
      {"parallel.pipeline", "2", "1"},
      {"parallel.pipeline_first_layers", "2", "0"},
      {"parallel.pipeline_last_layers", "2", "0"},
      {"parallel.tensor", "2", "1"},
      {"parallel.zero_group", "2", "0"},
      {"sync.bucket_bytes", "65536", "67108864"},
      {"runtime.busy_timeout_ns", "3", "0"},
      {"runtime.device_index", "1", "0"},
      {"runtime.gpu_ranges", "true", "false"},
      {"runtime.host_memory_budget_bytes", "5", "0"},
      {"runtime.memory_budget_bytes", "5", "4294967296"},
      {"runtime.memory_margin_bytes", "6", "0"},
      {"runtime.cpus", "0", ""},
      {"runtime.instance", "9", "0"},
      {"runtime.seed", "8", "7"},
      {"runtime.threads", "2", "1"},
      {"model.dtype", "auto", "fp32"}};
  OptionSet all = s.options;
  for (const auto& [key, text, made] : cases) {
    SCOPED_TRACE(key);
    const Error e = expect_error(Code::kConflict, [&, key = key, text = text] {
      s.runtime->require_same(s.with({str(key, "=", text)}));
    });
    EXPECT_EQ(e.key, key);
    EXPECT_EQ(e.expected, made);
    EXPECT_EQ(e.message, str(key, " is '", text, "' but the runtime was made with '", made, "'"));
    all.set_text(key, text);
  }
  const Error joined = expect_error(Code::kConflict, [&] { s.runtime->require_same(all); });
  EXPECT_EQ(joined.parts.size(), std::size(cases));
  EXPECT_EQ(std::size(cases) + 1, num_options_of(OptionParent::kRuntime))
      << "runtime.device has one value on a machine without a GPU";
  s.runtime->require_same(s.with({"runtime.log_level=error", "runtime.experiment=e"}));
}

TEST(SessionRefusals, OneThingComputesAtATime) {
  const Session s;
  {
    const ComputeLease first(*s.runtime, "this");
    const Error e = expect_error(Code::kBusy, [&] { ComputeLease(*s.runtime, "that"); });
    EXPECT_EQ(e.message, "that cannot compute now: the runtime is busy with this");
  }
  const ComputeLease later(*s.runtime, "that");
}

TEST(SessionRefusals, ARunHasTheModelAlone) {
  const Session s;
  LoadedModel& m = *s.model;
  std::optional<LoadedModel::UseLease> one(m), two(m);
  EXPECT_EQ(expect_error(Code::kBusy, [&] { LoadedModel::RunLease(m, "a run"); }).message,
            "2 engines have requests on the model");
  one.reset();
  two.reset();
  const LoadedModel::RunLease run(m, "a run");
  const char* held = "the model is in use by a run";
  EXPECT_EQ(expect_error(Code::kBusy, [&] { LoadedModel::RunLease(m, "another"); }).message, held);
  EXPECT_EQ(expect_error(Code::kBusy, [&] { LoadedModel::UseLease use(m); }).message, held);
  EXPECT_EQ(expect_error(Code::kBusy, [&] { m.drop_packed(false); }).message, held);
  const LoadedModel::WriteLease write(m, 0);  // the run's own
}

TEST(SessionRefusals, WeightsOfOneCopyDoNotChangeUnderRequests) {
  const Session s;
  LoadedModel& m = *s.model;
  std::optional<LoadedModel::UseLease> one(m), two(m);
  const Error e = expect_error(Code::kBusy, [&] { LoadedModel::WriteLease(m, 0); });
  EXPECT_EQ(e.key, "model.compute_copies");
  EXPECT_EQ(e.expected, "2, or engines without requests");
  EXPECT_TRUE(contains(e.message, "while 2 engines have requests"));
  EXPECT_EQ(expect_error(Code::kBusy, [&] { m.drop_packed(false); }).message,
            "2 other engines have requests on the weights");
  EXPECT_EQ(expect_error(Code::kBusy, [&] { m.drop_packed(true); }).message,
            "1 other engines have requests on the weights");
  two.reset();
  m.drop_packed(true);
  m.prepare_compute(LoadedModel::Weights::kPublished);
  one.reset();
  const LoadedModel::WriteLease write(m, 0);
}

TEST(SessionRefusals, WhatNeedsWeightsInTrainingWaitsForItsEnd) {
  const Session s({"runtime.busy_timeout_ns=1h"});
  LoadedModel& m = *s.model;
  const uint64_t digest = m.weight_digest();
  std::optional<LoadedModel::WriteLease> write(std::in_place, m, 0);
  std::atomic<int> done = 0;
  std::jthread reader([&] {
    EXPECT_EQ(m.weight_digest(), digest);
    ++done;
  });
  std::jthread user([&] {
    const LoadedModel::UseLease use(m);
    ++done;
  });
  EXPECT_EQ(done, 0);
  write.reset();
  reader.join();
  user.join();
  EXPECT_EQ(done, 2);
}

TEST(SessionRefusals, WeightsInTrainingAreNotRead) {
  for (const char* copies : {"model.compute_copies=1", "model.compute_copies=2"}) {
    SCOPED_TRACE(copies);
    const Session s({copies});
    LoadedModel& m = *s.model;
    const TempDir dir;
    {
      const LoadedModel::WriteLease write(m, 0);
      const auto refused = [](auto&& call) {
        EXPECT_EQ(expect_error(Code::kBusy, call).message, "the weights are being trained");
      };
      refused([&] { m.weight_digest(); });
      refused([&] { m.identity(); });
      refused([&] { m.with_steady_weights([] { FAIL() << "they are not steady"; }); });
      refused([&] { m.save(dir.file("m"), Dtype::kF32, false); });
      refused([&] { m.drop_packed(false); });
      refused([&] { m.publish_packed([] { return uint64_t{1}; }); });
      refused([&] { LoadedModel::WriteLease(m, 0); });
      if (m.published_apart()) {
        const LoadedModel::UseLease use(m);  // engines read their own copy
      } else {
        refused([&] { LoadedModel::UseLease use(m); });
      }
    }
    const LoadedModel::WriteLease again(m, 0);
  }
}

TEST(SessionRefusals, HalfTrainedWeightsAreNamedByTheStepThatFailed) {
  for (const bool apart : {false, true}) {
    const Session s({apart ? "model.compute_copies=2" : "model.compute_copies=1"});
    LoadedModel& m = *s.model;
    const uint64_t release = m.model().published().release();
    EXPECT_EQ(m.publish_packed([] { return uint64_t{9}; }), 9u);
    m.note_failed_step({release + 1, 2, 5});
    EXPECT_FALSE(m.half_trained()) << "it began with other weights";
    m.require_whole(LoadedModel::Weights::kTrained);
    m.note_failed_step({release, 2, 5});
    EXPECT_TRUE(m.half_trained());
    const auto refusal = [&](LoadedModel::Weights which) {
      return expect_error(Code::kFailedPrecondition, [&] { m.require_whole(which); });
    };
    const Error e = refusal(LoadedModel::Weights::kTrained);
    EXPECT_TRUE(contains(e.message, "a training step failed after 2 of 5 optimizer steps"));
    EXPECT_EQ(e.expected,
              "rl_trainer_publish, rl_trainer_load, or a pipeline that resumes from a checkpoint");
    if (apart) {
      m.require_whole(LoadedModel::Weights::kPublished);
      const LoadedModel::UseLease use(m);
    } else {
      refusal(LoadedModel::Weights::kPublished);
      expect_error(Code::kFailedPrecondition, [&] { LoadedModel::UseLease use(m); });
    }
    bool stored = false;
    EXPECT_FALSE(m.publish_packed([&] {
      stored = true;
      return uint64_t{9};
    }));
    EXPECT_FALSE(stored);
    m.note_failed_step({release, 0, 0});
    EXPECT_TRUE(contains(refusal(LoadedModel::Weights::kTrained).message,
                         "setting its weights failed half-way"));
    m.model().publish();
    EXPECT_FALSE(m.half_trained());
  }
}

TEST(SessionRefusals, AChangeOfMastersThatIsNotFinishedIsNoted) {
  const Session s;
  LoadedModel& m = *s.model;
  { const StepWatch unchanged(m, nullptr); }
  EXPECT_FALSE(m.half_trained());
  {
    StepWatch finished(m, nullptr);
    m.model().mark_masters_changed();
    finished.done();
  }
  EXPECT_FALSE(m.half_trained());
  { const StepWatch left(m, nullptr); }
  EXPECT_TRUE(m.half_trained());
  EXPECT_TRUE(contains(expect_error(Code::kFailedPrecondition,
                                    [&] { m.require_whole(LoadedModel::Weights::kTrained); })
                           .message,
                       "setting its weights"));
}

TEST(SessionRefusals, AnIdentityIsOfTheShapeAndTheWeights) {
  const Session s;
  const ModelIdentity id = s.model->identity();
  EXPECT_EQ(id.family, "llama");
  EXPECT_EQ(id.compute_dtype, "fp32");
  EXPECT_EQ(id.vocab, 256);
  EXPECT_EQ(id.hidden, 64);
  EXPECT_EQ(id.layers, 2);
  EXPECT_EQ(id.weight_version, 0u);
  EXPECT_EQ(id.weight_digest, s.model->weight_digest());
}

TEST(SessionRefusals, RoomIsCountedToTheByte) {
  constexpr uint64_t kBudget = uint64_t{1} << 30, kMargin = 1000;
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_u64("runtime.memory_budget_bytes", kBudget);
  o.set_u64("runtime.memory_margin_bytes", kMargin);
  Runtime runtime(o);
  const Arena held("held", 1 << 16, Touch::kNow, &runtime.ledger());
  const uint64_t used = runtime.ledger().bytes() + 500;
  EXPECT_GE(used, (uint64_t{1} << 16) + 500);
  const uint64_t left = kBudget - kMargin - used;
  require_room(runtime, "the part", left, 500);
  const Error e = expect_error(Code::kResourceExhausted,
                               [&] { require_room(runtime, "the part", left + 1, 500); });
  EXPECT_EQ(e.key, "runtime.memory_budget_bytes");
  EXPECT_EQ(e.expected, str("at least ", kBudget + 1)) << "with the margin";
  EXPECT_TRUE(contains(
      e.message, str("the part needs ", left + 1, " bytes in addition to the ", used, " in use")));
  expect_error(Code::kResourceExhausted, [&] { require_room(runtime, "it", 0, kBudget); });
  const Session unlimited;
  require_room(*unlimited.runtime, "it", kBudget, kBudget);
}

TEST(SessionRefusals, AnExperimentIsASingleName) {
  const Session s;
  for (const char* bad : {"a/b", "/", ".", ".."}) {
    const auto errors = run_violations(s.with({str("runtime.experiment=", bad)}), *s.model);
    ASSERT_EQ(errors.size(), 1u) << bad;
    EXPECT_EQ(errors[0].code, Code::kOutOfRange);
    EXPECT_EQ(errors[0].key, "runtime.experiment");
    EXPECT_EQ(errors[0].expected, "a name without '/', not . and not ..");
  }
  for (const char* good : {"a", "...", "a.b", ".a"}) {
    EXPECT_TRUE(run_violations(s.with({str("runtime.experiment=", good)}), *s.model).empty());
  }
}

TEST(SessionRefusals, FilesAreTheSameIfTheirPathsAre) {
  const Session s;
  const auto errors =
      run_violations(s.with({"runtime.output_dir=/o", "runtime.experiment=e", "metrics.jsonl=f",
                             "metrics.eval_jsonl=/f", "metrics.samples=/o/e/f"}),
                     *s.model);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, Code::kConflict);
  EXPECT_EQ(errors[0].key, "metrics.samples");
  EXPECT_EQ(errors[0].other_key, "metrics.jsonl");
  EXPECT_TRUE(contains(errors[0].message, "the same file, /o/e/f"));
}

TEST(SessionRefusals, OptionsThatNothingReadsHaveTheirDefaultsBeside) {
  const Session s;
  OptionSet given;
  for (const char* text : {"algo.objective=sft", "engine.block_size=16", "engine.max_model_len=32",
                           "engine.kv_dtype=fp32"}) {
    given.set_assignment(text);
  }
  const auto refused = [&](const Texts& texts) {
    OptionSet o = given;
    for (const std::string& text : texts) o.set_assignment(text);
    return run_violations(o, *s.model);
  };
  EXPECT_TRUE(refused({}).empty());
  const auto engine = refused({"engine.num_engines=3", "sampling.stop_token_ids=5"});
  ASSERT_EQ(engine.size(), 2u);
  EXPECT_EQ(engine[0].key, "engine.num_engines");
  EXPECT_EQ(engine[0].other_key, "algo.objective");
  EXPECT_EQ(engine[0].expected, "1");
  EXPECT_TRUE(contains(engine[0].message, "algo.objective = sft and without eval.path generates"));
  EXPECT_EQ(engine[1].key, "sampling.stop_token_ids");
  EXPECT_EQ(engine[1].expected, "empty");
  const auto scores =
      refused({"algo.objective=reward_model", "engine.num_engines=3", "eval.path=e"});
  ASSERT_EQ(scores.size(), 1u);
  EXPECT_TRUE(contains(scores[0].message, "algo.objective = reward_model generates nothing"));
  // Evaluations read the ends of a response, and no rule of sampling.
  for (const char* text :
       {"engine.num_engines=3", "sampling.ignore_eos=true", "sampling.max_new_tokens=9",
        "sampling.seed=4", "sampling.stop_token_ids=5"}) {
    EXPECT_TRUE(refused({"eval.path=e", text}).empty()) << text;
  }
  const auto rule = refused({"eval.path=e", "sampling.min_p=0.5"});
  ASSERT_EQ(rule.size(), 1u);
  EXPECT_EQ(rule[0].expected, "0");
  const auto aborts = run_violations(s.with({"pipeline.partial_rollout_max_aborts=2"}), *s.model);
  ASSERT_EQ(aborts.size(), 1u);
  EXPECT_EQ(aborts[0].expected, "0");
  EXPECT_TRUE(contains(aborts[0].message, "is 2, but"));
  for (const char* text : {"engine.thread=true", "engine.stream_tokens=1"}) {
    const auto own = run_violations(s.with({text}), *s.model);
    ASSERT_EQ(own.size(), 1u) << text;
    EXPECT_TRUE(std::string(text).starts_with(own[0].key)) << own[0].key;
    EXPECT_TRUE(contains(own[0].message, "an engine of a host's own loop"));
  }
}

TEST(SessionRefusals, OptionsOfAPipelineHaveTheirDefaultsBeside) {
  const auto refused = [](const Texts& texts, const char* part) {
    OptionSet o;
    for (const std::string& text : texts) o.set_assignment(text);
    return session_violations(o, part);
  };
  EXPECT_TRUE(refused({"optimizer.lr=1"}, "an engine").empty());
  const auto errors = refused({"checkpoint.dir=x", "eval.every_steps=3"}, "a trainer");
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].code, Code::kConflict);
  EXPECT_EQ(errors[0].key, "checkpoint.dir");
  EXPECT_EQ(errors[0].expected, "empty");
  EXPECT_EQ(errors[0].message,
            "checkpoint.dir = x only has an effect in a pipeline, and this is a trainer");
  EXPECT_EQ(errors[1].key, "eval.every_steps");
  EXPECT_EQ(errors[1].expected, "0");
}

}  // namespace
}  // namespace rl
