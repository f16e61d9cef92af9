// Forwards without gradients: outputs of tokens, samples and rows agree with each other and with
// the trainer, whatever the split into micro-batches and whichever rows are wanted.
#include <gtest/gtest.h>

#include <cmath>

#include "group_rig.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

TrainerOptions options_of(int64_t max_tokens, Objective objective = Objective::kRl) {
  TrainerOptions o;
  o.objective = objective;
  o.max_tokens = max_tokens;
  o.max_sequence = 100;
  o.logprob_chunk_tokens = 16;
  o.batch.oversize_alone = true;
  return o;
}

std::vector<const Sample*> pointers(const std::vector<Sample>& samples) {
  std::vector<const Sample*> out;
  for (const Sample& s : samples) out.push_back(&s);
  return out;
}

std::vector<float> floats(const Tensor& t) {
  const auto* begin = static_cast<const float*>(t.data());
  return {begin, begin + t.num_elements()};
}

size_t tokens_of(const std::vector<Sample>& samples) {
  size_t count = 0;
  for (const Sample& s : samples) count += static_cast<size_t>(s.generated());
  return count;
}

TEST(ForwardPass, LogProbsAreTheTrainers) {
  for (const int64_t max_tokens : {40, 1000}) {
    TrainRig rig({}, options_of(max_tokens));
    std::vector<Sample> samples = groups(rig.model().config().vocab, 5);
    std::vector<float> logprobs(tokens_of(samples)), entropies(logprobs.size());
    rig.trainer->forward_pass().tokens(pointers(samples), logprobs, entropies);
    std::vector<float> alone(logprobs.size());
    rig.trainer->forward_pass().tokens(pointers(samples), alone, {});
    EXPECT_TRUE(same_bits(alone, logprobs));
    store_logprobs(rig, samples);
    std::vector<float> stored;
    for (const Sample& s : samples)
      stored.insert(stored.end(), s.logprobs.begin(), s.logprobs.end());
    EXPECT_TRUE(same_bits(logprobs, stored));
  }
}

// Log-probs and entropies from the logits in double: what is left is the rounding of fp32 logits.
TEST(ForwardPass, LogitsGiveLogProbsAndEntropies) {
  TrainRig rig({}, options_of(64));
  const std::vector<Sample> samples = groups(rig.model().config().vocab, 6);
  const auto inputs = pointers(samples);
  std::vector<float> logprobs(tokens_of(samples)), entropies(logprobs.size());
  ForwardPass pass = rig.trainer->forward_pass();
  pass.tokens(inputs, logprobs, entropies);
  const TensorPtr logits = pass.logits(inputs, {});
  const int64_t vocab = rig.model().config().vocab;
  const std::vector<float> z = floats(*logits);
  size_t row = 0, token = 0;
  for (const Sample& s : samples) {
    for (int64_t g = 0; g < s.generated(); ++g, ++token) {
      const float* at = z.data() + (row + static_cast<size_t>(s.prompt_tokens + g - 1)) *
                                       static_cast<size_t>(vocab);
      double sum = 0, mean = 0;
      for (int64_t v = 0; v < vocab; ++v) {
        const double e = std::exp(double{at[v]} / s.temperature);
        sum += e;
        mean += e * at[v] / s.temperature;
      }
      const int32_t id = s.ids[static_cast<size_t>(s.prompt_tokens + g)];
      EXPECT_NEAR(logprobs[token], at[id] / s.temperature - std::log(sum), 2e-5);
      EXPECT_NEAR(entropies[token], std::log(sum) - mean / sum, 2e-5);
    }
    row += s.ids.size();
  }
  EXPECT_EQ(logits->shape(), (std::vector<int64_t>{static_cast<int64_t>(row), vocab}));
}

