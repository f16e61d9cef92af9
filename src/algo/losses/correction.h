// Correction of the mismatch between the policy that sampled a token (rollout) and the one that it
// is trained under (old: the trainer's policy before the update). l_t = old_log_prob -
// rollout_log_prob; sums, means and maxima of a sequence run over its tokens with mask 1.
//
// Weights, factors of the token losses without a gradient:
//   token     w = exp(clamp(l_t, -c, c)), c = log_clamp
//   sequence  w = exp(clamp(sum l, -c, c)) for every token of the sequence
//   tis       w = min(w, high), and at least low   (truncated importance sampling, Ionides 2008;
//             low is 0 in verl, an option in OpenRLHF and slime)
//   icepop    w = 0 outside [low, high]            (verl's lo_hi threshold, OpenRLHF mask, slime)
//   batch_normalize  w divided by the mean of all w (sequence: one w per sequence), an input
// c is 20 in verl and off in TRL and OpenRLHF. Sequence ratios are products in verl and TRL.
//
// Rejections change the mask: a token, or a whole sequence, stays if its statistic is in bounds.
//   k1 -l (compared with log low .. log high: the bounds are on rollout / old, as in verl, so
//      bounds [a, b] on old / rollout are 1 / b .. 1 / a);  k2 l^2 / 2;  k3 exp(l) - 1 - l;
//   binary_kl  KL of (q, 1 - q) from (p, 1 - p), q rollout's probability, p old's;  tv |p - q|
//   token_S of each token; seq_sum_S, seq_mean_S, seq_max_S of the sequence (verl; OpenRLHF's
//   gates are token_S and seq_mean_S; seq_mean_k1 is the geometric mean ratio)
//   k1 .. k3 clamp l to +-20 first. Only the bounds of k1 have a low end.
// token veto: rejects a sequence if l_t < log(threshold) for any token (verl before 0.8).
// opsm: rejects a sequence if A < 0 and mean(old - current) > delta (slime, TRL).
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "algo/response_shape.h"

namespace rl {

enum class CorrectionLevel : uint8_t { kNone, kToken, kSequence };
std::string_view correction_level_name(CorrectionLevel v);
CorrectionLevel parse_correction_level(std::string_view text);  // key algo.correction.is

enum class CorrectionMode : uint8_t { kTis, kIcepop };
std::string_view correction_mode_name(CorrectionMode v);
CorrectionMode parse_correction_mode(std::string_view text);  // key algo.correction.mode

struct CorrectionParams {
  CorrectionLevel level = CorrectionLevel::kNone;
  CorrectionMode mode = CorrectionMode::kTis;
  double low = 0;         // 0..high
  double high = 2.0;      // > 0; infinity: no bound
  double log_clamp = 20;  // 0 (off) or > 0
};
// Throws Error(kOutOfRange) naming the option.
void validate(const CorrectionParams& params);

struct MismatchInput {
  ResponseShape shape;
  std::span<const float> old_log_prob;
  std::span<const float> rollout_log_prob;
};

// Sums of the weights that the loss uses; batch_normalize and the metrics are ratios of them.
struct CorrectionSums {
  double num_tokens = 0;
  double num_sequences = 0;  // sequences with a token
  double token_sum = 0;      // of w over tokens
  double token_squares = 0;  // effective sample size = token_sum^2 / (num_tokens token_squares)
  double sequence_sum = 0;   // of the mean w of each sequence
  double num_below = 0;      // tokens whose w before tis or icepop is below low; 1 / high for low 0
  double num_above = 0;
  double weight_min = std::numeric_limits<double>::infinity();
  double weight_max = 0;

  void add(const CorrectionSums& o);
};

// level none gives weights of 1. Masked tokens get 0.
CorrectionSums correction_weights(const CorrectionParams& params, const MismatchInput& in,
                                  std::span<double> weights);

// The divisor of batch_normalize from the sums of the whole batch; 1 if the mean is below 1e-8.
double correction_mean(CorrectionLevel level, const CorrectionSums& sums);

enum class RejectLevel : uint8_t { kToken, kSeqSum, kSeqMean, kSeqMax };
enum class RejectStatistic : uint8_t { kK1, kK2, kK3, kBinaryKl, kTv };

struct Rejection {
  RejectLevel level = RejectLevel::kToken;
  RejectStatistic statistic = RejectStatistic::kK1;
  double low = 0;  // k1: above 0, at most high; others: ignored
  double high = 0;
};
// "token_k1", "seq_mean_k3", ...; seq_max_k1 does not exist. The bounds are set by the caller.
std::string rejection_name(const Rejection& v);
Rejection parse_rejection(std::string_view text);  // key algo.correction.rs
void validate(const Rejection& rejection);

struct RejectionSums {
  double num_tokens = 0;
  double num_rejected = 0;  // tokens
  double num_sequences = 0;
  double num_touched = 0;  // sequences with a rejected token

  void add(const RejectionSums& o);
};

// keep[t] = 1 for tokens with mask 1 that pass every rejection, else 0.
RejectionSums reject(std::span<const Rejection> rejections, const MismatchInput& in,
                     std::span<uint8_t> keep);

// Updates keep for the veto; threshold in (0, 1).
RejectionSums veto(double threshold, const MismatchInput& in, std::span<uint8_t> keep);

struct OpsmInput {
  ResponseShape shape;
  std::span<const float> old_log_prob;
  std::span<const float> log_prob;
  std::span<const double> advantage;  // of each sample
};
RejectionSums opsm(double delta, const OpsmInput& in, std::span<uint8_t> keep);

// Mismatch between rollout and old, as global sums; means over tokens or sequences are verl's
// metrics.
struct MismatchSums {
  double num_tokens = 0;
  double num_sequences = 0;      // sequences with a token
  double neg_log_ratio = 0;      // rollout_corr/kl
  double k3 = 0;                 // rollout_corr/k3_kl
  double ratio_squares = 0;      // chi2_token = mean - 1
  double seq_ratio_squares = 0;  // chi2_seq = mean - 1
  double log_ppl_old = 0;        // of sequences: training_log_ppl
  double log_ppl_rollout = 0;
  double ppl_old = 0;
  double ppl_rollout = 0;
  double log_ppl_abs_diff = 0;
  double ppl_ratio = 0;

  void add(const MismatchSums& o);
};
MismatchSums mismatch(const MismatchInput& in);

}  // namespace rl
