// Weights split over several files: they equal the same weights in one file, and every way in which
// index and files can contradict each other is refused by name.
#include <gtest/gtest.h>

#include <iostream>

#include "formats/hf/hf_directory.h"
#include "formats/memory_fs.h"
#include "formats/open/open_weight_source.h"
#include "formats/safetensors/safetensors_set.h"
#include "formats/tiny_files.h"
#include "support/expect_error.h"
#include "support/mutate.h"

namespace rl {
namespace {

const std::string kModels = std::string(RL_FIXTURES) + "/models/";
const std::string kIndex = "m/model.safetensors.index.json";
const std::string kFirst = "model-00001-of-00002.safetensors";
const std::string kSecond = "model-00002-of-00002.safetensors";

using Tensors = std::vector<TensorInfo>;

uint64_t bytes_of_tensors(const Tensors& tensors) {
  uint64_t out = 0;
  for (const TensorInfo& t : tensors) out += static_cast<uint64_t>(t.rows() * t.cols()) * 4;
  return out;
}

std::string shard(const Tensors& tensors) {
  std::string header = "{";
  uint64_t at = 0;
  for (const TensorInfo& t : tensors) {
    const uint64_t end = at + bytes_of_tensors({t});
    header += str(at == 0 ? "" : ",", "\"", t.name,
                  "\":{\"dtype\":\"F32\",\"shape\":", shape_text(t.shape), ",\"data_offsets\":[",
                  at, ",", end, "]}");
    at = end;
  }
  return test::safetensors_file(header + "}", at);
}

std::string index_text(uint64_t total, const std::vector<std::pair<std::string, Tensors>>& files) {
  std::string map;
  for (const auto& [file, tensors] : files)
    for (const TensorInfo& t : tensors)
      map += str(map.empty() ? "" : ",", "\n    \"", t.name, "\": \"", file, "\"");
  return str("{\"metadata\": {\"total_size\": ", total, "}, \"weight_map\": {", map, "}}");
}

// The tiny model in two files. What a test changes, build() then writes as it stands.
struct Split {
  Tensors first, second;                // what the files hold
  Tensors listed_first, listed_second;  // what the index says
  uint64_t total = 0;

