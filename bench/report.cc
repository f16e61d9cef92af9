// Floors of work as functions of the model's shape, and the JSON file of a bench program.
#include "bench/report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace rl::bench {
namespace {

double attention_width(const ModelConfig& c) { return static_cast<double>(c.layers * c.heads * c.head_dim); }
double kv_elements(const ModelConfig& c) { return 2.0 * c.layers * c.kv_heads * c.head_dim; }

}  // namespace

double layer_parameters(const ModelConfig& c) {
  const double qkv = static_cast<double>(c.hidden) * (c.heads + 2 * c.kv_heads) * c.head_dim;
  const double o = static_cast<double>(c.heads) * c.head_dim * c.hidden;
  return c.layers * (qkv + o + 3.0 * c.hidden * c.ffn);
}
double head_parameters(const ModelConfig& c) { return static_cast<double>(c.vocab) * c.hidden; }

Work training_work(const ModelConfig& c, int64_t tokens, int64_t sequence_tokens) {
  const double per_token = 6 * (layer_parameters(c) + head_parameters(c)) + 6 * sequence_tokens * attention_width(c);
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

Report::Report(bool quick) {
  if (quick) options_ = {.read_bytes = uint64_t{16} << 20, .read_passes = 1, .matmul_seconds = 0.01};
  before_ = probe();
}

Report::Limits Report::probe() const {
  const ProbeReport now = run_probes(options_);
  return {now.matmul_flops(), now.read_bytes_per_s()};
}

void Report::add(Measurement m) {
  std::fprintf(stderr, "%-18s %14.4g %s\n", m.name.c_str(), m.value, m.unit.c_str());
  Limits best = before_;
  if (m.work.units > 0) {
    before_ = probe();
    best = {std::max(best.matmul_flops, before_.matmul_flops),
            std::max(best.read_bytes_per_s, before_.read_bytes_per_s)};
  }
  entries_.push_back({std::move(m), best});
}

void Report::write(const std::string& path) const {
  std::ofstream out(path);
  out.precision(9);
  out << "{";
  const char* separator = "\n";
  for (const auto& [m, limits] : entries_) {
    out << separator << "  \"" << m.name << "\": {\"value\": " << m.value << ", \"unit\": \"" << m.unit << "\", ";
    if (m.work.units > 0) {
      out << "\"units\": " << m.work.units << ", \"flop\": " << m.work.flop << ", \"bytes\": " << m.work.bytes
          << ", \"serial_bytes\": " << m.work.serial_bytes;
      out << ", \"matmul_flops\": " << limits.matmul_flops << ", \"read_bytes_per_s\": " << limits.read_bytes_per_s
          << "}";
    } else {
      out << "\"limit\": " << m.limit << "}";
    }
    separator = ",\n";
  }
  out << "\n}\n";
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path);
}

}  // namespace rl::bench
