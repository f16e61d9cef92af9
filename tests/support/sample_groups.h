// Groups of samples with every field set, their bitwise comparison, and files of frames in memory.
#pragma once
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/fs.h"
#include "data/frame.h"
#include "data/sample.h"
#include "support/compare_values.h"

namespace rl::testing {

inline constexpr int32_t kSampleVocab = 256;

// Lengths differ between samples; values include special ones (signed zero, denormal).
inline SamplePtr random_sample(uint64_t ordinal, uint32_t slot, unsigned seed) {
  std::mt19937 rng(seed * 1009 + static_cast<unsigned>(ordinal) * 31 + slot);
  auto s = std::make_shared<Sample>();
  s->id = ordinal * 1000 + slot + 1;
  s->ordinal = ordinal;
  s->slot = slot;
  s->attempt = slot % 2;
  s->data_row = static_cast<int64_t>(rng() % 50) - 1;
  s->tag = std::string("tag \0 with any byte \xff", 21) + std::to_string(slot);
  s->prompt_tokens = 1 + static_cast<int32_t>(rng() % 5);
  const auto generated = static_cast<int32_t>(1 + rng() % 9);
  for (int32_t i = 0; i < s->prompt_tokens + generated; ++i) {
    s->ids.push_back(static_cast<int32_t>(rng() % kSampleVocab));
  }
  for (int32_t i = 0; i < generated; ++i) {
    s->logprobs.push_back(-0.001f * static_cast<float>(rng() % 10000));
    s->logprobs_sampled.push_back(s->logprobs.back() / 3);
    s->versions.push_back(i == 0 ? std::numeric_limits<uint64_t>::max() : rng() % 7);
    s->loss_mask.push_back(static_cast<uint8_t>(rng() % 2));
  }
  s->logprobs[0] = slot % 2 == 0 ? -0.0f : std::numeric_limits<float>::denorm_min();
  s->temperature = 0.7f + 0.1f * static_cast<float>(slot);
  s->finish = static_cast<FinishReason>(rng() % 5);
  s->scored = true;
  s->reward = slot == 0 ? -0.0 : 0.1 * static_cast<double>(rng() % 100);
  for (uint32_t k = 0; k < slot % 3; ++k) s->reward_parts.push_back(0.5 - k);
  if (slot % 4 == 3) {
    for (int32_t i = 0; i < generated; ++i) s->token_rewards.push_back(0.25 * i - 1);
  }
  s->submitted_ns = 1000;
  s->first_token_ns = 2000 + static_cast<int64_t>(rng());
  s->finished_ns = std::numeric_limits<int64_t>::max();
  if (slot % 2 == 1) {
    for (int32_t i = 0; i < generated; ++i) s->mixed_kv.push_back(static_cast<uint8_t>(rng() % 2));
  }
  s->admitted_ns = 1500;
  s->preemptions = slot * 3;
  s->num_aborts = slot;
  s->num_top = slot % 3;
  for (uint32_t i = 0; i < static_cast<uint32_t>(generated) * s->num_top; ++i) {
    s->top_ids.push_back(static_cast<int32_t>(rng() % (kSampleVocab + 1)) - 1);
    s->top_logprobs.push_back(-0.01f * static_cast<float>(rng() % 1000));
  }
  return s;
}

inline Group random_group(uint64_t ordinal, uint32_t size, unsigned seed = 1) {
  Group group{ordinal, {}};
  for (uint32_t slot = 0; slot < size; ++slot) {
    group.samples.push_back(random_sample(ordinal, slot, seed));
  }
  return group;
}

inline bool same_sample(const Sample& a, const Sample& b) {
  return a.id == b.id && a.ordinal == b.ordinal && a.slot == b.slot && a.attempt == b.attempt &&
         a.purpose == b.purpose && a.data_row == b.data_row && a.tag == b.tag && a.ids == b.ids &&
         a.prompt_tokens == b.prompt_tokens && same_bits(a.logprobs, b.logprobs) &&
         same_bits(a.logprobs_sampled, b.logprobs_sampled) && a.versions == b.versions &&
         a.loss_mask == b.loss_mask && a.num_top == b.num_top && a.top_ids == b.top_ids &&
         same_bits(a.top_logprobs, b.top_logprobs) &&
         std::memcmp(&a.temperature, &b.temperature, sizeof a.temperature) == 0 &&
         a.finish == b.finish && a.scored == b.scored &&
         std::memcmp(&a.reward, &b.reward, sizeof a.reward) == 0 &&
         a.submitted_ns == b.submitted_ns && a.first_token_ns == b.first_token_ns &&
         a.finished_ns == b.finished_ns && a.mixed_kv == b.mixed_kv &&
         a.admitted_ns == b.admitted_ns && a.preemptions == b.preemptions &&
         a.reward_parts == b.reward_parts && a.token_rewards == b.token_rewards &&
         a.num_aborts == b.num_aborts;
}

inline bool same_group(const Group& a, const Group& b) {
  if (a.ordinal != b.ordinal || a.samples.size() != b.samples.size()) return false;
  for (size_t i = 0; i < a.samples.size(); ++i) {
    if (!same_sample(*a.samples[i], *b.samples[i])) return false;
  }
  return true;
}

// A file of documents, built in memory.
class FrameText {
 public:
  explicit FrameText(int level = 3) : writer_(out_, level) {}
  FrameText& add(std::string_view kind, std::span<const std::byte> document) {
    writer_.append(kind, document);
    return *this;
  }
  FrameText& add(std::string_view kind, std::string_view document) {
    return add(kind, std::as_bytes(std::span(document)));
  }
  std::string close() {
    writer_.close();
    return out_.text;
  }
  const std::string& text() const { return out_.text; }  // so far

 private:
  struct Output final : OutputFile {
    void append(std::span<const std::byte> data) override {
      text.append(reinterpret_cast<const char*>(data.data()), data.size());
    }
    void sync() override {}
    void close() override {}
    std::string text;
  };
  Output out_;
  FrameWriter writer_;
};

// A document in memory, aligned as a reader returns it.
inline std::vector<std::byte> aligned(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace rl::testing
