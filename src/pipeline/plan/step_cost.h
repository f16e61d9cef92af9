// An estimate of the time of one step, from sizes, options and the rates of the machine. It ranks
// settings; it predicts no figure. The formulas:
//
//   L     2 FLOP per weight of the layers, for one token; H the same for the head
//   A     4 FLOP per query head, its width and layer, for one token and one key that it attends
//   W     bytes of the packed weights of a forward; a backward reads as many
//   F, R  FLOP/s of matrix products in the compute dtype, and bytes/s of memory read
//   C     bytes/s of memory copied, by bytes written
//   P, G  tokens of a prompt and of a response: every sample has engine.max_model_len tokens, of
//         which sampling.max_new_tokens are generated
//   N     samples of a step: pipeline.prompts_per_step times those of a prompt
//
// rollout: prompts are computed once for all their samples if prefixes are cached, in forwards of
//   engine.max_num_batched_tokens rows: max(tokens (L + A P/2) / F, forwards W / R). A decode round
//   has b sequences, those that engine.max_num_seqs, KV blocks and the step allow:
//   max(W / R, b (L + H) / F) + b max(KV of P + G/2 tokens / R, A (P + G/2) / F), for each of the
//   G N / b rounds.
// log-prob: for each of reference, critic, reward model and teacher a forward of all N (P + G)
//   rows, in micro-batches: max(rows (L + A (P + G)/2) / F, micro-batches W / R), and the head.
// train: three times the FLOP of a forward; each micro-batch reads 2 W and adds to gradients, 8
//   bytes a parameter: max(FLOP / F, bytes / R). The head likewise, once a chunk of
//   trainer.logprob_chunk_tokens. Rounding gradients to bf16 takes 21 bytes at 2 C.
// update: 28 bytes a parameter read or written by AdamW, at 2 C; with moments in bf16 as if they
//   were 30, in 8 bits 68, because rounding takes longer than the bytes that it saves. With Muon
//   also the FLOP of its products, 4 a b^2 + 2 b^3 for each step on a matrix of sides a >= b.
// publish: each parameter is read, and W and what is packed for the backward are written at C, and
//   once a step the W of engines with a layout of their own; what ranks send is not counted.
// What rows of the knob table add is part of train: trainer.backward_weights = by_layer packs
//   W bytes from the masters in each micro-batch; trainer.recompute_granularity computes products
//   and attention of a forward again; trainer.activation_offload copies inputs twice;
//   trainer.recompute_loss computes the head's product again, by 64 rows;
//   trainer.mlp_chunk_tokens reads the weights of MLPs, and reads and writes their gradients, once
//   more for each chunk.
//
// Rates hold for all threads of the machine's probe, and are scaled to those of the plan.
#pragma once
#include <cstdint>

namespace rl {

class Planner;

struct MachineRates {
  double f32_flops = 0, bf16_flops = 0;  // of matrix products; a multiply-add is two
  double read_bytes_per_s = 0;
  double copy_bytes_per_s = 0;  // bytes written
  int threads = 1;              // that the rates are for

  // Of a processor with AVX-512, for ratios of times where no probe was made.
  static MachineRates nominal() { return {0.25e12, 0.5e12, 24e9, 10e9, 1}; }
};

struct StepWork {
  double flop = 0, read_bytes = 0, copy_bytes = 0;
};

// A pass over the samples of a step.
struct PassSize {
  double rows, micro_batches;
};

// The sizes that a plan chose.
struct StepSizes {
  int64_t max_tokens = 0;  // rows of a micro-batch
  int64_t kv_blocks = 0;   // of each engine
};

struct StepSeconds {
  double rollout = 0, logprob = 0, train = 0, update = 0, publish = 0;
  double total() const { return rollout + logprob + train + update + publish; }
};

StepSeconds step_seconds(const Planner& planner, const StepSizes& sizes, const MachineRates& rates);

}  // namespace rl
