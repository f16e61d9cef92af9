// A model that takes up the weights of another one's checkpoints: the newest, whole, with the
// version that they have there; and what is wrong with a checkpoint.
#include "pipeline/roles/followed_weights.h"

#include <filesystem>
#include <fstream>

#include "role_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::Rig;
using testing::tiny_options;
using Texts = std::vector<std::string>;

// Trains and saves each step. Returns the digest of the weights.
uint64_t save_steps(const TempDir& dir, const Texts& more = {}) {
  OptionSet o = tiny_options(dir);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  for (const char* text : {"checkpoint.every_steps=1", "pipeline.total_steps=2"}) {
    o.set_assignment(text);
  }
  for (const std::string& text : more) o.set_assignment(text);
  Rig rig(o);
  EXPECT_EQ(rig.start_and_serve().checkpoints.size(), 2u);
  return rig.model().weight_digest();
}

std::shared_ptr<LoadedModel> opened(const TempDir& dir, const char* model = "llama") {
  const OptionSet o = tiny_options(dir, model);
  return LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kPipeline);
}

TEST(FollowedWeights, TakesUpTheNewest) {
  const TempDir dir;
  const auto model = opened(dir);
  FollowedWeights weights(*model, dir.file("checkpoints"));
  EXPECT_FALSE(weights.has_newer(true)) << "there is no directory";
  const uint64_t trained = save_steps(dir);
  EXPECT_NE(model->weight_digest(), trained);
  EXPECT_TRUE(weights.has_newer(true));
  EXPECT_EQ(model->version(), 0u) << "nothing was read yet";
  weights.take_up();
  EXPECT_EQ(model->weight_digest(), trained);
  EXPECT_EQ(model->version(), 2u);
  EXPECT_EQ(weights.step(), 2);
  EXPECT_FALSE(weights.has_newer(true));
}

TEST(FollowedWeights, LooksNowAndThen) {
  const TempDir dir;
  const auto model = opened(dir);
  FollowedWeights weights(*model, dir.file("checkpoints"));
  EXPECT_FALSE(weights.has_newer(true));
  save_steps(dir);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!weights.has_newer(false) && std::chrono::steady_clock::now() < end) {
  }
  EXPECT_TRUE(weights.has_newer(false));
}

TEST(FollowedWeights, FrozenParametersStayTheModels) {
  const TempDir dir;
  const uint64_t trained = save_steps(dir, {"model.freeze=*norm.weight"});
  const auto model = opened(dir);
  FollowedWeights weights(*model, dir.file("checkpoints"));
  ASSERT_TRUE(weights.has_newer(true));
  weights.take_up();
  EXPECT_EQ(model->weight_digest(), trained);
}

TEST(FollowedWeights, AStepThatIsNotNewerCountsAllTheSame) {
  const TempDir dir;
  save_steps(dir);
  const auto model = opened(dir);
  {
    const LoadedModel::WriteLease write(*model, 0);
    model->model().publish_as(9);
  }
  FollowedWeights weights(*model, dir.file("checkpoints"));
  EXPECT_FALSE(weights.has_newer(true));
  EXPECT_EQ(weights.step(), 2);
}

TEST(FollowedWeights, ACheckpointThatIsGoneIsNoFailure) {
  const TempDir dir;
  save_steps(dir);
  const auto model = opened(dir);
  const uint64_t before = model->weight_digest();
  FollowedWeights weights(*model, dir.file("checkpoints"));
  ASSERT_TRUE(weights.has_newer(true));
  std::filesystem::remove_all(dir.file("checkpoints/step_000002"));
  weights.take_up();
  EXPECT_EQ(model->weight_digest(), before);
  ASSERT_TRUE(weights.has_newer(true)) << "the one before is still there";
  weights.take_up();
  EXPECT_EQ(model->version(), 1u);
}

// Nothing of the model changes.
void expect_refused(const TempDir& dir, LoadedModel& model, Code code, const std::string& what) {
  const uint64_t before = model.weight_digest();
  FollowedWeights weights(model, dir.file("checkpoints"));
  const Error error = expect_error(code, [&] {
    if (weights.has_newer(true)) weights.take_up();
  });
  EXPECT_TRUE(contains(error.message, what));
  EXPECT_EQ(model.weight_digest(), before);
  EXPECT_FALSE(model.half_trained());
}

TEST(FollowedWeights, DamageIsFoundBeforeAWeightChanges) {
  const TempDir dir;
  save_steps(dir);
  const std::string path = dir.file("checkpoints/step_000002/masters.safetensors");
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-3, std::ios::end);
  file.put('x');
  file.close();
  expect_refused(dir, *opened(dir), Code::kDataLoss, "masters.safetensors");
  std::filesystem::remove(path);
  expect_refused(dir, *opened(dir), Code::kDataLoss, "masters.safetensors");
  std::filesystem::remove(dir.file("checkpoints/step_000002/manifest.xxh64"));
  expect_refused(dir, *opened(dir), Code::kDataLoss, "manifest.xxh64");
}

TEST(FollowedWeights, AnotherModelIsRefused) {
  const TempDir dir;
  save_steps(dir);
  expect_refused(dir, *opened(dir, "qwen2"), Code::kIncompatible, "masters.safetensors");
}

TEST(FollowedWeights, ACheckpointWithoutTheModelIsRefused) {
  const TempDir dir;
  save_steps(dir, {"checkpoint.contents=optimizer,extra"});
  expect_refused(dir, *opened(dir), Code::kIncompatible, "checkpoint.contents");
}

}  // namespace
}  // namespace rl
