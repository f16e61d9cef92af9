// The shape of SmolLM2-135M, and options of a run whose plan is small enough to work out by hand.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "formats/model_config.h"
#include "options/options.h"

namespace rl::testing {

inline ModelConfig smollm2() {
  ModelConfig c;
  c.vocab = 49152;
  c.hidden = 576;
  c.layers = 30;
  c.heads = 9;
  c.kv_heads = 3;
  c.head_dim = 64;
  c.ffn = 1536;
  c.max_position = 8192;
  c.rms_eps = 1e-5f;
  c.rope.theta = 100000;
  c.tied_head = true;
  return c;
}

// Two small layers: planned in no time, and working memory is a large part of the plan.
inline ModelConfig two_layers() {
  ModelConfig c = smollm2();
  c.vocab = 2048;
  c.hidden = 128;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 32;
  c.ffn = 256;
  return c;
}

// Keys and values of 30 layers with 3 heads of 64 numbers, in blocks of 32 tokens.
inline constexpr uint64_t kBlock = uint64_t{30} * 3 * 2 * 64 * 32 * sizeof(float);

// Steps of 8 prompts with 8 samples each, of at most 128 tokens; then the given assignments.
inline OptionSet smollm2_options(const std::vector<std::string>& texts = {}) {
  OptionSet o;
  for (const char* text : {"runtime.threads=2", "model.dtype=fp32", "engine.max_model_len=128",
                           "sampling.max_new_tokens=32", "engine.max_num_batched_tokens=512"}) {
    o.set_assignment(text);
  }
  for (const std::string& text : texts) o.set_assignment(text);
  return o;
}

}  // namespace rl::testing
