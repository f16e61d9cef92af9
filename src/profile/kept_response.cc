// The step comes first, under the same name in all files of a run, which is how a resume finds it.
#include "profile/kept_response.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "profile/metrics_writer.h"

namespace rl {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKinds[] = {"eval", "best", "worst"};  // by ResponseKind

std::string kept_text(const std::string& text, bool& cut) {
  const std::string_view kept = clip_text(text, kMaxKeptText);
  cut = cut || kept.size() < text.size();
  return std::string(kept);
}

std::optional<ResponseKind> kind_named(const std::string& name) {
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    if (name == kKinds[i]) return static_cast<ResponseKind>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view clip_text(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  const auto continues = [&](size_t i) { return (static_cast<uint8_t>(text[i]) & 0xC0) == 0x80; };
  size_t end = max_bytes;
  while (end > 0 && max_bytes - end < 3 && continues(end)) --end;
  return text.substr(0, end);
}

std::string render_kept_response(const KeptResponse& a) {
  bool cut = a.cut;
  Json line = Json::object();
  line[kStepMetric] = a.step;
  line["kind"] = kKinds[static_cast<size_t>(a.kind)];
  line["row"] = a.data_row;
  line["reward"] = std::isfinite(a.reward) ? Json(a.reward) : Json(nullptr);
  line["tokens"] = a.num_tokens;
  line["finish"] = a.finish;
  line["tag"] = kept_text(a.tag, cut);
  line["prompt"] = kept_text(a.prompt, cut);
  line["answer"] = kept_text(a.response, cut);
  if (cut) line["cut"] = true;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<KeptResponse> parse_kept_response(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto has = [&](const char* key, auto is_type) {
    return json.contains(key) && (json[key].*is_type)();
  };
  using J = nlohmann::json;
  for (const char* key : {"kind", "finish", "tag", "prompt", "answer"}) {
    if (!has(key, &J::is_string)) return std::nullopt;
  }
  const auto kind = kind_named(json["kind"].get<std::string>());
  if (!kind || !has(kStepMetric, &J::is_number_unsigned) || !has("row", &J::is_number_integer) ||
      !has("tokens", &J::is_number_integer) || !has("reward", &J::is_number)) {
    return std::nullopt;
  }
  KeptResponse a;
  a.kind = *kind;
  a.step = json[kStepMetric].get<uint64_t>();
  a.data_row = json["row"].get<int64_t>();
  a.reward = json["reward"].get<double>();
  a.num_tokens = json["tokens"].get<int64_t>();
  a.finish = json["finish"].get<std::string>();
  a.tag = json["tag"].get<std::string>();
  a.prompt = json["prompt"].get<std::string>();
  a.response = json["answer"].get<std::string>();
  a.cut = json.value("cut", J(false)) == J(true);
  return a;
}

}  // namespace rl
