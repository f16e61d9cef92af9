// Sizes are updated item by item, so that planning is linear in the number of items.
#include "train/batch/micro_batch_plan.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"

namespace rl {
namespace {

bool same_prompt(const Sample& a, const Sample& b) {
  return a.prompt_tokens == b.prompt_tokens &&
         std::equal(a.ids.begin(), a.ids.begin() + a.prompt_tokens, b.ids.begin());
}

RunSize size_of(std::span<const PackItem> items, const PackRules& rules) {
  RunSize size(rules.block_size);
  for (const PackItem& item : items) size.add(item);
  return size;
}

bool within_samples(size_t samples, const PackRules& rules) {
  return rules.samples == 0 || samples <= static_cast<size_t>(rules.samples);
}

// Fills micro-batches in order. With a token budget a run that fits one micro-batch is not split.
class InOrder {
 public:
  explicit InOrder(const PackRules& rules) : rules_(rules), run_(rules.block_size) {}

  void add_run(std::span<const PackItem> items) {
    close_run();
    const RunSize whole = size_of(items, rules_);
    const bool uncut = rules_.batch.packed && rules_.batch.micro_batch_size == 0 &&
                       rules_.batch.padded(whole.rows()) <= rules_.rows &&
                       whole.blocks() <= rules_.blocks && within_samples(items.size(), rules_);
    if (uncut && !fits(whole, items)) begin();
    for (const PackItem& item : items) {
      if (!fits(run_with(item), {&item, 1})) begin();
      add(item);
    }
  }

  MicroBatchPlan take() { return std::move(plan_); }

 private:
  RunSize run_with(const PackItem& item) const {
    RunSize more = run_;
    more.add(item);
    return more;
  }
  // `run` is the run with the items added; an empty micro-batch takes any.
  bool fits(const RunSize& run, std::span<const PackItem> items) const {
    const auto taken = plan_.empty() ? 0 : static_cast<int64_t>(plan_.back().size());
    if (taken == 0) return true;
    if (!within_samples(plan_.back().size() + items.size(), rules_)) return false;
    if (rules_.batch.micro_batch_size > 0) return taken < rules_.batch.micro_batch_size;
    if (rules_.batch.packed) {
      return rules_.batch.padded(rows_ + run.rows()) <= rules_.rows &&
             blocks_ + run.blocks() <= rules_.blocks;
    }
    const int64_t length = rules_.batch.padded(std::max<int64_t>(longest_, items.front().rows));
    return (taken + 1) * length <= rules_.rows &&
           (taken + 1) * (kv_blocks_of(length, rules_.block_size) + 1) <= rules_.blocks;
  }
  void add(const PackItem& item) {
    if (plan_.empty()) plan_.emplace_back();
    plan_.back().push_back(item);
    run_.add(item);
    longest_ = std::max<int64_t>(longest_, item.rows);
  }
  void begin() {
    if (!plan_.empty()) plan_.emplace_back();
    run_ = RunSize(rules_.block_size);
    rows_ = blocks_ = longest_ = 0;
  }
  void close_run() {
    rows_ += run_.rows();
    blocks_ += run_.blocks();
    run_ = RunSize(rules_.block_size);
  }

