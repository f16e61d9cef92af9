// A RoPE object is read at most twice: its type and common keys, then the keys of that scaling.
#include "formats/rope_config.h"

#include <cmath>

namespace rl {
namespace {

struct ScalingName {
  const char* name;
  RopeScaling scaling;
};
constexpr ScalingName kScalings[] = {{"default", RopeScaling::kNone},
                                     {"linear", RopeScaling::kLinear},
                                     {"llama3", RopeScaling::kLlama3},
                                     {"yarn", RopeScaling::kYarn}};

RopeScaling read_scaling(const ConfigReader& rope) {
  const auto type = rope.optional_text("rope_type"), old = rope.optional_text("type");
  if (type && old && *type != *old) {
    rope.fail(Code::kConflict, "type", str("is ", *old, ", but rope_type is ", *type));
  }
  if (!type && !old) return RopeScaling::kNone;
  for (const ScalingName& s : kScalings) {
    if ((type ? *type : *old) == s.name) return s.scaling;
  }
  rope.refuse_unless(false, type ? "rope_type" : "type", "default, linear, llama3 or yarn");
  return RopeScaling::kNone;
}

// A finite number above `above`.
double positive(const ConfigReader& rope, const char* key, double value, double above = 0) {
  if (std::isfinite(value) && value > above) return value;
  rope.fail(Code::kOutOfRange, key, str("is ", value, "; it must be finite and above ", above));
}

int64_t original_positions(const ConfigReader& rope, const RopeDefaults& defaults) {
  const char* const key = "original_max_position_embeddings";
  const int64_t n = rope.optional_integer(key).value_or(defaults.max_position);
  if (n < 1) rope.fail(Code::kOutOfRange, key, str("is ", n, "; it must be above 0"));
  return n;
}

void read_llama3(const ConfigReader& rope, const RopeDefaults& defaults, RopeSpec& out) {
  out.original_positions = original_positions(rope, defaults);
  out.low_freq_factor = positive(rope, "low_freq_factor", rope.number("low_freq_factor"));
  out.high_freq_factor =
      positive(rope, "high_freq_factor", rope.number("high_freq_factor"), out.low_freq_factor);
}

// The factor on the rotated vector's length: given, or 0.1 m ln(factor) + 1, or a quotient of two
// of these.
double attention_factor(const ConfigReader& rope, double factor) {
  if (const auto given = rope.optional_number("attention_factor"))
    return positive(rope, "attention_factor", *given);
  const double m = rope.optional_number("mscale").value_or(0),
               all = rope.optional_number("mscale_all_dim").value_or(0);
  if (m == 0 || all == 0) return yarn_attention_factor(factor);
  const auto length = [&](double scale) {
    return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
  };
  return positive(rope, "mscale", length(m) / length(all));
}

void read_yarn(const ConfigReader& rope, const RopeDefaults& defaults, RopeSpec& out) {
  positive(rope, "rope_theta", out.theta, 1);  // its logarithm is a divisor
  out.original_positions = original_positions(rope, defaults);
  out.beta_fast = positive(rope, "beta_fast", rope.optional_number("beta_fast").value_or(32));
  out.beta_slow = positive(rope, "beta_slow", rope.optional_number("beta_slow").value_or(1));
  out.truncate = rope.boolean("truncate", true);
  out.attention_factor = attention_factor(rope, out.factor);
}

}  // namespace

RopeSpec read_rope_object(const ConfigReader& rope, const RopeDefaults& defaults) {
  rope.refuse_others({"rope_type", "type", "rope_theta", "factor",
                      "original_max_position_embeddings", "low_freq_factor", "high_freq_factor",
                      "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
                      "truncate", "partial_rotary_factor"});
  const auto partial = rope.optional_number("partial_rotary_factor");
  rope.refuse_unless(!partial || *partial == 1.0, "partial_rotary_factor", "1");
  RopeSpec out;
  out.theta =
      positive(rope, "rope_theta", rope.optional_number("rope_theta").value_or(defaults.theta));
  out.scaling = read_scaling(rope);
  if (out.scaling == RopeScaling::kNone) return out;
  out.factor = positive(rope, "factor", rope.number("factor"));
  if (out.scaling == RopeScaling::kLlama3) read_llama3(rope, defaults, out);
  if (out.scaling == RopeScaling::kYarn) read_yarn(rope, defaults, out);
  return out;
}

RopeSpec read_rope(const ConfigReader& in, const RopeDefaults& defaults) {
  RopeDefaults base = defaults;
  const auto theta = in.optional_number("rope_theta");
  if (theta) base.theta = *theta;
  RopeSpec old{.theta = base.theta};
  if (in.find("rope_scaling") != nullptr) old = read_rope_object(in.object("rope_scaling"), base);
  if (in.find("rope_parameters") == nullptr) {
    positive(in, "rope_theta", old.theta);
    return old;
  }
  const ConfigReader object = in.object("rope_parameters");
  if (!theta && object.find("rope_theta") == nullptr)
    object.fail(Code::kDataLoss, "rope_theta", "is missing");
  const RopeSpec rope = read_rope_object(object, base);
  if (theta && rope.theta != *theta) {
    object.fail(Code::kConflict, "rope_theta",
                str("is ", rope.theta, ", but /rope_theta is ", *theta));
  }
  if (in.find("rope_scaling") != nullptr && !(old == rope)) {
    in.fail(Code::kConflict, "rope_scaling", "differs from /rope_parameters");
  }
  return rope;
}

nlohmann::json rope_json(const RopeSpec& r) {
  nlohmann::json j;
  for (const ScalingName& s : kScalings) {
    if (s.scaling == r.scaling) j["rope_type"] = s.name;
  }
  j["rope_theta"] = r.theta;
  if (r.scaling == RopeScaling::kNone) return j;
  j["factor"] = r.factor;
  if (r.scaling == RopeScaling::kLinear) return j;
  j["original_max_position_embeddings"] = r.original_positions;
  if (r.scaling == RopeScaling::kLlama3) {
    j["low_freq_factor"] = r.low_freq_factor;
    j["high_freq_factor"] = r.high_freq_factor;
    return j;
  }
  if (r.beta_fast != 32) j["beta_fast"] = r.beta_fast;
  if (r.beta_slow != 1) j["beta_slow"] = r.beta_slow;
  if (!r.truncate) j["truncate"] = false;
  if (r.attention_factor != yarn_attention_factor(r.factor))
    j["attention_factor"] = r.attention_factor;
  return j;
}

}  // namespace rl
