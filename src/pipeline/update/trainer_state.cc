// The format number is the trainer's own: a run's part of a checkpoint is another text
// (pipeline/loop/run_state.h).
#include "pipeline/update/trainer_state.h"

#include "core/encoding/strict_json.h"
#include "core/error.h"

namespace rl {
namespace {

using nlohmann::json;
constexpr uint64_t kFormat = 1;
constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

[[noreturn]] void fail(const std::string& location, const char* key, const char* expected) {
  throw Error(Code::kDataLoss, str(location, ": \"", key, "\" is not ", expected))
      .with_key(key)
      .with_expected(expected)
      .with_location(location);
}

uint64_t number(const json& object, const char* key, const std::string& location) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) {
    fail(location, key, "an integer of at least 0");
  }
  return found->get<uint64_t>();
}

}  // namespace

std::string render_trainer_state(const TrainerState& state) {
  json object = {{"trainer_format", kFormat},
                 {"steps", state.steps},
                 {"host", state.host},
                 {"options", state.identity}};
  if (state.kl_coef) object["kl_coef"] = *state.kl_coef;
  std::string text = object.dump();
  if (text.size() <= kMaxBytes) return text;
  throw Error(Code::kOutOfRange, str("checkpoint.state has ", state.host.size(),
                                     " bytes, with which the trainer's state is a JSON text of ",
                                     text.size(), " bytes; it could not be loaded"))
      .with_key("checkpoint.state")
      .with_expected(str("a JSON text of at most ", kMaxBytes, " bytes"));
}

TrainerState parse_trainer_state(const std::string& text, const std::string& location) {
  const json object = parse_strict_json(text, location, kMaxBytes);
  if (!object.is_object()) {
    throw Error(Code::kDataLoss, str(location, ": the trainer's state is not a JSON object"))
        .with_location(location);
  }
  if (const uint64_t format = number(object, "trainer_format", location); format != kFormat) {
    throw Error(Code::kIncompatible, str(location, ": trainer state of format ", format,
                                         "; this library reads ", kFormat))
        .with_location(location);
  }
  TrainerState state;
  state.steps = number(object, "steps", location);
  const auto host = object.find("host");
  if (host == object.end() || !host->is_string()) fail(location, "host", "a string");
  state.host = host->get<std::string>();
  const auto kl = object.find("kl_coef");
  if (kl != object.end()) {
    if (!kl->is_number() || !(kl->get<double>() >= 0)) fail(location, "kl_coef", "a coefficient");
    state.kl_coef = kl->get<double>();
  }
  const auto options = object.find("options");
  if (options == object.end() || !options->is_object()) fail(location, "options", "an object");
  for (const auto& [key, value] : options->items()) {
    if (!value.is_string()) fail(location, "options", "an object of texts");
    state.identity[key] = value.get<std::string>();
  }
  if (object.size() != (state.kl_coef ? 5u : 4u)) fail(location, "pipeline", "of known keys");
  return state;
}

}  // namespace rl
