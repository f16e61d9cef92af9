// What a run survives and what it refuses early: odd ids, failing ends, replaced checkpoints,
// options that only a step would have refused.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "pipeline/session/profiler_session.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/real_files.h"
#include "tokenized_model.h"

namespace rl {
namespace {

namespace files = std::filesystem;
using testing::kSecond;
using testing::low_id_reward;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::with_small_tokenizer;

constexpr const char* kNoToken = "\xEF\xBF\xBD";

TEST(Survival, SampledIdsWithoutATokenAreReplacementCharacters) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("model.path", with_small_tokenizer(dir));
  testing::write_lines(dir.file("data.jsonl"), {R"({"ids": [1, 250, 2]})"});
  Rig rig(o);
  ASSERT_LT(rig.model().tokenizer().vocab_size(), 200);
  int64_t replaced = 0;
  rig.pipeline().start();
  EventQueue::Popped got;
  while ((got = rig.pipeline().next(60 * kSecond)).status == Code::kOk) {
    const auto score = std::dynamic_pointer_cast<ScoreEvent>(got.event);
    if (score == nullptr) continue;
    EXPECT_TRUE(contains(score->prompt_text, kNoToken));
    replaced += score->text.find(kNoToken) != std::string::npos;
    rig.pipeline().score(score->sample->id, low_id_reward(*score->sample));
  }
  EXPECT_EQ(got.status, Code::kDone);
  EXPECT_EQ(rig.pipeline().status().step, 3u);
  EXPECT_GT(replaced, 0);
  const std::vector<int32_t> ids = {250, 251};
  EXPECT_EQ(rig.model().decode_sampled(ids, true), std::string(kNoToken) + kNoToken);
  expect_error(Code::kOutOfRange, [&] { rig.model().decode(ids, true); });
}

TEST(Survival, SpecialTokensOfAPromptStandInItsText) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("model.path", with_small_tokenizer(dir));
  o.set_i64("pipeline.total_steps", 1);
  testing::write_lines(dir.file("data.jsonl"), {R"({"ids": [40, 0]})"});
  Rig rig(o);
  rig.pipeline().start();
  int64_t reported = 0;
  EventQueue::Popped got;
  while ((got = rig.pipeline().next(60 * kSecond)).status == Code::kOk) {
    const auto score = std::dynamic_pointer_cast<ScoreEvent>(got.event);
    if (score == nullptr) continue;
    EXPECT_EQ(score->prompt_text, "<s>a");
    ++reported;
    rig.pipeline().score(score->sample->id, low_id_reward(*score->sample));
  }
  EXPECT_EQ(reported, 16);
}

// Fails the creation of one file by name, or does something else there.
class FailingPath : public RealFiles {
 public:
  explicit FailingPath(std::string part) : part_(std::move(part)) {}
  std::unique_ptr<OutputFile> create(const std::string& p) override {
    if (p.find(part_) != std::string::npos) on_create(p);
    return real_fs().create(p);
  }
  Code code = Code::kIo;
  std::function<void(const std::string&)> on_create = [this](const std::string& p) {
    throw Error(code, "no room for " + p);
  };

 private:
  const std::string part_;
};

TEST(Survival, ATraceThatCannotBeWrittenIsReportedApartFromTheRun) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_bool("profiler.timeline.enable", true);
  o.set_string("profiler.timeline.dir", dir.file("trace"));
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  FailingPath fs("trace.json");
  Rig rig(o, false, &fs);
  rig.start_and_serve();
  EXPECT_EQ(rig.pipeline().status().state, PipelineState::kDone);
  EXPECT_EQ(rig.pipeline().failure(), nullptr);
  ASSERT_NE(rig.pipeline().close_failure(), nullptr);
  EXPECT_TRUE(contains(rig.pipeline().close_failure()->message, "trace.json"));
  EXPECT_EQ(rig.pipeline().checkpoint(0), dir.file("checkpoints/step_000003"));
}

