// Ranks that divide the vocabulary: how it is cut, and that sampling, outputs of forwards and
// distillation over whole rows have the bits of one rank.
#include "model/vocabulary_ranks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "../rollout/engine_fixture.h"
#include "support/compute_dtypes.h"
#include "support/expect_error.h"
#include "tensor/tensor_outcome.h"

namespace rl::testing {
namespace {

// Every token in one part, parts and ranks of whole tiles, and none of them empty.
void expect_cut(int64_t vocab, int64_t parts) {
  SCOPED_TRACE(str(vocab, " tokens in ", parts, " parts"));
  for (int64_t count = 1; count <= parts; ++count) {
    if (parts % count != 0) continue;
    int64_t end = 0, tiles = 0, most = 0;
    for (int64_t first = 0; first < parts; first += count) {
      const VocabularyCut cut(vocab, {parts, first, count});
      EXPECT_EQ(cut.own().first, end);
      EXPECT_EQ(cut.own().first % kVocabularyUnit, 0);
      EXPECT_GT(cut.part(first).count, 0);
      EXPECT_EQ(cut.first_tile(cut.rank()), tiles);
      EXPECT_EQ(cut.tiles().first(tiles), end);
      end = cut.own().end();
      tiles += cut.num_own_tiles();
      most = std::max(most, cut.own().count);
    }
    EXPECT_EQ(end, vocab);
    EXPECT_EQ(tiles, VocabularyCut(vocab, {parts, 0, parts}).tiles().count());
    ModelConfig config;
    config.vocab = vocab;
    config.split = {parts, 0, count};
    EXPECT_EQ(VocabularyCut(with_most_tokens(config)).own().count, most);
  }
}

TEST(VocabularyCut, GivesEachPartWholeTiles) {
  for (const int64_t parts : {2, 3, 4, 6, 8}) {
    for (const int64_t vocab :
         {128, 224, 255, 256, 1000, 1040, 4096, 49152, 128256, 151936, 262144})
      expect_cut(vocab, parts);
  }
  EXPECT_EQ(VocabularyCut(151936, {8, 0, 1}).tiles().width, kVocabularyTile);
  EXPECT_EQ(VocabularyCut(151936, {1, 0, 1}).tiles().width, kVocabularyTile);
  EXPECT_EQ(VocabularyCut(256, {4, 0, 1}).tiles().width, 64);
  EXPECT_EQ(VocabularyCut(224, {4, 3, 1}).own().count, 80);
}

TEST(VocabularyCut, AVocabularyWithTooFewTokensIsRefusedByName) {
  ModelConfig c = twelve_heads(false);
  c.vocab = 63;
  EXPECT_NO_THROW(with_split(c, {3, 0, 1}));
  const Error e = expect_error(Code::kIncompatible, [&] { with_split(c, {4, 0, 1}); });
  EXPECT_EQ(e.key, "parallel.reduction_parts");
  EXPECT_EQ(e.expected, "at most 3");
  EXPECT_TRUE(contains(e.message, "63 tokens")) << e.message;
}

// As words: a sum of floats would make 0 of -0.
TEST(TensorRanksMerge, KeepsEveryBit) {
  run_local_ranks(2, [](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {kLongNs});
    const float mine = group.rank() == 0 ? -0.0f : std::bit_cast<float>(0x7fc12345u);
    std::vector<float> values(2, 0.0f);
    values[static_cast<size_t>(group.rank())] = mine;
    TensorRanks(group).merge(std::span(values));
    EXPECT_EQ(std::bit_cast<uint32_t>(values[0]), 0x80000000u);
    EXPECT_EQ(std::bit_cast<uint32_t>(values[1]), 0x7fc12345u);
  });
}

TEST(TensorRanksMerge, TextsOfAnyLength) {
  run_local_ranks(3, [](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {kLongNs});
    const std::vector<std::string> texts = {"first", "", "the third one"};
    const std::string own = texts[static_cast<size_t>(group.rank())];
    EXPECT_EQ(TensorRanks(group).gather_texts(own), texts);
  });
}

// Sums in double hide their order from nearly all floats. Here a row is at the border of two:
// 1 + 2^-24 rounds to 1, and to the next float with 2^-52 more, which two tiles have together, but
// neither has enough of to change 1 + 2^-24.
TEST(VocabularyTiles, AreSummedInTheirOrder) {
  const std::vector<float> row = {1.0f, 0x1p-24f, 0x1p-53f, 0x1p-53f};
  const std::vector<float> rows[] = {row, {row.rbegin(), row.rend()}};
  const float sums[] = {1.0f, 1.0f + 0x1p-23f};
  for (const int ranks : {2, 4}) {
    run_local_ranks(ranks, [&](std::shared_ptr<Transport> transport) {
      comm::Group group(transport, {kLongNs});
      const std::unique_ptr<Executor> executor = make_thread_executor(1);
      const std::unique_ptr<Compute> compute = make_cpu_compute(*executor, Dtype::kF32);
      ModelConfig config = twelve_heads(false);
      config.vocab = 64;
      const int64_t count = 4 / ranks;
      config.split = {4, group.rank() * count, count};
      Arena memory("head", HeadBuffers::bytes(config, Dtype::kF32, 2, false), Touch::kNow, nullptr);
      HeadBuffers b(config, Dtype::kF32, 2, false, memory.data());
      ASSERT_EQ(b.cut.num_own_tiles(), count);
      b.rows = 2;
      for (int64_t r = 0; r < b.rows; ++r) {
        for (int64_t i = 0; i < count; ++i) {
          const float sum = rows[r][static_cast<size_t>(b.cut.first_tile(group.rank()) + i)];
          own_tiles(b)[r * count + i] = {0.0f, sum, 0.0f};
        }
      }
      combine_tiles_of_ranks(*compute, TensorRanks(group), b);
      for (int64_t r = 0; r < b.rows; ++r) EXPECT_EQ(b.stats[r].sum, sums[r]) << ranks << " ranks";
    });
  }
}

