// The buffer of several threads; under ThreadSanitizer a lock that is left out is a race.
#include "buffer/experience_buffer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/expect_error.h"

namespace rl {
namespace {

constexpr uint64_t kGroups = 200;

SamplePtr sample_of(uint64_t ordinal, uint32_t slot) {
  auto s = std::make_shared<Sample>();
  s->id = 1 + ordinal * 2 + slot;
  s->ordinal = ordinal;
  s->slot = slot;
  s->ids = {1, 2, 3};
  s->prompt_tokens = 2;
  s->logprobs = s->logprobs_sampled = {-1.0f};
  s->versions = {0};
  s->loss_mask = {1};
  s->scored = true;
  return s;
}

TEST(ExperienceBuffer, ManyThreadsPutTakeCountAndVisit) {
  ExperienceBuffer buffer(2, 1000, true);
  std::atomic<int> putting = 2;
  std::vector<std::jthread> threads;
  for (const uint32_t slot : {0u, 1u}) {
    threads.emplace_back([&, slot] {
      for (uint64_t g = 0; g < kGroups; ++g) {
        if (g % 2 == 0) {
          buffer.put(sample_of(g, slot));
        } else {
          buffer.put_all({sample_of(g, slot)});
        }
      }
      --putting;
    });
  }
  threads.emplace_back([&] {
    while (putting > 0) {
      EXPECT_LE(buffer.num_whole_groups() * 2, static_cast<int64_t>(2 * kGroups));
      EXPECT_LE(buffer.num_samples(), static_cast<int64_t>(2 * kGroups));
      buffer.visit([](const Group& g) { EXPECT_LE(g.samples.size(), 2u); });
    }
  });
  size_t taken = 0;
  while (putting > 0) taken += buffer.take(3).size();
  threads.clear();
  taken += buffer.take(1000).size();
  EXPECT_EQ(taken, 2 * kGroups);
  EXPECT_EQ(buffer.num_samples(), 0);
}

TEST(ExperienceBuffer, AGroupThatIsErasedMakesRoom) {
  ExperienceBuffer buffer(2, 3, true);
  buffer.put_all({sample_of(4, 0), sample_of(4, 1), sample_of(5, 0)});
  buffer.erase(4);
  buffer.erase(6);  // there is none
  EXPECT_EQ(buffer.num_samples(), 1);
  EXPECT_EQ(buffer.num_whole_groups(), 0);
  buffer.put_all({sample_of(4, 0), sample_of(4, 1)});
  buffer.clear();
  EXPECT_EQ(buffer.num_samples(), 0);
  EXPECT_TRUE(buffer.take(9).empty());
}

TEST(ExperienceBuffer, ARefusedSampleIsNamedByItsPlaceAndTheOthersAreTakenBack) {
  ExperienceBuffer buffer(2, 10, true);
  buffer.put(sample_of(5, 1));
  const Error e = expect_error(Code::kDuplicate, [&] {
    buffer.put_all({sample_of(4, 0), sample_of(5, 1), sample_of(6, 0)}, "batch");
  });
  EXPECT_EQ(e.key, "batch[1]");
  EXPECT_TRUE(e.message.starts_with("batch[1]: ")) << e.message;
  EXPECT_EQ(buffer.num_samples(), 1);
}

}  // namespace
}  // namespace rl