TEST(ForwardPass, RowsAreThoseThatAreWantedInTheirOrder) {
  TrainRig rig({}, options_of(64)), wide({}, options_of(4000));
  const std::vector<Sample> samples = groups(rig.model().config().vocab, 7);
  const auto inputs = pointers(samples);
  ForwardPass pass = rig.trainer->forward_pass();
  const TensorPtr all_hidden = pass.hidden(inputs, {}), all_logits = pass.logits(inputs, {});
  const auto count = static_cast<uint64_t>(all_hidden->shape()[0]);
  const std::vector<uint64_t> rows = {count - 1, 0, 5, 5, count / 2, 1};
  const auto expect_rows = [&](const Tensor& some, const Tensor& all) {
    EXPECT_EQ(some.shape(), (std::vector<int64_t>{6, all.shape()[1]}));
    const std::vector<float> a = floats(some), b = floats(all);
    const auto width = static_cast<size_t>(all.shape()[1]);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(std::memcmp(a.data() + i * width, b.data() + rows[i] * width, width * 4), 0) << i;
    }
  };
  expect_rows(*pass.hidden(inputs, rows), *all_hidden);
  expect_rows(*pass.logits(inputs, rows), *all_logits);
  EXPECT_TRUE(
      same_bits(floats(*wide.trainer->forward_pass().hidden(inputs, {})), floats(*all_hidden)));
  EXPECT_TRUE(
      same_bits(floats(*wide.trainer->forward_pass().logits(inputs, {})), floats(*all_logits)));
  // A sequence alone has the rows that it has among others.
  const std::vector<float> alone = floats(*pass.hidden(std::span(inputs).first(1), {}));
  const std::vector<float> among = floats(*all_hidden);
  EXPECT_EQ(std::memcmp(alone.data(), among.data(), alone.size() * 4), 0);
  const std::vector<uint64_t> none, outside = {0, count};
  EXPECT_EQ(pass.hidden(inputs, none)->shape()[0], 0);
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { pass.logits(inputs, outside); }).key,
            "forward.rows");
}

TEST(ForwardPass, ValuesAreThoseOfTheStatesBeforeTokens) {
  TrainRig rig({}, options_of(64, Objective::kRewardModel));
  fill_head(rig.model(), 4);
  rig.rebuild(options_of(64, Objective::kRewardModel));
  std::vector<Sample> samples = groups(rig.model().config().vocab, 8), shorter;
  for (Sample& s : samples) {
    Sample cut = s;
    cut.ids.pop_back();
    shorter.push_back(cut);
  }
  ForwardPass pass = rig.trainer->forward_pass();
  std::vector<float> values(tokens_of(samples)), scores(samples.size()), own(samples.size());
  pass.values(pointers(samples), values);
  pass.scores(pointers(shorter), scores);
  size_t at = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    at += static_cast<size_t>(samples[i].generated());
    EXPECT_EQ(values[at - 1], scores[i]) << "the state before the last token";
  }
  pass.scores(pointers(samples), own);
  std::vector<float> trainers(samples.size());
  rig.trainer->scores(pointers(samples), trainers);
  EXPECT_TRUE(same_bits(own, trainers));
  EXPECT_NE(own, scores);
}

TEST(ForwardPass, ASampleThatCannotBeIsNamed) {
  TrainRig rig({}, options_of(64));
  std::vector<Sample> samples = groups(rig.model().config().vocab, 9);
  samples[3].ids[0] = -1;
  std::vector<float> out(tokens_of(samples));
  ForwardPass pass = rig.trainer->forward_pass();
  const auto refused = [&](auto&& call) {
    const Error e = expect_error(Code::kOutOfRange, call);
    EXPECT_EQ(e.key, "ids");
    EXPECT_NE(e.message.find(str("sample ", samples[3].id, ":")), std::string::npos);
  };
  refused([&] { pass.tokens(pointers(samples), out, {}); });
  refused([&] { pass.hidden(pointers(samples), {}); });
  refused([&] { pass.logits(pointers(samples), {}); });
}

}  // namespace
}  // namespace rl::testing
