// The same forward, head and packing as every other log-prob.
#include "train/passes/forward_pass.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "model/value_head.h"
#include "ops/compute.h"
#include "train/passes/head_rows.h"
#include "train/passes/output_tensor.h"
#include "train/passes/pass_rules.h"

namespace rl {
namespace {

// Where the outputs of a sample's tokens begin, and at the end the number of all.
std::vector<size_t> token_offsets(ForwardPass::Samples samples) {
  std::vector<size_t> at = {0};
  for (const Sample* s : samples) at.push_back(at.back() + static_cast<size_t>(s->generated()));
  return at;
}

// Which rows of the input are wanted, and to which rows of the output each goes.
class RowChoice {
 public:
  RowChoice(ForwardPass::Samples samples, const ForwardPass::Rows& rows) : all_(!rows) {
    for (const Sample* s : samples)
      first_.push_back(first_.back() + static_cast<int64_t>(s->ids.size()));
    if (!rows) return;
    const auto count = static_cast<uint64_t>(first_.back());
    for (size_t i = 0; i < rows->size(); ++i) {
      if ((*rows)[i] >= count) refuse(i, (*rows)[i], count);
      wanted_.push_back({static_cast<int64_t>((*rows)[i]), static_cast<int64_t>(i)});
    }
    std::ranges::sort(wanted_);
  }

  int64_t count() const { return all_ ? first_.back() : static_cast<int64_t>(wanted_.size()); }
  bool wants_any(size_t item) const { return all_ || from(first_[item]) != from(first_[item + 1]); }
  // Calls visit with every row of the output that the row of a sample goes to.
  template <typename Visit>
  void for_each(const WantedRow& w, Visit&& visit) const {
    const int64_t row = first_[static_cast<size_t>(w.item)] + w.generated;
    if (all_) return visit(row);
    for (auto at = from(row); at != wanted_.end() && at->first == row; ++at) visit(at->second);
  }

 private:
  using Wanted = std::vector<std::pair<int64_t, int64_t>>;  // (row of the input, of the output)

  [[noreturn]] static void refuse(size_t index, uint64_t row, uint64_t count) {
    throw Error(Code::kOutOfRange,
                str("forward.rows[", index, "] is ", row, ", but the input has ", count, " ids"))
        .with_key("forward.rows")
        .with_expected(str("below ", count));
  }
  Wanted::const_iterator from(int64_t row) const {
    return std::ranges::lower_bound(wanted_, row, {}, &Wanted::value_type::first);
  }

  const bool all_;
  std::vector<int64_t> first_ = {0};  // row of the input that a sample begins with
  Wanted wanted_;
};

}  // namespace

std::vector<PackItem> ForwardPass::items_of(Samples samples, WantedTokens which) const {
  SampleLimits limits = forward_limits(options_, model_, ForwardOf::kOwn);
  if (which == WantedTokens::kLast || which == WantedTokens::kAll) {
    limits = with_last_row(limits);
    // The longest sample is allowed: rows are what bounds a forward.
    if (!model_.config().scalar_head) ++limits.max_sample;
  }
  std::vector<PackItem> items;
  for (const Sample* s : samples) {
    check_sequence(*s, limits);
    items.push_back(make_pack_item(*s, static_cast<int32_t>(items.size()), which));
  }
  return items;
}

void ForwardPass::run(std::span<const PackItem> items, WantedTokens which,
                      FunctionRef<void()> visit) {
  const PackRules rules = forward_rules(options_, model_, ForwardOf::kOwn);
  for (const auto& some : plan_micro_batches(items, rules)) {
    micro_.fill(some, rules, which);
    RL_CHECK(micro_.blocks() <= buffers_.kv.num_blocks);
    forward(model_, micro_.batch(), buffers_.kv, buffers_.forward, nullptr);
    if (model_.config().has_head()) visit();
  }
}

void ForwardPass::head_of(std::span<const WantedRow> chunk) {
  set_head_rows(chunk, rows_, ids_, inv_temperature_);
  gather_rows(model_, buffers_.forward.hidden, rows_, buffers_.head);
  head_forward(model_, inv_temperature_, buffers_.head);
}

void ForwardPass::tokens(Samples samples, std::span<float> logprobs, std::span<float> entropies) {
  const std::vector<size_t> at = token_offsets(samples);
  RL_CHECK(logprobs.size() == at.back() && (entropies.empty() || entropies.size() == at.back()));
  const auto most = static_cast<size_t>(buffers_.head.logit_rows);
  std::vector<float> some(most), some_entropies(entropies.empty() ? 0 : most);
  run(items_of(samples, WantedTokens::kGenerated), WantedTokens::kGenerated, [&] {
    const std::span<const WantedRow> wanted = micro_.wanted();
    for (size_t first = 0; first < wanted.size(); first += most) {
      const auto chunk = wanted.subspan(first, std::min(most, wanted.size() - first));
      head_of(chunk);
      const size_t count = chunk.size();
      head_scores(model_, buffers_.head, ids_,
                  {std::span(some).first(count),
                   std::span(some_entropies).first(entropies.empty() ? 0 : count)});
      for (size_t i = 0; i < count; ++i) {
        const size_t to =
            at[static_cast<size_t>(chunk[i].item)] + static_cast<size_t>(chunk[i].generated);
        logprobs[to] = some[i];
        if (!entropies.empty()) entropies[to] = some_entropies[i];
      }
    }
  });
  model_.stage_ranks().share(logprobs);
  model_.stage_ranks().share(entropies);
}

void ForwardPass::values_of_wanted() {
  rows_.clear();
  for (const WantedRow& w : micro_.wanted()) rows_.push_back(w.row);
  values_.resize(rows_.size());
  value_forward(model_, buffers_.forward.hidden, rows_, values_);
}

void ForwardPass::values(Samples samples, std::span<float> out) {
  const std::vector<size_t> at = token_offsets(samples);
  RL_CHECK(out.size() == at.back());
  run(items_of(samples, WantedTokens::kGenerated), WantedTokens::kGenerated, [&] {
    values_of_wanted();
    for (size_t i = 0; i < values_.size(); ++i) {
      const WantedRow& w = micro_.wanted()[i];
      out[at[static_cast<size_t>(w.item)] + static_cast<size_t>(w.generated)] = values_[i];
    }
  });
}

void ForwardPass::scores(Samples samples, std::span<float> out) {
  RL_CHECK(out.size() == samples.size());
  run(items_of(samples, WantedTokens::kLast), WantedTokens::kLast, [&] {
    values_of_wanted();
    for (size_t i = 0; i < values_.size(); ++i)
      out[static_cast<size_t>(micro_.wanted()[i].item)] = values_[i];
  });
}

void ForwardPass::run_rows(Samples samples, const Rows& rows,
                           FunctionRef<void(std::span<const Target> targets)> visit) {
  const RowChoice choice(samples, rows);
  std::vector<PackItem> items = items_of(samples, WantedTokens::kAll);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!choice.wants_any(i)) items[i].rows = 0;
  }
  std::vector<Target> targets;
  run(items, WantedTokens::kAll, [&] {
    targets.clear();
    for (const WantedRow& w : micro_.wanted())
      choice.for_each(w, [&](int64_t to) { targets.push_back({w.row, to}); });
    visit(targets);
  });
}

