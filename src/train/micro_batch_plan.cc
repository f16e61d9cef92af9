#include "train/micro_batch_plan.h"

#include <algorithm>

#include "core/error.h"

namespace rl {
namespace {

bool same_prompt(const Sample& a, const Sample& b) {
  return a.prompt_tokens == b.prompt_tokens &&
         std::equal(a.ids.begin(), a.ids.begin() + a.prompt_tokens, b.ids.begin());
}

class InOrder {
 public:
  InOrder(const PackRules& rules) : rules_(rules), run_(rules.block_size) {}

  void add_run(std::span<const PackItem> items) {
    close_run();
    RunSize whole(rules_.block_size);
    for (const PackItem& item : items) whole.add(item);
    const bool alone = whole.rows() <= rules_.rows && whole.blocks() <= rules_.blocks;
    if (alone && !fits(whole)) begin();
    for (const PackItem& item : items) {
      RunSize more = run_;
      more.add(item);
      if (!fits(more)) {
        begin();
        more = RunSize(rules_.block_size);
        more.add(item);
        RL_CHECK(fits(more));
      }
      run_ = more;
      if (plan_.empty()) plan_.emplace_back();
      plan_.back().push_back(item);
    }
  }

  MicroBatchPlan take() { return std::move(plan_); }

 private:
  bool fits(const RunSize& run) const {
    return rows_ + run.rows() <= rules_.rows && blocks_ + run.blocks() <= rules_.blocks;
  }
  void begin() {
    if (!plan_.empty()) plan_.emplace_back();
    run_ = RunSize(rules_.block_size);
    rows_ = blocks_ = 0;
  }
  void close_run() {
    rows_ += run_.rows();
    blocks_ += run_.blocks();
    run_ = RunSize(rules_.block_size);
  }

  const PackRules& rules_;
  MicroBatchPlan plan_;
  int64_t rows_ = 0, blocks_ = 0;  // of the runs before the last, in the last micro-batch
  RunSize run_;                    // of the last run, in the last micro-batch
};

}  // namespace

PackItem make_pack_item(const Sample& sample, int32_t index, WantedTokens which) {
  PackItem item{&sample, index, 0, 0};
  for (int64_t g = 0; g < sample.generated(); ++g) {
    if (!wants(sample, g, which)) continue;
    item.rows = static_cast<int32_t>(sample.prompt_tokens + g);
    ++item.wanted;
  }
  return item;
}

size_t run_length(std::span<const PackItem> items, bool share_prompts) {
  size_t n = 1;
  while (share_prompts && n < items.size() && same_prompt(*items[0].sample, *items[n].sample)) ++n;
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

MicroBatchPlan plan_in_order(std::span<const PackItem> items, const PackRules& rules) {
  std::vector<PackItem> some;
  std::copy_if(items.begin(), items.end(), std::back_inserter(some),
               [](const PackItem& item) { return item.rows > 0; });
  InOrder plan(rules);
  for (std::span<const PackItem> rest = some; !rest.empty();) {
    const size_t run = run_length(rest, rules.share_prompts);
    plan.add_run(rest.first(run));
    rest = rest.subspan(run);
  }
  return plan.take();
}

}  // namespace rl