class VocabularyRanks : public ::testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, VocabularyRanks, ::testing::ValuesIn(compute_dtypes()));

// Requests with every kind of sampling, and the log-probs of their prompts.
SampleMap generate(TrainRig& rig) {
  EngineOptions o;
  o.max_num_seqs = 9;
  o.max_num_batched_tokens = 128;
  o.prefill_chunk = 16;
  o.max_model_len = 110;
  TestEngine engine(rig.tiny, o);
  std::vector<Request> requests = mixed_requests(24, rig.model().config().vocab, 3);
  for (size_t i = 0; i < requests.size(); i += 3) requests[i].prompt_logprobs = true;
  return engine.run(requests);
}

TEST_P(VocabularyRanks, SampleAsOneRankWhateverTheRules) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied ? "tied" : "untied");
    const LayeredSource source(twelve_heads(tied));
    const RigOptions rig{.compute = GetParam(), .source = &source};
    const auto on = [&](const Division& d) {
      std::vector<SampleMap> out(static_cast<size_t>(d.ranks));
      on_ranks(d, rig, options_of(),
               [&](TrainRig& r, int rank) { out[static_cast<size_t>(rank)] = generate(r); });
      return out;
    };
    const SampleMap one = on({4, 1})[0];
    EXPECT_GT(one.size(), 24u);
    for (const int64_t ranks : {2, 4}) {
      for (const SampleMap& rank : on({4, ranks})) {
        expect_same_samples(rank, one);
        for (const auto& [key, sample] : rank) {
          const auto& prompt = one.at(key)->prompt_logprobs;
          ASSERT_EQ(sample->prompt_logprobs != nullptr, prompt != nullptr);
          EXPECT_TRUE(!prompt || same_bits(*sample->prompt_logprobs, *prompt));
        }
      }
    }
  }
}

TEST_P(VocabularyRanks, OutputsOfForwardsAreThoseOfOneRank) {
  const LayeredSource source(twelve_heads(true));
  const auto outputs = [&](const Division& d) {
    std::vector<std::vector<float>> out(static_cast<size_t>(d.ranks));
    on_ranks(
        d, {.compute = GetParam(), .source = &source}, options_of(),
        [&](TrainRig& rig, int rank) { out[static_cast<size_t>(rank)] = forward_outputs(rig); });
    return out;
  };
  const std::vector<float> one = outputs({4, 1})[0];
  for (const int64_t ranks : {2, 4}) {
    for (const std::vector<float>& rank : outputs({4, ranks})) EXPECT_TRUE(same_bits(rank, one));
  }
}

struct Distilled {
  double loss, norm;
  std::vector<float> masters;
};

TEST_P(VocabularyRanks, DistillWholeRowsAsOneRankDoes) {
  const auto on = [&](const Division& d) {
    std::vector<Distilled> out(static_cast<size_t>(d.ranks));
    TrainerOptions o = options_of();
    o.objective = Objective::kDistill;
    o.distill = {true, {DistillKl::kForward, 0.25}, 1};
    o.vocabulary_ranks = d.ranks;
    const RigOptions rig{.model = "llama", .compute = GetParam(), .teacher = "smollm2"};
    on_ranks(d, rig, o, [&](TrainRig& r, int rank) {
      std::vector<Sample> samples = random_samples(8, r.model().config().vocab, 11);
      store_logprobs(r, samples);
      const TrainMetrics m = r.trainer->step(with_advantages(samples));
      out[static_cast<size_t>(rank)] = {m.distill_loss, m.grad_norm,
                                        all_weights(r.model(), WholeTensors(r.model()))};
    });
    return out;
  };
  const Distilled one = on({2, 1})[0];
  EXPECT_GT(one.loss, 0);
  for (const Distilled& rank : on({2, 2})) {
    EXPECT_EQ(rank.loss, one.loss);
    EXPECT_EQ(rank.norm, one.norm);
    EXPECT_TRUE(same_bits(rank.masters, one.masters));
  }
}

// Of a model whose vocabulary the parts divide evenly: what is not a norm is 1 / T on each rank.
TEST(VocabularyMemory, IsARanksShare) {
  ModelConfig config = twelve_heads(true);
  config.vocab = 1024;
  const LayeredSource source(config);
  const auto parameters = [&](const ModelConfig& c) { return WeightLayout(c).num_parameters(); };
  const int64_t all = parameters(config);
  for (const int64_t ranks : {2, 4}) {
    on_ranks({4, ranks}, {.source = &source}, options_of(), [&](TrainRig& r, int) {
      const ModelConfig& own = r.model().config();
      int64_t norms = 0;
      for (const Parameter& p : r.model().layout().parameters()) norms += p.part < 0 ? p.size : 0;
      EXPECT_EQ(ranks * (r.model().layout().num_parameters() - norms), all - norms);
      EXPECT_LT(norms, all / 20);
      const Dtype compute = r.model().compute_dtype();
      EXPECT_EQ(r.model().arena_bytes(),
                Model::master_bytes(own) +
                    Model::packed_forward_bytes(r.tiny.compute->device(), own, compute));
      const uint64_t whole = HeadBuffers::bytes(config, compute, 64, true);
      const uint64_t part = HeadBuffers::bytes(own, compute, 64, true);
      const int64_t logits = 64 * (config.vocab - config.vocab / ranks);
      EXPECT_LT(part, whole - static_cast<uint64_t>(logits) * 4);
    });
  }
}

}  // namespace
}  // namespace rl::testing
