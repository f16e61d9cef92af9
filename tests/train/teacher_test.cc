// Log-probs of a teacher are those of a trainer of the same model, whatever the cut.
#include "train/roles/teacher.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "support/expect_error.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

TrainerOptions teacher_options(int64_t chunk_tokens) {
  TrainerOptions o;
  o.max_tokens = 64;
  o.logprob_chunk_tokens = chunk_tokens;
  return o;
}

using Rows = std::vector<std::vector<float>>;

// NAN where nothing was written.
Rows logprobs(const Model& model, int64_t chunk_tokens, const std::vector<Sample>& samples) {
  const TrainerOptions options = teacher_options(chunk_tokens);
  const TrainShape shape{model.config(), model.kv_shape(), model.compute().num_threads()};
  const Arena workspace("test teacher workspace", Teacher::workspace_bytes(shape, options));
  std::memset(workspace.data(), 0x7f, workspace.bytes());
  Teacher teacher(model, options, workspace.data(), {nullptr, 0, &real_clock()});
  Rows rows;
  std::vector<const Sample*> in;
  for (const Sample& s : samples) {
    teacher.check(s);
    in.push_back(&s);
    rows.emplace_back(static_cast<size_t>(s.generated()), NAN);
  }
  const std::vector<std::span<float>> out(rows.begin(), rows.end());
  teacher.logprobs(in, out);
  return rows;
}

// Samples without any loss, without loss at the end, of one token and of none.
std::vector<Sample> samples_with_gaps(int64_t vocab) {
  std::vector<Sample> samples = random_samples(12, vocab, 5, 0.7f);
  std::ranges::fill(samples[1].loss_mask, 0);
  samples[2].loss_mask.back() = 0;
  samples.push_back(make_sample({1, 2, 3}, 2, 9, 0));
  samples.push_back(make_sample({1, 2, 3}, 3, 9, 1));
  return samples;
}

TEST(Teacher, EveryGeneratedTokenHasItsLogProbWithOrWithoutLoss) {
  TrainRig rig({}, teacher_options(0));
  std::vector<Sample> samples = samples_with_gaps(rig.model().config().vocab);
  store_logprobs(rig, samples);
  for (const int64_t chunk_tokens : {0, 1, 7}) {
    const Rows rows = logprobs(rig.model(), chunk_tokens, samples);
    for (size_t i = 0; i < samples.size(); ++i)
      EXPECT_TRUE(same_bits(rows[i], samples[i].logprobs)) << i << ", chunks of " << chunk_tokens;
  }
}

// The last chunk of the head has one row.
TEST(Teacher, ASingleTokenHasItsLogProb) {
  TrainRig rig({}, teacher_options(0));
  std::vector<Sample> one = {make_sample({1, 2, 3}, 2, 0, 0)};
  store_logprobs(rig, one);
  EXPECT_TRUE(same_bits(logprobs(rig.model(), 0, one).at(0), one[0].logprobs));
}

// The one span of a call, on the lane of its place.
class OneSpan final : public TraceSink {
 public:
  void span(const TraceSpan& span) noexcept override {
    ++spans;
    EXPECT_STREQ(span.name, "train.teacher");
    EXPECT_EQ(span.lane, 6u);
  }
  void counter(const char*, uint32_t, int64_t, double) noexcept override {}
  void lane_name(uint32_t, std::string_view) noexcept override {}
  int spans = 0;
};

TEST(Teacher, ACallIsOneSpanOfTheTrace) {
  const TrainerOptions o = teacher_options(0);
  TrainRig rig({}, o);
  const Arena workspace("test teacher workspace",
                        Teacher::workspace_bytes(shape_of(rig.model()), o));
  Tracer tracer;
  const auto sink = std::make_shared<OneSpan>();
  tracer.set_sink(sink);
  Teacher teacher(rig.model(), o, workspace.data(), {&tracer, 6, &real_clock()});
  const Sample s = make_sample({1, 2, 3}, 2, 0, 0);
  const Sample* const in[] = {&s};
  float value = NAN;
  const std::span<float> out[] = {{&value, 1}};
  teacher.logprobs(in, out);
  EXPECT_LT(value, 0);
  EXPECT_EQ(sink->spans, 1);
}

TEST(Teacher, ASampleThatItCannotTakeIsNamed) {
  TrainRig rig({}, teacher_options(0));
  Sample foreign = make_sample({1, 2, 3}, 2, 0, 0);
  foreign.ids.back() = static_cast<int32_t>(rig.model().config().vocab);
  const Error e = expect_error(Code::kOutOfRange, [&] { logprobs(rig.model(), 0, {foreign}); });
  EXPECT_TRUE(contains(e.message, "sample 1:"));
}

}  // namespace
}  // namespace rl::testing