// A file that takes all lines and cannot be closed, and a trace that cannot be written.
class UnclosableLines final : public FailingPath {
 public:
  UnclosableLines() : FailingPath("trace.json") {}
  std::unique_ptr<OutputFile> create(const std::string& p) override {
    std::unique_ptr<OutputFile> file = FailingPath::create(p);
    if (!p.ends_with(".jsonl")) return file;
    return std::make_unique<Lines>(std::move(file));
  }

 private:
  class Lines final : public OutputFile {
   public:
    explicit Lines(std::unique_ptr<OutputFile> base) : base_(std::move(base)) {}
    void append(std::span<const std::byte> data) override { base_->append(data); }
    void sync() override { base_->sync(); }
    void close() override { throw Error(Code::kIo, "lost in the end"); }

   private:
    std::unique_ptr<OutputFile> base_;
  };
};

TEST(Survival, TheFirstFileThatCannotBeClosedIsReported) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_bool("profiler.timeline.enable", true);
  o.set_string("profiler.timeline.dir", dir.file("trace"));
  o.set_string("metrics.jsonl", dir.file("metrics.jsonl"));
  UnclosableLines fs;
  Rig rig(o, false, &fs);
  rig.start_and_serve();
  EXPECT_EQ(rig.pipeline().status().state, PipelineState::kDone);
  ASSERT_NE(rig.pipeline().close_failure(), nullptr);
  EXPECT_TRUE(contains(rig.pipeline().close_failure()->message, "lost in the end"));
}

TEST(Survival, AFailureWithAResultCodeIsAFailure) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_i64("checkpoint.every_steps", 1);
  for (const Code code : {Code::kTimeout, Code::kDone, Code::kInterrupted}) {
    FailingPath fs("masters.safetensors");
    fs.code = code;
    Rig rig(o, false, &fs);
    const Error e = expect_error(Code::kInternal, [&] { rig.start_and_serve(); });
    ASSERT_NE(e.cause, nullptr);
    EXPECT_EQ(e.cause->code, code);
    EXPECT_EQ(e.message, str("the loop failed with ", code_name(code), ": ", e.cause->message));
    EXPECT_EQ(rig.pipeline().status().state, PipelineState::kFailed);
  }
}

TEST(Survival, GroupsOfAFailedRunAreReportedBeforeItsEnd) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  std::vector<std::string> rows = testing::id_rows(3);
  rows.push_back("{}");
  testing::write_lines(dir.file("data.jsonl"), rows);
  o.set_bool("data.shuffle", false);
  o.set_string("eval.path", dir.file("eval.jsonl"));
  testing::write_lines(dir.file("eval.jsonl"), rows);
  Rig rig(o);
  rig.pipeline().request_eval();
  rig.pipeline().start();
  std::vector<std::shared_ptr<GroupDroppedEvent>> dropped;
  expect_error(Code::kDataLoss, [&] {
    EventQueue::Popped got;
    while ((got = rig.pipeline().next(60 * kSecond)).status == Code::kOk) {
      dropped.push_back(std::dynamic_pointer_cast<GroupDroppedEvent>(got.event));
    }
  });
  ASSERT_EQ(dropped.size(), 3u);
  for (const auto& event : dropped) {
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(event->reason, DropReason::kAborted);
    EXPECT_EQ(event->purpose, Purpose::kEval);
  }
}

TEST(Survival, AnEvaluationRequestedDuringOneIsOneMore) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(4));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  Rig rig(o);
  rig.pipeline().request_eval();
  bool asked = false;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    if (s->purpose == Purpose::kEval && !asked) p.request_eval();
    asked = true;
    if (s->purpose == Purpose::kEval && s->tag == "2")
      p.fail(s->id, "broken");
    else
      p.score(s->id, 0.5);
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.evals.size(), 2u);
  ASSERT_EQ(log.dropped.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(log.evals[i]->metrics.get("eval/failed"), 1.0);
    EXPECT_EQ(log.dropped[i]->purpose, Purpose::kEval);
    EXPECT_EQ(log.dropped[i]->data_row, 2);
    EXPECT_TRUE(contains(log.dropped[i]->message, "broken"));
  }
}

