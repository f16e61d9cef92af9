// An answer that outlives its step: what metrics.samples keeps of a sample, one JSON line each.
// Invariant: a line is bounded whatever the sample was; a text that was cut says so.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rl {

// Why it was kept.
enum class AnswerKind : uint8_t { kEval = 0, kBest = 1, kWorst = 2 };

struct KeptAnswer {
  AnswerKind kind = AnswerKind::kEval;
  uint64_t step = 0;      // steps done when it was drawn, its own one counted
  int64_t data_row = -1;  // row of the data file or feed
  double reward = 0;
  int64_t num_tokens = 0;  // of the answer
  std::string finish;      // finish_reason_name
  std::string tag, prompt, answer;
  bool cut = false;  // a text is longer than what is kept of it
};

inline constexpr size_t kMaxKeptText = 4096;  // bytes of each text

// text, or as much of it as max_bytes hold without cutting a UTF-8 sequence apart.
std::string_view clip_text(std::string_view text, size_t max_bytes);

// One JSON object without a line end. Texts are clipped, and bytes that are no UTF-8 become U+FFFD.
std::string render_kept_answer(const KeptAnswer& answer);
// Empty for a line that is no such object; keys that are not known are passed over.
std::optional<KeptAnswer> parse_kept_answer(std::string_view line);

}  // namespace rl
