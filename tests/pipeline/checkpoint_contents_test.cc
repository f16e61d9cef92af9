// checkpoint.contents: what lies in a checkpoint, from which of them a run resumes, and a policy
// that loads as a Hugging Face directory.
#include <set>

#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::options_with;
using testing::Rig;
using Texts = std::vector<std::string>;

OptionSet saving(const TempDir& dir, const std::string& contents, const Texts& more = {}) {
  Texts all = {"checkpoint.dir=" + dir.file("checkpoints"), "checkpoint.every_steps=1",
               "pipeline.total_steps=1", "checkpoint.contents=" + contents};
  all.insert(all.end(), more.begin(), more.end());
  return options_with(dir, all);
}

std::string first_of(const TempDir& dir) { return dir.file("checkpoints/step_000001"); }

TEST(CheckpointContents, EachIsThereIfItIsNamed) {
  const std::set<std::string> manifest = {"manifest.json", "manifest.xxh64"};
  const std::pair<const char*, std::set<std::string>> kParts[] = {
      {"model", {"masters.safetensors"}},
      {"optimizer", {"ema.safetensors", "first_moments.safetensors", "second_moments.safetensors"}},
      {"extra", {}},
      {"hf_model", {"hf_model"}}};
  for (const bool async : {false, true}) {
    for (int chosen = 1; chosen < 16; ++chosen) {
      const TempDir dir;
      std::string contents;
      std::set<std::string> files = manifest;
      for (int i = 0; i < 4; ++i) {
        if ((chosen >> i & 1) == 0) continue;
        contents += str(contents.empty() ? "" : ",", kParts[i].first);
        files.insert(kParts[i].second.begin(), kParts[i].second.end());
      }
      SCOPED_TRACE(str(contents, async ? " async" : ""));
      const OptionSet o = saving(
          dir, contents, {"optimizer.ema=0.9", str("checkpoint.async=", async ? "true" : "false")});
      Rig(o).start_and_serve();
      const std::vector<std::string> seen = real_fs().list(first_of(dir));
      EXPECT_EQ(std::set(seen.begin(), seen.end()), files);
    }
  }
}

TEST(CheckpointContents, AResumeNamesWhatTheCheckpointLacks) {
  for (const auto& [contents, lacks] :
       {std::pair("optimizer,extra", "model"), std::pair("model,extra,hf_model", "optimizer"),
        std::pair("model,optimizer", "extra")}) {
    SCOPED_TRACE(contents);
    const TempDir dir;
    OptionSet o = saving(dir, contents);
    Rig(o).start_and_serve();
    for (const std::string& resume : {std::string("auto"), first_of(dir)}) {
      o.set_string("checkpoint.resume", resume);
      const Error e = expect_error(Code::kIncompatible, [&] { Rig again(o); });
      EXPECT_EQ(e.key, "checkpoint.contents");
      EXPECT_EQ(e.expected, lacks);
      EXPECT_NE(e.message.find(str("without ", lacks)), std::string::npos) << e.message;
    }
  }
}

TEST(CheckpointContents, TheyAreNoPartOfTheRun) {
  const TempDir dir, plain_dir;
  OptionSet o = saving(dir, "extra,hf_model,optimizer,model"),
            plain = saving(plain_dir, "model,optimizer,extra");
  Rig(o).start_and_serve();
  Rig(plain).start_and_serve();
  uint64_t digests[2];
  for (OptionSet* options : {&o, &plain}) {
    options->set_string("checkpoint.resume", "auto");
    options->set_i64("pipeline.total_steps", 2);
    Rig again(*options);
    EXPECT_EQ(again.pipeline().status().step, 1u);
    again.start_and_serve();
    digests[options == &o] = again.model().weight_digest();
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(CheckpointContents, TheHuggingFaceDirectoryHasThePolicyToTheBit) {
  for (const char* more : {"checkpoint.async=false", "checkpoint.async=true",
                           "model.freeze=model.layers.0.*", "algo.advantage=gae"}) {
    SCOPED_TRACE(more);
    const TempDir dir;
    OptionSet o = saving(dir, "hf_model", {more});
    uint64_t expected = 0;
    {
      Rig rig(o);
      rig.start_and_serve();
      expected = rig.model().weight_digest();
    }
    o.set_string("model.path", first_of(dir) + "/hf_model");
    const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kPipeline);
    EXPECT_EQ(model->weight_digest(), expected);
  }
}

TEST(CheckpointContents, WhatMeansNothingIsRefused) {
  const TempDir dir;
  for (const auto& [contents, says] :
       {std::pair("model,weights", "\"weights\""), std::pair("extra,extra", "\"extra\" twice"),
        std::pair("", "is empty")}) {
    SCOPED_TRACE(contents);
    const Error e = expect_error(Code::kInvalidArgument, [&] {
      plan_memory(saving(dir, contents), real_fs(), PlanUse::kPipeline);
    });
    EXPECT_EQ(e.key, "checkpoint.contents");
    EXPECT_NE(e.message.find(says), std::string::npos) << e.message;
  }
}

}  // namespace
}  // namespace rl
