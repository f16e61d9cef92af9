// A batch as a host hands it to its own trainer.
#pragma once
#include <memory>
#include <vector>

#include "pipeline/update/trainer_session.h"

namespace rl::testing {

struct HostBatch {
  float temperature = 1;
  bool with_logprobs = true;  // false: as of another library
};

// Two groups of four samples with prompts of two tokens and responses of three, some tokens of
// which carry no loss.
inline std::vector<SamplePtr> host_batch(TrainerSession& trainer, const HostBatch& kind = {}) {
  std::vector<SamplePtr> batch;
  for (int32_t i = 0; i < 8; ++i) {
    auto s = std::make_shared<Sample>();
    s->id = static_cast<uint64_t>(i) + 1;
    s->ordinal = static_cast<uint64_t>(i / 4);
    s->slot = static_cast<uint32_t>(i % 4);
    s->ids = {4, 5 + i / 4, 60 + 9 * i, 61 + i, 7};
    s->prompt_tokens = 2;
    s->temperature = kind.temperature;
    if (kind.with_logprobs) s->logprobs = trainer.logprobs(s->ids, 2, kind.temperature);
    s->logprobs_sampled = s->logprobs;
    s->versions.assign(3, kind.with_logprobs ? trainer.trained_version() : kUnknownVersion);
    s->loss_mask = {1, static_cast<uint8_t>(i % 2), 1};
    s->reward = i % 3;
    s->scored = true;
    batch.push_back(std::move(s));
  }
  return batch;
}

}  // namespace rl::testing
