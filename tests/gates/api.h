// The functions of rl.h as a table, so that one host program can use the library it is linked with
// or any copy that it loaded. A table is only made if every member is set.
#pragma once
#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "rl.h"

namespace gates {

struct Api {
#define RL_FUNCTION(name) decltype(&::name) name = nullptr;
#include "names.inc"
#undef RL_FUNCTION
};

// A score for a pipeline or a batch, and a prompt for a feed.
inline rl_score score_of(const Api& rl, uint64_t sample_id, double reward) {
  rl_score score;
  rl.rl_score_init(&score, sizeof score);
  score.sample_id = sample_id;
  score.reward = reward;
  return score;
}
inline rl_feed_row row_of(const Api& rl, const int32_t* ids, size_t num_ids) {
  rl_feed_row row;
  rl.rl_feed_row_init(&row, sizeof row);
  row.ids = ids;
  row.num_ids = num_ids;
  return row;
}

// A training step over a batch, and the log-probs of all ids but the first.
inline rl_step step_of(const Api& rl, const rl_batch* batch) {
  rl_step step;
  rl.rl_step_init(&step, sizeof step);
  step.batch = batch;
  return step;
}
inline rl_forward forward_of(const Api& rl, int32_t output, const int32_t* ids, size_t num_ids) {
  rl_forward forward;
  rl.rl_forward_init(&forward, sizeof forward);
  forward.output = output;
  forward.ids = ids;
  forward.num_ids = num_ids;
  forward.num_prompt = 1;
  return forward;
}

inline rl_tensor_request copy_request(const Api& rl) {
  rl_tensor_request request;
  rl.rl_tensor_request_init(&request, sizeof request);
  request.flags = RL_TENSOR_COPY;
  return request;
}
inline rl_weight weight_of(const Api& rl, const char* name, rl_tensor* tensor) {
  rl_weight weight;
  rl.rl_weight_init(&weight, sizeof weight);
  weight.name = name;
  weight.tensor = tensor;
  return weight;
}

// The functions of a library from dlopen or dlmopen; throws if one is missing.
inline Api loaded_api(void* library) {
  Api api;
  const auto find = [library](const char* name) {
    void* const found = dlsym(library, name);
    if (found == nullptr) throw std::runtime_error(std::string("no symbol ") + name);
    return found;
  };
#define RL_FUNCTION(name) api.name = reinterpret_cast<decltype(&::name)>(find(#name));
#include "names.inc"
#undef RL_FUNCTION
  return api;
}

}  // namespace gates
