// Minimum work as functions of the model's shape, and the JSON file of a bench program.
#include "bench/report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace rl::bench {
namespace {

double attention_width(const ModelConfig& c) {
  return static_cast<double>(c.layers * c.heads * c.head_dim);
}
double kv_elements(const ModelConfig& c) { return 2.0 * c.layers * c.kv_heads * c.head_dim; }

}  // namespace

double layer_parameters(const ModelConfig& c) {
  const double qkv = static_cast<double>(c.hidden) * (c.heads + 2 * c.kv_heads) * c.head_dim;
  const double o = static_cast<double>(c.heads) * c.head_dim * c.hidden;
  return c.layers * (qkv + o + 3.0 * c.hidden * c.ffn);
}
double head_parameters(const ModelConfig& c) { return static_cast<double>(c.vocab) * c.hidden; }

Work training_work(const ModelConfig& c, int64_t tokens, int64_t sequence_tokens) {
  const double per_token =
      6 * (layer_parameters(c) + head_parameters(c)) + 6 * sequence_tokens * attention_width(c);
  return {static_cast<double>(tokens), tokens * per_token, 0};
}

Work prefill_work(const ModelConfig& c, int64_t sequences, int64_t sequence_tokens) {
  const double tokens = static_cast<double>(sequences * sequence_tokens);
  const double per_token = 2 * layer_parameters(c) + 2 * sequence_tokens * attention_width(c);
  return {tokens, tokens * per_token + 2 * sequences * head_parameters(c), 0};
}

Work decode_work(const ModelConfig& c, int64_t sequences, double context, double item_bytes) {
  const double parameters = layer_parameters(c) + head_parameters(c);
  return {static_cast<double>(sequences), sequences * 2 * parameters, item_bytes * parameters,
          item_bytes * sequences * context * kv_elements(c)};
}

void Report::add_repeat(const std::string& name, const Work& work, double value) {
  std::fprintf(stderr, "%-18s %14.4g tokens/s\n", name.c_str(), value);
  if (entries_.empty() || entries_.back().name != name) entries_.push_back({name, "tokens/s", {}});
  entries_.back().repeats.push_back({value, work, meter_.limits()});
}

void Report::add(const std::string& name, double value, const std::string& unit, double goal,
                 Goal side) {
  std::fprintf(stderr, "%-18s %14.4g %s\n", name.c_str(), value, unit.c_str());
  entries_.push_back({name, unit, {}, value, goal, side});
}

void Report::write_entry(std::ostream& out, const Entry& e) {
  out << "  \"" << e.name << "\": {\"unit\": \"" << e.unit << "\", ";
  if (e.repeats.empty()) {
    const char* side = e.side == Goal::kAtMost ? "at_most" : "at_least";
    out << "\"value\": " << e.value << ", \"" << side << "\": " << e.goal << "}";
    return;
  }
  out << "\"repeats\": [";
  for (size_t i = 0; i < e.repeats.size(); ++i) {
    const Repeat& r = e.repeats[i];
    out << (i ? ", " : "") << "{\"value\": " << r.value << ", \"units\": " << r.work.units
        << ", \"flop\": " << r.work.flop << ", \"bytes\": " << r.work.bytes
        << ", \"serial_bytes\": " << r.work.serial_bytes
        << ", \"matmul_flops\": " << r.limits.matmul_flops
        << ", \"read_bytes_per_s\": " << r.limits.read_bytes_per_s << "}";
  }
  out << "]}";
}

void Report::write(const std::string& path) const {
  std::ofstream out(path);
  out.precision(9);
  out << "{\n";
  for (size_t i = 0; i < entries_.size(); ++i) {
    write_entry(out, entries_[i]);
    out << (i + 1 < entries_.size() ? ",\n" : "\n");
  }
  out << "}\n";
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path);
}

}  // namespace rl::bench