TEST(Survival, OptionsThatAStepWouldRefuseAreRefusedAtOnce) {
  const TempDir dir;
  OptionSet good = tiny_options(dir);
  Rig rig(good);
  for (const auto& [text, code] : std::vector<std::pair<const char*, Code>>{
           {"sampling.temperature=1e-7", Code::kOutOfRange},
           {"sampling.stop_token_ids=256", Code::kOutOfRange},
           {"sampling.stop=x", Code::kFailedPrecondition},
       }) {
    SCOPED_TRACE(text);
    OptionSet o = good;
    o.set_assignment(text);
    const std::string key = std::string(text).substr(0, std::string(text).find('='));
    EXPECT_EQ(expect_error(code, [&] { rig.pipeline().set_options(o); }).key, key);
    EXPECT_EQ(expect_error(code, [&] { Pipeline(rig.shared_model(), o); }).key, key);
  }
  expect_error(Code::kOutOfRange, [&] { good.set_f64("algo.adv_eps", 0); });
  EXPECT_EQ(expect_error(Code::kOutOfRange,
                         [&] {
                           good.set_string_list("sampling.stop", {"a", ""});
                         })
                .key,
            "sampling.stop");
}

TEST(Survival, AReferenceOfAnotherShapeIsRefusedBeforeItIsLoaded) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  Rig rig(o);
  o.set_string("algo.kl.where", "loss");
  o.set_f64("algo.kl.coef", 0.1);
  o.set_string("model.reference_path", testing::fixture_model("qwen2"));
  const uint64_t held = rig.runtime().ledger().bytes();
  const Error e = expect_error(Code::kIncompatible, [&] { Pipeline(rig.shared_model(), o); });
  EXPECT_EQ(e.key, "model.reference_path");
  EXPECT_EQ(e.location, testing::fixture_model("qwen2"));
  EXPECT_EQ(rig.runtime().ledger().bytes(), held);
}

TEST(Survival, WeightsThatASaveReadsAreBusy) {
  const TempDir dir;
  FailingPath fs("safetensors");
  Rig rig(tiny_options(dir), false, &fs);
  int tried = 0;
  fs.on_create = [&](const std::string&) {
    ++tried;
    expect_error(Code::kBusy, [&] { LoadedModel::WriteLease write(rig.model(), 0); });
  };
  rig.model().save(dir.file("saved"), Dtype::kF32, false);
  EXPECT_GT(tried, 0);
}

// Three steps with a checkpoint each.
OptionSet saving_options(const TempDir& dir) {
  OptionSet o = tiny_options(dir);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_i64("checkpoint.every_steps", 1);
  return o;
}

TEST(Survival, AResumeByNameSetsLaterCheckpointsAside) {
  const TempDir dir;
  OptionSet o = saving_options(dir);
  Rig(o).start_and_serve();
  const std::string checkpoints = dir.file("checkpoints");
  o.set_string("checkpoint.resume", checkpoints + "/step_000001");
  for (int round = 0; round < 2; ++round) {
    o.set_i64("pipeline.total_steps", 2);
    Rig again(o);
    EXPECT_TRUE(real_fs().exists(checkpoints + (round == 0 ? "/step_000003" : "/step_000002")));
    EXPECT_EQ(again.start_and_serve().checkpoints.size(), 1u);
    EXPECT_EQ(real_fs().list(checkpoints),
              (std::vector<std::string>{"step_000001", "step_000002", "step_000002.abandoned",
                                        "step_000003.abandoned"}));
  }
  o.set_string("checkpoint.resume", "auto");
  EXPECT_EQ(Rig(o).pipeline().resumed_from(), checkpoints + "/step_000002");
}

