// A response kept beyond its step: what metrics.samples stores of a sample, as one JSON line.
// Invariant: a line is bounded whatever the sample was; truncated text is marked.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rl {

// Why it was kept.
enum class ResponseKind : uint8_t { kEval = 0, kBest = 1, kWorst = 2 };

struct KeptResponse {
  ResponseKind kind = ResponseKind::kEval;
  uint64_t step = 0;      // steps done when it was generated, including its own
  int64_t data_row = -1;  // row of the data file or feed
  double reward = 0;
  int64_t num_tokens = 0;  // of the response
  std::string finish;      // finish_reason_name
  std::string tag, prompt, response;
  bool cut = false;  // a text is longer than the part that is kept
};

inline constexpr size_t kMaxKeptText = 4096;  // bytes of each text

// The longest prefix of text that fits max_bytes without splitting a UTF-8 sequence.
std::string_view clip_text(std::string_view text, size_t max_bytes);

// One JSON object without a line end. Texts are clipped, and bytes that are not UTF-8 become
// U+FFFD.
std::string render_kept_response(const KeptResponse& response);
// nullopt if the line is no such object; unknown keys are ignored.
std::optional<KeptResponse> parse_kept_response(std::string_view line);

}  // namespace rl
