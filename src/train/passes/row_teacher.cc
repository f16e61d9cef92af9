// The micro-batch, its KV block ids and the chunks are the policy's; only the shape of the layers
// differs.
#include "train/passes/row_teacher.h"

#include <algorithm>

#include "core/error.h"
#include "model/vocabulary_ranks.h"
#include "ops/compute.h"

namespace rl {
namespace {

enum RegionIndex : size_t { kFirst, kSecond, kThird };

// Forward buffers, then keys and values.
ArenaPlan plan_forward(const TrainShape& s, const StepOptions& o) {
  ArenaPlan plan;
  plan.add_region("forward",
                  ForwardBuffers::bytes(s.config, s.kv, train_limits(s, o), s.num_threads));
  const CheckedU64 block(forward_kv(train_kv(s.kv, o)).block_bytes());
  plan.add_region("KV", (CheckedU64(pool_kv_blocks(s, o)) * block).get());
  return plan;
}

// Rows of a chunk, as the student's head has them.
int64_t head_chunk(const TrainShape& s, const StepOptions& o) {
  return o.head_rows(o.own_train_rows(s.kv.block_size())).chunk;
}

// Hidden states, then the head, then logits of the student.
ArenaPlan plan_kept(const TrainShape& s, const StepOptions& o) {
  const CheckedU64 row = CheckedU64(s.config.hidden) * CheckedU64(dtype_bytes(s.compute()));
  ArenaPlan plan;
  plan.add_region("hidden states", (CheckedU64(o.own_train_rows(s.kv.block_size())) * row).get());
  plan.add_region("head", HeadBuffers::bytes(s.config, s.compute(), head_chunk(s, o), false));
  const uint64_t logits = o.vocabulary_ranks > 1 ? head_chunk(s, o) * s.config.vocab * 4 : 0;
  plan.add_region("logits of the student", logits);
  return plan;
}

std::byte* region(const ArenaPlan& plan, std::byte* data, RegionIndex index) {
  return data + plan.regions()[index].offset;
}

}  // namespace

uint64_t RowTeacher::forward_bytes(const TrainShape& shape, const StepOptions& options) {
  return plan_forward(shape, options).total_bytes();
}

uint64_t RowTeacher::kept_bytes(const TrainShape& shape, const StepOptions& options) {
  return plan_kept(shape, options).total_bytes();
}

RowTeacher::RowTeacher(const Model& model, const StepOptions& o, const Memory& memory,
                       const PassContext& context, const TensorRanks& ranks)
    : model_(model),
      context_(context),
      forward_(model.config(), model.kv_shape(), train_limits(shape_of(model), o),
               shape_of(model).num_threads,
               region(plan_forward(shape_of(model), o), memory.forward, kFirst)),
      kv_{forward_kv(train_kv(model.kv_shape(), o)),
          region(plan_forward(shape_of(model), o), memory.forward, kSecond),
          pool_kv_blocks(shape_of(model), o)},
      hidden_(region(plan_kept(shape_of(model), o), memory.kept, kFirst)),
      head_(model.config(), model.compute_dtype(), head_chunk(shape_of(model), o), false,
            region(plan_kept(shape_of(model), o), memory.kept, kSecond)),
      ranks_(ranks),
      student_(
          reinterpret_cast<float*>(region(plan_kept(shape_of(model), o), memory.kept, kThird))) {
  RL_CHECK(o.vocabulary_ranks == ranks.size());
  RL_CHECK(reinterpret_cast<uintptr_t>(memory.forward) % ArenaPlan::kAlignment == 0);
  RL_CHECK(reinterpret_cast<uintptr_t>(memory.kept) % ArenaPlan::kAlignment == 0);
}

void RowTeacher::forward(const MicroBatch& micro, int64_t& ns) {
  PhaseTimer phase(context_, "train.teacher", ns);
  phase.set_tokens(micro.rows());
  RL_CHECK(micro.blocks() <= kv_.num_blocks);
  rl::forward(model_, micro.batch(), kv_, forward_, nullptr);
  const auto elements = static_cast<uint64_t>(micro.rows() * model_.config().hidden);
  copy_bytes(model_.compute(),
             {forward_.hidden, hidden_, elements * dtype_bytes(model_.compute_dtype())});
}

const float* RowTeacher::compare(const HeadChunk& chunk, const DistillOptions& options,
                                 std::span<const double> weight, std::span<double> value) {
  const size_t rows = chunk.wanted.size();
  const HeadBuffers& policy = *chunk.head;
  RL_CHECK(weight.size() == rows && value.size() == rows);
  RL_CHECK(policy.cut.tiles().n == head_.vocab && policy.cut.ranks() == ranks_.size());
  rows_.clear();
  inv_temperature_.clear();
  for (const WantedRow& w : chunk.wanted) {
    rows_.push_back(w.row);
    inv_temperature_.push_back(w.inv_temperature);
  }
  gather_rows(model_, hidden_, rows_, head_);
  head_forward(model_, inv_temperature_, head_);
  Compute& compute = model_.compute();
  const bool divided = ranks_.size() > 1;
  if (divided) gather_logits(compute, ranks_, policy, student_);
  distill_rows(compute, {options.params, options.coef, weight, head_.vocab,
                         divided ? student_ : policy.z, policy.stats, head_.z, head_.stats, value});
  if (!divided) return head_.z;
  // The student's logits are not needed any more.
  copy_own_columns(compute, policy, head_.z, student_);
  return student_;
}

}  // namespace rl