TEST(Survival, AResumeWithOtherFrozenParametersIsRefusedByName) {
  const TempDir dir;
  OptionSet o = saving_options(dir);
  o.set_text("model.freeze", "model.norm.weight");
  Rig(o).start_and_serve();
  o.set_string("checkpoint.resume", "auto");
  EXPECT_EQ(Rig(o).pipeline().resumed_from(), dir.file("checkpoints/step_000003"));
  o.set_text("model.freeze", "");
  const Error e = expect_error(Code::kIncompatible, [&] { Rig again(o); });
  EXPECT_EQ(e.key, "model.norm.weight");
  EXPECT_TRUE(contains(e.message, "model.freeze"));
}

TEST(Survival, APatternOfNoParameterIsRefusedBeforeAModelIsLoaded) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_text("model.train_only", "model.layers.77.*");
  const Error e = expect_error(Code::kInvalidArgument, [&] { Rig rig(o); });
  EXPECT_EQ(e.key, "model.train_only");
  EXPECT_TRUE(contains(e.message, "model.layers.77.*"));
}

// And never one that it writes itself.
TEST(Survival, ARunTellsTheCheckpointItWasResumedFrom) {
  const TempDir dir;
  OptionSet o = saving_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  Rig fresh(o);
  EXPECT_EQ(fresh.pipeline().resumed_from(), "");
  fresh.start_and_serve();
  EXPECT_EQ(fresh.pipeline().resumed_from(), "");
  const std::string first = dir.file("checkpoints/step_000001");
  ASSERT_TRUE(real_fs().exists(first));
  o.set_i64("pipeline.total_steps", 2);
  for (const auto& [resume, directory] : {std::pair(first, "elsewhere"),
                                          {first, "checkpoints"},
                                          {std::string("auto"), "checkpoints"}}) {
    SCOPED_TRACE(str(resume, " with ", directory));
    o.set_string("checkpoint.resume", resume);
    o.set_string("checkpoint.dir", dir.file(directory));
    Rig again(o);
    EXPECT_EQ(again.pipeline().resumed_from(), first);
    EXPECT_EQ(again.pipeline().status().step, 1u);
    again.start_and_serve();
    EXPECT_EQ(again.pipeline().resumed_from(), first);
    real_fs().remove_all(dir.file(directory) + "/step_000002");
  }
}

TEST(Survival, TheCheckpointOfAResumeIsNotWrittenAgain) {
  const TempDir dir;
  OptionSet o = saving_options(dir);
  Rig(o).start_and_serve();
  o.set_string("checkpoint.resume", "auto");
  Rig again(o);
  EXPECT_EQ(again.pipeline().checkpoint(kSecond), dir.file("checkpoints/step_000003"));
  EXPECT_TRUE(again.start_and_serve().checkpoints.empty());
}

TEST(Survival, AResumeThatIsRefusedLeavesTheModelAlone) {
  const TempDir dir;
  OptionSet o = saving_options(dir);
  Rig(o).start_and_serve();
  o.set_string("checkpoint.resume", "auto");
  o.set_string("metrics.jsonl", dir.file("metrics.jsonl"));
  testing::write_lines(dir.file("metrics.jsonl"), {"no json"});
  const auto runtime = std::make_shared<Runtime>(o);
  const auto model = LoadedModel::open(runtime, o, PlanUse::kPipeline);
  const uint64_t before = model->weight_digest();
  expect_error(Code::kDataLoss, [&] { Pipeline(model, o); });
  EXPECT_EQ(model->weight_digest(), before);
  EXPECT_EQ(model->version(), 0u);
}

TEST(Survival, TheHostsProfilerGoesOnAfterARunWithATimeline) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_bool("profiler.timeline.enable", true);
  o.set_string("profiler.timeline.dir", dir.file("trace"));
  Rig rig(o);
  const std::shared_ptr<Runtime> runtime = rig.model().shared_runtime();
  {
    const ProfilerSession host(runtime);
    rig.start_and_serve();
    EXPECT_EQ(runtime->tracer().sink(), &host.recorder());
    const size_t records = host.recorder().num_records();
    runtime->tracer().counter("after", 0, 1);
    EXPECT_EQ(host.recorder().num_records(), records + 1);
  }
  EXPECT_EQ(runtime->tracer().sink(), nullptr);
}

}  // namespace
}  // namespace rl