  const PackRules& rules_;
  MicroBatchPlan plan_;
  // Of the last micro-batch: rows and blocks of the runs before its last run, which is run_.
  int64_t rows_ = 0, blocks_ = 0, longest_ = 0;
  RunSize run_;
};

MicroBatchPlan in_order(std::span<const PackItem> items, const PackRules& rules) {
  InOrder plan(rules);
  while (!items.empty()) {
    const size_t run = run_length(items, rules.shares());
    plan.add_run(items.first(run));
    items = items.subspan(run);
  }
  return plan.take();
}

// The units that are not split: runs, or the parts of a run that fits no micro-batch.
MicroBatchPlan pieces_of(std::span<const PackItem> items, const PackRules& rules) {
  MicroBatchPlan pieces;
  while (!items.empty()) {
    const auto run = items.first(run_length(items, rules.shares()));
    const MicroBatchPlan parts = in_order(run, rules);
    pieces.insert(pieces.end(), parts.begin(), parts.end());
    items = items.subspan(run.size());
  }
  return pieces;
}

enum class Measure : uint8_t { kRows, kRowsOrOthers };

// Blocks and samples are converted to the rows they correspond to, so that one budget covers all.
WorkUnit unit_of(std::span<const PackItem> piece, const PackRules& rules, Measure measure) {
  const RunSize size = size_of(piece, rules);
  const auto cost = [&](int64_t rows) {
    return sequence_cost(rules.batch.balance, rules.hidden_size, rows);
  };
  const auto rows_of = [&](int64_t count, int64_t most) {
    return most == 0 ? 0 : (count * rules.rows + most - 1) / most;
  };
  WorkUnit unit{size.rows(), 0};
  if (measure == Measure::kRowsOrOthers) {
    const auto samples = static_cast<int64_t>(piece.size());
    unit.tokens = std::max(
        {unit.tokens, rows_of(size.blocks(), rules.blocks), rows_of(samples, rules.samples)});
  }
  for (const PackItem& item : piece) unit.cost += cost(item.rows);
  unit.cost -= (static_cast<int64_t>(piece.size()) - 1) * cost(piece.front().sample->prompt_tokens);
  return unit;
}

Partition shared_out(const MicroBatchPlan& pieces, const PackRules& rules, Measure measure) {
  std::vector<WorkUnit> units;
  for (const auto& piece : pieces) units.push_back(unit_of(piece, rules, measure));
  const int64_t pad_to = rules.batch.seq_len != 0 ? 1 : rules.batch.pad_to;
  MicroBatchParams params;
  params.max_tokens = rules.rows / pad_to * pad_to;  // its padding fits as well
  params.oversize_alone = true;
  return cut_micro_batches(units, params);
}

bool others_fit(const Partition& bins, const MicroBatchPlan& pieces, const PackRules& rules) {
  return std::ranges::all_of(bins, [&](const std::vector<int32_t>& bin) {
    int64_t blocks = 0;
    size_t samples = 0;
    for (const int32_t u : bin) {
      const std::vector<PackItem>& piece = pieces[static_cast<size_t>(u)];
      blocks += size_of(piece, rules).blocks();
      samples += piece.size();
    }
    return blocks <= rules.blocks && within_samples(samples, rules);
  });
}

// Blocks and samples are counted only if sequences are so many and so short that they run out.
MicroBatchPlan balanced(std::span<const PackItem> items, const PackRules& rules) {
  RL_CHECK(rules.batch.packed && rules.batch.micro_batch_size == 0);
  const MicroBatchPlan pieces = pieces_of(items, rules);
  MicroBatchPlan plan;
  if (pieces.empty()) return plan;
  Partition bins = shared_out(pieces, rules, Measure::kRows);
  if (!others_fit(bins, pieces, rules)) bins = shared_out(pieces, rules, Measure::kRowsOrOthers);
  for (const auto& bin : bins) {
    auto& some = plan.emplace_back();
    for (const int32_t u : bin) {
      const auto& piece = pieces[static_cast<size_t>(u)];
      some.insert(some.end(), piece.begin(), piece.end());
    }
  }
  // A run that fits no micro-batch can fill leftover room in order, so plain order may be better.
  MicroBatchPlan plain = in_order(items, rules);
  if (plain.size() < plan.size()) return plain;
  return plan;
}

}  // namespace

PackItem make_pack_item(const Sample& sample, int32_t index, WantedTokens which) {
  PackItem item{&sample, index, 0, 0};
  if (which == WantedTokens::kLast || which == WantedTokens::kAll) {
    item.rows = static_cast<int32_t>(sample.ids.size());
    item.wanted = which == WantedTokens::kLast ? 1 : item.rows;
    return item;
  }
  for (int64_t g = 0; g < sample.generated(); ++g) {
    if (!wants(sample, g, which)) continue;
    item.rows = static_cast<int32_t>(sample.prompt_tokens + g);
    ++item.wanted;
  }
  return item;
}

size_t run_length(std::span<const PackItem> items, bool shares) {
  size_t n = 1;
  while (shares && n < items.size() && same_prompt(*items[0].sample, *items[n].sample)) ++n;
  return n;
}

void RunSize::add(const PackItem& item) {
  prompt_ = item.sample->prompt_tokens;
  if (count_++ == 0) first_rows_ = item.rows;
  const int64_t own = item.rows - prompt_;
  if (own == 0) return;
  own_rows_ += own;
  own_blocks_ += kv_blocks_of(item.rows, block_size_) - prompt_ / block_size_;
}

int64_t RunSize::rows() const { return prompt_ + own_rows_; }

int64_t RunSize::blocks() const {
  if (count_ == 1) return kv_blocks_of(first_rows_, block_size_);
  return kv_blocks_of(prompt_, block_size_) + own_blocks_;
}

MicroBatchPlan plan_micro_batches(std::span<const PackItem> items, const PackRules& rules) {
  std::vector<PackItem> some;
  std::copy_if(items.begin(), items.end(), std::back_inserter(some),
               [](const PackItem& item) { return item.rows > 0; });
  return rules.batch.balance == BalanceCost::kNone ? in_order(some, rules) : balanced(some, rules);
}

}  // namespace rl