TensorPtr ForwardPass::hidden(Samples samples, Rows rows) {
  const bool wide = model_.compute_dtype() == Dtype::kF32;
  const int64_t width = model_.config().hidden;
  const OwnedTensor out = make_output(model_, wide ? ElementType::kF32 : ElementType::kBf16,
                                      {RowChoice(samples, rows).count(), width});
  const uint64_t bytes = static_cast<uint64_t>(width) * dtype_bytes(model_.compute_dtype());
  run_rows(samples, rows, [&](std::span<const Target> targets) {
    for (const Target& t : targets) {
      copy_bytes(model_.compute(), {buffers_.forward.hidden + static_cast<uint64_t>(t.row) * bytes,
                                    out.data + static_cast<uint64_t>(t.to) * bytes, bytes});
    }
  });
  share(out);
  return out.tensor;
}

// Outputs are in the host's memory.
void ForwardPass::share(const OwnedTensor& out) const {
  model_.stage_ranks().share(std::span(out.data, out.tensor->num_bytes()));
}

// Of the tokens that this rank has.
void ForwardPass::copy_logits(std::span<const Target> targets, std::byte* out) {
  rows_.clear();
  for (const Target& t : targets) rows_.push_back(t.row);
  inv_temperature_.assign(targets.size(), 1.0f);
  HeadBuffers& head = buffers_.head;
  gather_rows(model_, buffers_.forward.hidden, rows_, head);
  head_forward(model_, inv_temperature_, head);
  for (size_t i = 0; i < targets.size(); ++i) {
    const int64_t to = targets[i].to * head.cut.tiles().n + head.cut.own().first;
    copy_bytes(model_.compute(),
               {head.z + static_cast<int64_t>(i) * head.vocab, reinterpret_cast<float*>(out) + to,
                static_cast<uint64_t>(head.vocab) * sizeof(float)});
  }
}

TensorPtr ForwardPass::logits(Samples samples, Rows rows) {
  const OwnedTensor out = make_output(model_, ElementType::kF32,
                                      {RowChoice(samples, rows).count(), model_.config().vocab});
  const std::span all(out.data, out.tensor->num_bytes());
  if (model_.tensor_ranks().size() > 1) std::ranges::fill(all, std::byte{0});
  const auto most = static_cast<size_t>(buffers_.head.logit_rows);
  run_rows(samples, rows, [&](std::span<const Target> targets) {
    for (size_t at = 0; at < targets.size(); at += most)
      copy_logits(targets.subspan(at, std::min(most, targets.size() - at)), out.data);
  });
  if (model_.config().has_head()) model_.tensor_ranks().merge_bytes(all);
  share(out);
  return out.tensor;
}

}  // namespace rl
