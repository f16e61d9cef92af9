// Attention over a whole batch: calls become tasks, each with its thread's scratch. In decode the
// attention's task also applies RoPE and writes K and V, so the block is already in its cache.
#include "ops/cpu/cpu_compute.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/rows_of.h"

namespace rl {
namespace {

// KV heads per task: all if there are enough calls to fill the threads, else one. Bit-identical
// either way.
int64_t heads_of_task(const AttendArgs& a, int64_t calls, int64_t shared_calls, int num_threads) {
  constexpr int64_t kCallsOfThread = 4;
  const bool enough = shared_calls == 0 && calls >= kCallsOfThread * num_threads;
  return enough && a.heads ? std::min(a.attention.shape.kv_heads, max_kv_heads_per_call(1)) : 1;
}

// A task is some kv heads of one call; calls on shared blocks are the longest and go first.
class AttendTasks {
 public:
  AttendTasks(const AttendArgs& args, int num_threads)
      : a_(args),
        heads_(args.attention.shape.kv_heads),
        ungrouped_(windowed() ? args.work.by_sequence() : args.work.ungrouped()),
        shared_calls_(windowed() ? 0
                                 : static_cast<int64_t>(args.work.shared_prefix_groups().size())),
        stride_(attention_scratch_floats(args.attention.shape)) {
    const int64_t calls = shared_calls_ + static_cast<int64_t>(ungrouped_.size());
    each_ = heads_of_task(args, calls, shared_calls_, num_threads);
    groups_ = (heads_ + each_ - 1) / each_;
    count_ = calls * groups_;
  }
  int64_t count() const { return count_; }

  void run(int64_t task, int worker) const {
    const int64_t call = task / groups_, head = task % groups_ * each_;
    float* scratch = reinterpret_cast<float*>(a_.workspace) + worker * stride_;
    AttentionArgs own = a_.attention;
    own.next = task + 1 < count_ ? first_block(task + 1) : nullptr;
    if (call < shared_calls_) {
      const SharedAttentionRows& rows = a_.work.shared_prefix_groups()[call];
      write_heads({rows.first_row, static_cast<int64_t>(rows.rows.size())}, head);
      attention_shared(own, rows, head, scratch);
    } else {
      const AttentionRows& rows = ungrouped_[call - shared_calls_];
      const KvHeads range{head, std::min(heads_, head + each_)};
      for (int64_t h = range.first; h < range.end; ++h) write_heads({rows.first_row, rows.rows}, h);
      attention(own, rows, range, scratch);
    }
  }

 private:
  bool windowed() const { return a_.attention.rule.window > 0; }

  // What the task reads first.
  const std::byte* first_block(int64_t task) const {
    const AttentionArgs& args = a_.attention;
    const int64_t call = task / groups_;
    const int32_t* blocks =
        call < shared_calls_ ? a_.work.shared_prefix_groups()[call].rows.front().blocks : nullptr;
    if (!blocks) blocks = first_of(ungrouped_[call - shared_calls_]);
    return args.pool + (*blocks * heads_ + task % groups_ * each_) * args.shape.kv_head_bytes();
  }

  const int32_t* first_of(const AttentionRows& rows) const {
    const int64_t block = a_.attention.shape.block_size;
    if (!rows.runs.empty()) return rows.runs[0].blocks + rows.runs[0].first / block;
    return rows.blocks + a_.attention.rule.first_key(rows.first_position) / block;
  }

  void write_heads(const RowSpan& rows, int64_t kv_head) const {
    if (!a_.heads) return;
    rope_and_write_kv(rows_of(*a_.heads, rows, a_.heads->qkv + rows.first * a_.heads->stride),
                      kv_head);
  }

  const AttendArgs& a_;
  const int64_t heads_;
  const std::span<const AttentionRows> ungrouped_;
  const int64_t shared_calls_, stride_;
  int64_t each_ = 1, groups_ = 0, count_ = 0;
};

}  // namespace

namespace cpu {

void attend(Compute& compute, const AttendArgs& args) {
  const AttendTasks tasks(args, compute.num_threads());
  cpu_of(compute).executor().parallel_for(
      tasks.count(), [&](int64_t task, int worker) { tasks.run(task, worker); });
}

void attend_backward(Compute& compute, const AttendBackwardArgs& a) {
  CpuCompute& cpu = cpu_of(compute);
  cpu::zero_floats(compute, {a.work.sums(), a.work.num_sums()});
  const int64_t heads = a.attention.shape.kv_heads,
                stride = attention_backward_scratch_floats(a.attention.shape);
  for (int64_t step = 0; step < a.work.steps(); ++step) {
    const std::span<const AttentionBackwardPiece> pieces = a.work.pieces(step, a.attention.rule);
    cpu.executor().parallel_for(
        static_cast<int64_t>(pieces.size()) * heads, [&](int64_t task, int worker) {
          attention_backward(a.attention, pieces[task / heads], task % heads,
                             reinterpret_cast<float*>(a.workspace) + worker * stride);
        });
  }
}

}  // namespace cpu
}  // namespace rl
