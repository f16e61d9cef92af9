// Packed micro-batches against the packing of other libraries (tests/fixtures/batching): the same
// ids at the same positions, and for every target the row that predicts it. librl leaves out the
// last row of a sequence, whose target is none.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "train/batch/micro_batch.h"

namespace rl {
namespace {

using Json = nlohmann::json;

struct Row {
  int32_t id, position, target;
  bool operator==(const Row&) const = default;
};

// Rows that predict something.
std::vector<Row> rows_of(const Json& packing) {
  std::vector<Row> rows;
  for (size_t i = 0; i < packing["input_ids"].size(); ++i) {
    const Row row{packing["input_ids"][i], packing["position_ids"][i],
                  packing["next_token_targets"][i]};
    if (row.target != -100) rows.push_back(row);
  }
  return rows;
}

std::vector<Row> rows_of(const MicroBatch& micro) {
  std::vector<Row> rows;
  const ForwardBatch batch = micro.batch();
  for (const SequenceRows& s : batch.sequences) {
    for (int32_t r = 0; r < s.rows; ++r) {
      rows.push_back({batch.ids[static_cast<size_t>(s.first_row + r)], s.first_position + r, -100});
    }
  }
  for (const WantedRow& w : micro.wanted()) rows[static_cast<size_t>(w.row)].target = w.id;
  return rows;
}

// Everything after the first token is trained on, as in the goldens.
Sample sample_of(const Json& ids, uint64_t ordinal) {
  Sample s;
  s.ordinal = ordinal;
  s.ids = ids.get<std::vector<int32_t>>();
  s.prompt_tokens = 1;
  s.logprobs.assign(s.ids.size() - 1, 0.0f);
  s.versions.assign(s.ids.size() - 1, 0);
  s.loss_mask.assign(s.ids.size() - 1, 1);
  return s;
}

TEST(PackingGolden, RowsPositionsAndTargetsAreTheSame) {
  std::ifstream in(RL_FIXTURES "/batching/batching.json");
  const Json cases = Json::parse(in)["packing"];
  for (const Json& packing : cases) {
    SCOPED_TRACE(packing["sequences"].dump());
    std::vector<Sample> samples;
    for (const Json& ids : packing["sequences"]) samples.push_back(sample_of(ids, samples.size()));
    std::vector<PackItem> items;
    for (const Sample& s : samples) {
      const auto index = static_cast<int32_t>(items.size());
      const PackItem item = make_pack_item(s, index, WantedTokens::kLoss);
      if (item.rows > 0) items.push_back(item);
    }
    PackRules rules;
    rules.rows = rules.longest = 64;
    rules.blocks = 64;
    rules.block_size = 16;
    MicroBatch micro;
    micro.fill(items, rules, WantedTokens::kLoss);
    EXPECT_TRUE(rows_of(micro) == rows_of(packing));
  }
  ASSERT_GT(cases.size(), 0u);
  std::printf("golden batching/batching.json packing: %zu cases, %zu passed, 0 left out\n",
              cases.size(), HasFailure() ? size_t{0} : cases.size());
}

}  // namespace
}  // namespace rl
