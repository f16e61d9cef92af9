// What the files of a checkpoint hold, field by field, and every refusal with its key, its
// expectation and its place.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoint_arrays.h"
#include "core/hash.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_manifest.h"

namespace rl::testing {
namespace {

using Json = nlohmann::json;

constexpr const char* kConfig = "0123456789abcdef";

CheckpointState state_of(int64_t step, size_t models) {
  CheckpointState state{{step, kConfig, R"({"cursor":5})"}, {{11, 12, 13}, {21, 22, 23}}};
  state.counters.resize(models);
  return state;
}

std::string save(const TempDir& dir, std::vector<CheckpointedArrays*> models, int64_t step = 7,
                 const CheckpointRules& rules = {}) {
  std::vector<CheckpointArrays> views;
  for (CheckpointedArrays* a : models) views.push_back(a->view());
  return save_checkpoint(real_fs(), dir.path(), state_of(step, models.size()), views, rules);
}

CheckpointState load(const std::string& path, std::vector<CheckpointedArrays*> models,
                     const std::string& digest = kConfig) {
  CheckpointTarget target;
  for (CheckpointedArrays* a : models) target.models.push_back({a->view(), a->scratch});
  return load_checkpoint(real_fs(), path, digest, target);
}

std::string text_of(const std::string& path) { return read_text_file(real_fs(), path, 1 << 26); }
Json manifest_of(const std::string& path) { return Json::parse(text_of(path + "/manifest.json")); }

// As if it had been saved so: with its digest.
void write_manifest_text(const std::string& path, const std::string& text) {
  std::ofstream(path + "/manifest.json", std::ios::binary) << text;
  std::ofstream(path + "/manifest.xxh64", std::ios::binary) << hex64(digest64(text));
}

void expect_files(const std::string& path, const Json& manifest, std::vector<std::string> names) {
  EXPECT_EQ(manifest.at("files").size(), names.size());
  for (const std::string& name : names) {
    const std::string content = text_of(path + "/" + name);
    EXPECT_EQ(manifest.at("files").at(name).at("bytes"), content.size()) << name;
    EXPECT_EQ(manifest.at("files").at(name).at("xxh64"), hex64(digest64(content))) << name;
  }
}

TEST(CheckpointFields, AManifestHasTheStateAndTheMarksOfItsFiles) {
  const TempDir dir;
  CheckpointedArrays policy(1);
  const std::string path = save(dir, {&policy});
  EXPECT_EQ(path, dir.file("step_000007"));
  const Json m = manifest_of(path);
  EXPECT_EQ(m.at("format_version"), 1);
  EXPECT_EQ(m.at("step"), 7);
  EXPECT_EQ(m.at("config_digest"), kConfig);
  EXPECT_EQ(m.at("pipeline"), R"({"cursor":5})");
  EXPECT_EQ(m.at("optimizer_steps"), 11);
  EXPECT_EQ(m.at("skipped_steps"), 12);
  EXPECT_EQ(m.at("weight_version"), 13);
  EXPECT_FALSE(m.contains("frozen"));
  EXPECT_FALSE(m.contains("critic"));
  expect_files(path, m,
               {"masters.safetensors", "first_moments.safetensors", "second_moments.safetensors"});
  EXPECT_EQ(text_of(path + "/manifest.xxh64"), hex64(digest64(text_of(path + "/manifest.json"))));
}

TEST(CheckpointFields, ACriticHasCountersAndFilesOfItsOwn) {
  const TempDir dir;
  CheckpointedArrays policy(1), critic(500, {{"model.norm.weight"}, {}});
  const std::string path = save(dir, {&policy, &critic});
  const Json m = manifest_of(path);
  EXPECT_EQ(m.at("weight_version"), 13);
  EXPECT_EQ(m.at("critic").at("optimizer_steps"), 21);
  EXPECT_EQ(m.at("critic").at("skipped_steps"), 22);
  EXPECT_EQ(m.at("critic").at("weight_version"), 23);
  EXPECT_FALSE(m.contains("frozen"));
  EXPECT_EQ(m.at("critic").at("frozen").at("parameters"), Json::array({"model.norm.weight"}));
  expect_files(path, m,
               {"masters.safetensors", "first_moments.safetensors", "second_moments.safetensors",
                "critic_masters.safetensors", "critic_first_moments.safetensors",
                "critic_second_moments.safetensors"});
}

TEST(CheckpointFields, EveryArrayComesBackToItsPlace) {
  const TempDir dir;
  const TrainableRule rule{{"model.embed_tokens.weight"}, {}};
  CheckpointedArrays policy(1, rule), critic(500), want_policy(1, rule), want_critic(500);
  const std::string path = save(dir, {&policy, &critic});
  critic.clear();
  for (auto* v : {&policy.first, &policy.second}) std::ranges::fill(*v, 0.0f);
  for (const Parameter& p : policy.layout.parameters()) {
    if (p.trainable()) policy.masters[static_cast<size_t>(p.offset)] = -1;
  }
  const CheckpointState state = load(path, {&policy, &critic});
  EXPECT_EQ(state.meta.step, 7);
  EXPECT_EQ(state.meta.config_digest, kConfig);
  EXPECT_EQ(state.meta.pipeline, R"({"cursor":5})");
  ASSERT_EQ(state.counters.size(), 2u);
  EXPECT_EQ(state.counters[0].optimizer_steps, 11);
  EXPECT_EQ(state.counters[0].skipped_steps, 12);
  EXPECT_EQ(state.counters[0].weight_version, 13u);
  EXPECT_EQ(state.counters[1].optimizer_steps, 21);
  EXPECT_EQ(state.counters[1].skipped_steps, 22);
  EXPECT_EQ(state.counters[1].weight_version, 23u);
  for (const auto& [seen, want] : {std::pair(&policy, &want_policy), {&critic, &want_critic}}) {
    EXPECT_EQ(seen->masters, want->masters);
    EXPECT_EQ(seen->first, want->first);
    EXPECT_EQ(seen->second, want->second);
  }
}

struct BadField {
  std::string key, expected;
  std::function<void(Json&)> spoil;
};

std::vector<BadField> bad_fields() {
  const char *const count = "an integer of at least 0", *const missing = "a value";
  const char* const hex = "16 hexadecimal digits";
  const auto file = [](Json& m, const char* name) -> Json& { return m["files"][name]; };
  return {
      {"format_version", missing, [](Json& m) { m.erase("format_version"); }},
      {"step", missing, [](Json& m) { m.erase("step"); }},
      {"step", count, [](Json& m) { m["step"] = -1; }},
      {"step", count, [](Json& m) { m["step"] = 1.5; }},
      {"step", "an integer below 2^63", [](Json& m) { m["step"] = uint64_t{1} << 63; }},
      {"config_digest", "a string", [](Json& m) { m["config_digest"] = 5; }},
      {"pipeline", "a string", [](Json& m) { m["pipeline"] = nullptr; }},
      {"optimizer_steps", missing, [](Json& m) { m.erase("optimizer_steps"); }},
      {"skipped_steps", count, [](Json& m) { m["skipped_steps"] = "3"; }},
      {"weight_version", count, [](Json& m) { m["weight_version"] = true; }},
      {"", "an object", [](Json& m) { m["frozen"] = 5; }},
      {"xxh64", missing, [](Json& m) { m["frozen"] = Json::object(); }},
      {"parameters", missing,
       [=](Json& m) {
         m["frozen"] = {{"xxh64", hex64(1)}};
       }},
      {"parameters", "a list",
       [](Json& m) {
         m["frozen"] = {{"xxh64", hex64(1)}, {"parameters", 5}};
       }},
      {"parameters", "a list of strings",
       [](Json& m) {
         m["frozen"] = {{"xxh64", hex64(1)}, {"parameters", {"a", 5}}};
       }},
      {"", "an object", [](Json& m) { m["critic"] = 5; }},
      {"optimizer_steps", missing, [](Json& m) { m["critic"] = Json::object(); }},
      {"files", missing, [](Json& m) { m.erase("files"); }},
      {"", "an object", [](Json& m) { m["files"] = Json::array(); }},
      {"first_moments.safetensors", missing,
       [](Json& m) { m["files"].erase("first_moments.safetensors"); }},
      {"bytes", count, [=](Json& m) { file(m, "masters.safetensors")["bytes"] = "9"; }},
      {"bytes", missing, [=](Json& m) { file(m, "second_moments.safetensors").erase("bytes"); }},
      {"xxh64", hex, [=](Json& m) { file(m, "masters.safetensors")["xxh64"] = "123"; }},
      {"xxh64", hex,
       [=](Json& m) { file(m, "masters.safetensors")["xxh64"] = "000000000000000g"; }},
      {"xxh64", "a string", [=](Json& m) { file(m, "masters.safetensors")["xxh64"] = 5; }},
      {"critic_masters.safetensors", missing,
       [](Json& m) {
         m["critic"] = {{"optimizer_steps", 1}, {"skipped_steps", 2}, {"weight_version", 3}};
       }},
  };
}

TEST(CheckpointFields, AFieldThatIsMissingOrOfAnotherTypeIsNamed) {
  const TempDir dir;
  CheckpointedArrays policy(1);
  const std::string path = save(dir, {&policy});
  const Json whole = manifest_of(path);
  for (const BadField& bad : bad_fields()) {
    Json spoilt = whole;
    bad.spoil(spoilt);
    SCOPED_TRACE(bad.key + " is " + bad.expected);
    write_manifest_text(path, spoilt.dump());
    const Error e = expect_error(Code::kDataLoss, [&] { read_manifest(real_fs(), path); });
    EXPECT_EQ(e.key, bad.key);
    EXPECT_EQ(e.expected, bad.expected);
    EXPECT_EQ(e.location, path + "/manifest.json");
    EXPECT_EQ(e.message, str(path, "/manifest.json: key '", bad.key, "' is not ", bad.expected));
  }
  Json largest = whole;
  largest["weight_version"] = UINT64_MAX;
  largest["step"] = INT64_MAX;
  write_manifest_text(path, largest.dump());
  const CheckpointManifest read = read_manifest(real_fs(), path);
  EXPECT_EQ(read.state.counters[0].weight_version, UINT64_MAX);
  EXPECT_EQ(read.state.meta.step, INT64_MAX);
}

TEST(CheckpointFields, AnotherFormatIsRefusedWithBothVersions) {
  const TempDir dir;
  CheckpointedArrays policy(1);
  const std::string path = save(dir, {&policy});
  for (const int version : {0, 2}) {
    Json m = manifest_of(path);
    m["format_version"] = version;
    m.erase("step");  // nothing else of it is read
    write_manifest_text(path, m.dump());
    const Error e = expect_error(Code::kIncompatible, [&] { read_manifest(real_fs(), path); });
    EXPECT_EQ(e.location, path + "/manifest.json");
    EXPECT_TRUE(contains(e.message, str("has format version ", version, "; this library reads 1")));
  }
}

TEST(CheckpointFields, AManifestThatIsNotItsDigestIsNamedWithBoth) {
  const TempDir dir;
  CheckpointedArrays policy(1);
  const std::string path = save(dir, {&policy});
  const std::string text = text_of(path + "/manifest.json");
  std::ofstream(path + "/manifest.xxh64", std::ios::binary) << hex64(1);
  const Error e = expect_error(Code::kDataLoss, [&] { read_manifest(real_fs(), path); });
  EXPECT_EQ(e.location, path + "/manifest.json");
  EXPECT_TRUE(contains(e.message, "has digest " + hex64(digest64(text))));
  EXPECT_TRUE(contains(e.message, "manifest.xxh64 says '" + hex64(1) + "'"));
}

TEST(CheckpointFields, ARunOfAnotherConfigurationIsRefusedWithItsDigest) {
  const TempDir dir;
  CheckpointedArrays policy(1);
  const std::string path = save(dir, {&policy});
  for (const auto& call :
       {std::function<void()>([&] { load(path, {&policy}, "other"); }),
        std::function<void()>([&] { read_checkpoint_meta(real_fs(), path, "other"); })}) {
    const Error e = expect_error(Code::kIncompatible, call);
    EXPECT_EQ(e.expected, "other");
    EXPECT_EQ(e.location, path);
    EXPECT_TRUE(contains(e.message, str("digest '", kConfig, "', but this run's is 'other'")));
  }
}

TEST(CheckpointFields, ARunWithoutACriticIsRefusedWithWhatItHas) {
  const TempDir with, without;
  CheckpointedArrays policy(1), critic(500);
  const std::string both = save(with, {&policy, &critic}), one = save(without, {&policy});
  const Error none = expect_error(Code::kIncompatible, [&] { load(both, {&policy}); });
  EXPECT_EQ(none.expected, "no critic");
  EXPECT_EQ(none.location, both);
  const Error some = expect_error(Code::kIncompatible, [&] { load(one, {&policy, &critic}); });
  EXPECT_EQ(some.expected, "a critic");
  EXPECT_EQ(some.location, one);
}

TEST(CheckpointFields, AnotherSetOfFrozenParametersIsRefusedByOneOfThem) {
  const TempDir dir;
  const TrainableRule rule{{"model.norm.weight"}, {}};
  CheckpointedArrays all(1), some(1, rule);
  const std::string of_all = save(dir, {&all}, 1), of_some = save(dir, {&some}, 2);
  EXPECT_EQ(manifest_of(of_some).at("frozen").at("parameters"), Json::array({"model.norm.weight"}));
  const Error trained = expect_error(Code::kIncompatible, [&] { load(of_all, {&some}); });
  EXPECT_EQ(trained.key, "model.norm.weight");
  EXPECT_EQ(trained.location, of_all);
  EXPECT_TRUE(contains(trained.message, "that trained model.norm.weight, but this run does not"));
  const Error frozen = expect_error(Code::kIncompatible, [&] { load(of_some, {&all}); });
  EXPECT_EQ(frozen.key, "model.norm.weight");
  EXPECT_EQ(frozen.location, of_some);
  EXPECT_TRUE(contains(frozen.message, "that did not train model.norm.weight, but this run does "));
  require_same_frozen(real_fs(), of_some, some.layout);
  Json m = manifest_of(of_some);
  m["frozen"]["parameters"].push_back("model.unknown.weight");
  write_manifest_text(of_some, m.dump());
  const Error unknown = expect_error(Code::kIncompatible, [&] { load(of_some, {&some}); });
  EXPECT_EQ(unknown.location, of_some);
  EXPECT_TRUE(contains(unknown.message, "names frozen parameters that the model does not have"));
}

TEST(CheckpointFields, OtherFrozenValuesAreRefusedWithTheirDigest) {
  const TempDir dir;
  CheckpointedArrays some(1, {{"model.norm.weight"}, {}});
  const std::string path = save(dir, {&some});
  some.masters[0] += 1;  // a trained value, which the file replaces
  load(path, {&some});
  some.masters[static_cast<size_t>(some.layout.final_norm())] += 1;
  const Error e = expect_error(Code::kIncompatible, [&] { load(path, {&some}); });
  EXPECT_EQ(e.expected, manifest_of(path).at("frozen").at("xxh64").get<std::string>());
  EXPECT_EQ(e.location, path);
}

TEST(CheckpointFields, ArgumentsBelowZeroAreNamed) {
  const TempDir dir;
  CheckpointedArrays policy(1);
  const Error step = expect_error(Code::kOutOfRange, [&] { save(dir, {&policy}, -1); });
  EXPECT_EQ(step.key, "checkpoint step");
  EXPECT_EQ(step.expected, "at least 0");
  const Error keep =
      expect_error(Code::kOutOfRange, [&] { save(dir, {&policy}, 1, {.keep_last = -2}); });
  EXPECT_EQ(keep.key, "checkpoint.keep_last");
  EXPECT_TRUE(contains(keep.message, "is -2"));
  EXPECT_EQ(save(dir, {&policy}, 0), dir.file("step_000000"));
}

// The new one stays, whatever its step; of the others the newest.
TEST(CheckpointFields, TheNewestAreKeptAndTheNewOne) {
  using Names = std::vector<std::string>;
  struct Case {
    int64_t step, keep_last;
    Names left;
  };
  CheckpointedArrays policy(1);
  for (const Case& c : {Case{9, 0, {"step_000002", "step_000004", "step_000006", "step_000009"}},
                        Case{9, 1, {"step_000009"}}, Case{9, 2, {"step_000006", "step_000009"}},
                        Case{9, 4, {"step_000002", "step_000004", "step_000006", "step_000009"}},
                        Case{9, 9, {"step_000002", "step_000004", "step_000006", "step_000009"}},
                        Case{1, 2, {"step_000001", "step_000006"}}, Case{3, 1, {"step_000003"}}}) {
    const TempDir dir;
    for (const char* name : {"step_000002", "step_000004", "step_000006"})
      std::filesystem::create_directory(dir.file(name));
    save(dir, {&policy}, c.step, {.keep_last = c.keep_last});
    EXPECT_EQ(real_fs().list(dir.path()), c.left) << c.step << " " << c.keep_last;
  }
}

// A crash between two renames took the name of a whole checkpoint.
TEST(CheckpointFields, ANameComesBackWhereverItIsAskedFor) {
  const TempDir dir;
  CheckpointedArrays policy(1);
  const std::string path = save(dir, {&policy});
  const auto lose = [&] { std::filesystem::rename(path, path + ".replaced"); };
  const std::vector<std::function<void()>> calls = {
      [&] { EXPECT_EQ(read_checkpoint_meta(real_fs(), path, kConfig).step, 7); },
      [&] { require_same_frozen(real_fs(), path, policy.layout); },
      [&] { load(path, {&policy}); },
      [&] { EXPECT_EQ(latest_checkpoint(real_fs(), dir.path()), path); },
      [&] { abandon_later_checkpoints(real_fs(), dir.path(), 7); },
      [&] { save(dir, {&policy}, 8); },
      [&] { expect_error(Code::kAlreadyExists, [&] { save(dir, {&policy}); }); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    lose();
    calls[i]();
    EXPECT_TRUE(real_fs().exists(path));
    EXPECT_FALSE(real_fs().exists(path + ".replaced"));
  }
}

TEST(CheckpointFields, OnlyLaterStepsAreAbandoned) {
  const TempDir dir;
  abandon_later_checkpoints(real_fs(), dir.file("nothing here"), 0);
  for (const char* name : {"step_000004", "step_000005", "step_000006", "step_000006.abandoned",
                           "step_000007.partial", "other"}) {
    std::filesystem::create_directory(dir.file(name));
  }
  std::ofstream(dir.file("step_000006") + "/new") << "new";
  abandon_later_checkpoints(real_fs(), dir.path(), 5);
  EXPECT_EQ(
      real_fs().list(dir.path()),
      (std::vector<std::string>{"other", "step_000004", "step_000005", "step_000006.abandoned"}));
  EXPECT_TRUE(real_fs().exists(dir.file("step_000006.abandoned") + "/new"));
}

}  // namespace
}  // namespace rl::testing
