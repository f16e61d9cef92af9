// Distillation of a teacher q into a student p, per token.
//
// On samples of the student (on-policy):
//   advantage  A_t -= coef (log p_t - log q_t), for any policy loss           (slime OPD: reverse
//              KL from the sampled token's log-probs alone)
//   loss       algo/losses/kl.h with the teacher as reference: k1+, k2, k3 ...       (verl)
// On whole rows of logits, with the gradient in the student's logits z (p = softmax(z)):
//   forward    sum q (log q - log p)        d_i = p_i - q_i
//   reverse    sum p (log p - log q)        d_i = p_i ((log p_i - log q_i) - KL)
//   mixed      beta KL(q | m) + (1 - beta) KL(p | m), m = beta q + (1 - beta) p, 0 < beta < 1
//              d_i = (1 - beta) p_i (log p_i - log m_i - KL(p | m))     (GKD, arXiv 2306.13649)
// On the teacher's top ids, with the gradient in the student's log-probs:
//   top_k      sum over ids of q (log q - log p)                              (verl, 32 ids)
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace rl {

enum class DistillKl : uint8_t { kForward, kReverse, kMixed };
std::string_view distill_kl_name(DistillKl v);
DistillKl parse_distill_kl(std::string_view text);  // key algo.distill.kl

struct DistillParams {
  DistillKl kind = DistillKl::kReverse;
  double beta = 0.5;  // algo.distill.beta, used by mixed
};
// Throws Error(kOutOfRange) naming the option.
void validate(const DistillParams& params);

// Log-probs of every id, as row_reference of algo/losses/entropy.h returns them; -inf is
// probability 0. An id with probability 0 only in q makes reverse infinite, one with probability 0
// only in p makes forward infinite: Error(kNonFinite). Adds scale * d to gradient.
double distill_row(const DistillParams& params, std::span<const double> student_log_probs,
                   std::span<const double> teacher_log_probs, double scale,
                   std::span<double> gradient);

// A row's largest logit and the log of the sum of exp(logit - max): log p_i = (logit_i - max) -
// log_sum, rounded to float as a log-prob is.
struct DistillNorm {
  float max, log_sum;
};
// The same for one row of two heads, in place: scale * d replaces the teacher's logits. Equal rows
// give 0 and gradients of exactly 0. Non-finite values are returned unchanged.
struct DistillLogits {
  std::span<const float> student;
  DistillNorm student_norm;
  std::span<float> teacher;
  DistillNorm teacher_norm;
};
double distill_logits(const DistillParams& params, const DistillLogits& rows, double scale);

// Adds scale * derivative, -scale * q_i, to gradient.
double distill_top(std::span<const float> student_log_probs,
                   std::span<const float> teacher_log_probs, double scale,
                   std::span<double> gradient);

// The on-policy form: advantage_t -= coef (log p_t - log q_t) where mask is 1.
struct DistillTokens {
  std::span<const float> student_log_prob;
  std::span<const float> teacher_log_prob;
  std::span<const uint8_t> mask;
};
void add_distill_advantage(double coef, const DistillTokens& in, std::span<double> advantage);

}  // namespace rl