  Split() {
    Tensors all = expected_tensors(test::tiny_config());
    total = bytes_of_tensors(all);
    first.assign(all.begin(), all.begin() + 4);
    second.assign(all.begin() + 4, all.end());
    listed_first = first;
    listed_second = second;
  }
  test::MemoryFs build() const {
    test::MemoryFs fs;
    fs.files["m/config.json"] = test::kTinyConfig;
    fs.files["m/" + kFirst] = shard(first);
    fs.files["m/" + kSecond] = shard(second);
    fs.files[kIndex] = index_text(total, {{kFirst, listed_first}, {kSecond, listed_second}});
    return fs;
  }
  Error error(Code code) const {
    test::MemoryFs fs = build();
    Error e = expect_error(code, [&] { open_weight_source(fs, "m"); });
    EXPECT_FALSE(e.location.empty()) << e.message;
    return e;
  }
};

Error error_of_index(Code code, const std::string& index) {
  test::MemoryFs fs = Split().build();
  fs.files[kIndex] = index;
  Error e = expect_error(code, [&] { open_weight_source(fs, "m"); });
  EXPECT_TRUE(contains(e.location, kIndex)) << e.location;
  return e;
}

TEST(Shards, HoldTheTensorsOfTheSameModelInOneFile) {
  const SafetensorsSet one(real_fs(), kModels + "llama_rope_yarn");
  const SafetensorsSet many(real_fs(), kModels + "llama_rope_yarn_sharded");
  ASSERT_EQ(one.size(), many.size());
  EXPECT_TRUE(many.path().ends_with("model.safetensors.index.json"));
  for (size_t i = 0; i < one.size(); ++i) {
    const SafetensorsEntry& e = one.entry(i);
    const int64_t found = many.find(e.name);
    ASSERT_GE(found, 0) << e.name;
    const auto other = static_cast<size_t>(found);
    EXPECT_EQ(many.entry(other).shape, e.shape);
    std::vector<float> a(e.bytes / 4), b(a.size(), -1.0f);
    one.rows(i).read(0, a);
    many.rows(other).read(0, b);
    EXPECT_EQ(a, b) << e.name;
  }
  EXPECT_EQ(many.find("model.embed_tokens"), -1);
  EXPECT_EQ(many.find(""), -1);
}

TEST(Shards, MakeAModel) {
  test::MemoryFs fs = Split().build();
  const auto source = open_weight_source(fs, "m");
  EXPECT_EQ(source->tensors().size(), expected_tensors(test::tiny_config()).size());
  const std::string text = fs.files[kIndex];
  const std::string map = text.substr(text.find(", \"weight_map"));
  for (const std::string& metadata : {std::string(), std::string("\"total_parameters\": 1"),
                                      str("\"total_size\": ", Split().total, ".0")}) {
    fs.files[kIndex] = str("{\"metadata\": {", metadata, "}", map);
    EXPECT_EQ(open_weight_source(fs, "m")->tensors().size(), source->tensors().size()) << metadata;
  }
}

TEST(Shards, AreNotReadWhereOneFileHoldsTheModel) {
  test::MemoryFs fs = Split().build();
  fs.files["m/model.safetensors"] = test::tiny_safetensors();
  fs.files[kIndex] = "not JSON";
  EXPECT_TRUE(SafetensorsSet(fs, "m").path().ends_with("model.safetensors"));
  fs.files["m/model.safetensors"] = "damaged";
  expect_error(Code::kDataLoss, [&] { open_weight_source(fs, "m"); });
}

TEST(Shards, ATensorThatItsFileLacksIsNamed) {
  Split s;
  const TensorInfo lost = s.second.back();
  s.second.pop_back();
  Error e = s.error(Code::kDataLoss);
  EXPECT_EQ(e.key, lost.name);
  EXPECT_TRUE(contains(e.message, kSecond)) << e.message;
  s = Split();
  s.listed_first.push_back({"not.there", {1}, {}});
  EXPECT_EQ(s.error(Code::kDataLoss).key, "not.there");
}

TEST(Shards, ATensorThatTheIndexDoesNotListIsNamed) {
  Split s;
  s.listed_second.pop_back();
  const Error e = s.error(Code::kDataLoss);
  EXPECT_EQ(e.key, s.second.back().name);
  EXPECT_TRUE(contains(e.message, "does not list") && contains(e.message, kSecond)) << e.message;
}

TEST(Shards, ATensorInTwoFilesIsNamed) {
  Split s;
  s.second.push_back(s.first[1]);
  const Error e = s.error(Code::kDataLoss);
  EXPECT_EQ(e.key, s.first[1].name);
  EXPECT_TRUE(contains(e.message, "places in " + kFirst)) << e.message;
  s = Split();
  std::swap(s.listed_first, s.listed_second);
  EXPECT_TRUE(contains(s.error(Code::kDataLoss).message, "places in"));
}

TEST(Shards, AMissingFileIsNamed) {
  test::MemoryFs fs = Split().build();
  fs.files.erase("m/" + kSecond);
  const Error e = expect_error(Code::kDataLoss, [&] { open_weight_source(fs, "m"); });
  EXPECT_EQ(e.key, kSecond);
  EXPECT_EQ(e.location, "m/" + kSecond);
  EXPECT_TRUE(contains(e.message, kIndex + " names " + kSecond)) << e.message;
  fs.files["m/" + kSecond] = "x";
  EXPECT_TRUE(contains(expect_error(Code::kDataLoss, [&] { open_weight_source(fs, "m"); }).location,
                       kSecond));
}

TEST(Shards, NamesThatLeaveTheDirectoryAreRefused) {
  for (const std::string name :
       {"../model.safetensors", "/m/model.safetensors", "sub/model.safetensors",
        "sub\\\\model.safetensors", "..", ".", "", ".safetensors", ".hidden.safetensors",
        "model.bin", "model.safetensors/", "a\\u0000.safetensors", "a\\n.safetensors"}) {
    const Error e = error_of_index(
        Code::kDataLoss, str("{\"weight_map\": {\"model.norm.weight\": \"", name, "\"}}"));
    EXPECT_EQ(e.key, "model.norm.weight") << name;
    EXPECT_TRUE(contains(e.message, "in the same directory")) << e.message;
  }
  error_of_index(Code::kDataLoss,
                 str("{\"weight_map\": {\"t\": \"", std::string(300, 'a'), ".safetensors\"}}"));
}

TEST(Shards, AWrongTotalSizeIsRefused) {
  for (const int64_t difference : {-4, 1, 4}) {
    Split s;
    s.total += static_cast<uint64_t>(difference);
    const Error e = s.error(Code::kDataLoss);
    EXPECT_EQ(e.key, "total_size");
    EXPECT_EQ(e.expected, str(Split().total));
  }
}

TEST(Shards, AnIndexOfAnotherFormIsRefused) {
  const std::string map = ", \"weight_map\": {\"t\": \"a.safetensors\"}}";
  const struct {
    Code code;
    std::string text;
  } cases[] = {
      {Code::kDataLoss, ""},
      {Code::kDataLoss, "{"},
      {Code::kDataLoss, "{\"weight_map\": {\"t\": \"a\", \"t\": \"a\"}}"},
      {Code::kWrongType, "[]"},
      {Code::kDataLoss, "{}"},
      {Code::kWrongType, "{\"weight_map\": []}"},
      {Code::kDataLoss, "{\"weight_map\": {}}"},
      {Code::kWrongType, "{\"weight_map\": {\"t\": 1}}"},
      {Code::kWrongType, "{\"weight_map\": {\"t\": null}}"},
  };
  for (const auto& c : cases) error_of_index(c.code, c.text);
  for (const char* metadata :
       {"[]", "\"x\"", "{\"total_size\": \"1\"}", "{\"total_size\": -1}", "{\"total_size\": 1.5}",
        "{\"total_size\": 1e300}", "{\"total_size\": null}"}) {
    error_of_index(Code::kWrongType, str("{\"metadata\": ", metadata, map));
  }
  std::string many = "{\"weight_map\": {";
  for (int i = 0; i < 4097; ++i)
    many += str(i == 0 ? "" : ",", "\"", i, "\":\"", i, ".safetensors\"");
  EXPECT_EQ(error_of_index(Code::kResourceExhausted, many + "}}").key, "weight_map");
  error_of_index(Code::kResourceExhausted, std::string((size_t{8} << 20) + 1, ' '));
}

TEST(Shards, ATiedHeadInAnotherFileIsCompared) {
  Split s;
  const TensorInfo head{"lm_head.weight", {5, 32}, {}};
  s.second.push_back(head);
  s.listed_second.push_back(head);
  s.total += bytes_of_tensors({head});
  EXPECT_EQ(s.error(Code::kConflict).key, "lm_head.weight");
  // First in its file, as the embedding is in its own, the pattern gives both the same values.
  std::rotate(s.second.begin(), s.second.end() - 1, s.second.end());
  test::MemoryFs fs = s.build();
  EXPECT_EQ(open_weight_source(fs, "m")->find("lm_head.weight"), -1);
}

TEST(Shards, AMutatedIndexLoadsOrNamesTheFault) {
  test::MemoryFs fs = Split().build();
  const std::string good = fs.files[kIndex];
  int loaded = 0, refused = 0;
  const auto open = [&](const std::string& text) {
    fs.files[kIndex] = text;
    try {
      open_weight_source(fs, "m");
      ++loaded;
    } catch (const Error& e) {
      ++refused;
      EXPECT_FALSE(e.location.empty()) << e.message;
      EXPECT_NE(e.code, Code::kInternal) << e.message;
    }
  };
  for (size_t n = 0; n < good.size(); ++n) open(good.substr(0, n));
  EXPECT_EQ(loaded, 0);
  const int rounds = test::fuzz_rounds(1000);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    open(test::mutate(good, static_cast<uint64_t>(seed)));
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, rounds / 2);
  std::cout << loaded << " loaded, " << refused << " refused\n";
}

}  // namespace
}  // namespace rl
