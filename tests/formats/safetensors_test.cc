// The safetensors reader: what a valid header gives, and each way in which a header can be wrong.
#include "formats/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include "formats/memory_fs.h"
#include "formats/tiny_files.h"
#include "support/expect_error.h"

namespace rl {
namespace {

SafetensorsFile open_bytes(const std::string& bytes) {
  static test::MemoryFs fs;
  fs.files["f"] = bytes;
  return SafetensorsFile(fs, "f");
}

TEST(Safetensors, GivesEntriesByOffsetAndMetadata) {
  const auto f = open_bytes(test::safetensors_file(
      R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]},)"
      R"("z":{"dtype":"F32","shape":[0,7],"data_offsets":[28,28]}}  )",
      28));
  ASSERT_EQ(f.entries().size(), 3u);
  EXPECT_EQ(f.entries()[0].name, "a");
  EXPECT_EQ(f.find("b"), 1);
  EXPECT_EQ(f.find("c"), -1);
  EXPECT_EQ(f.metadata().at("format"), "pt");
  EXPECT_EQ(f.entries()[1].shape, (std::vector<int64_t>{2, 3}));
  std::vector<float> row(3);
  f.rows(1).read(1, row);
  EXPECT_EQ(row[0], 16.0f / 64 - 0.5f);
  expect_error(Code::kUnsupported, [&] { f.rows(0); });
}

TEST(Safetensors, RefusesEveryBrokenHeader) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(open_bytes(test::safetensors_file(good, 8)).entries().size(), 1u);
  const struct {
    const char* header;
    Code code;
  } cases[] = {
      {"[]", Code::kDataLoss},
      {"", Code::kDataLoss},
      {" {}", Code::kDataLoss},
      {"{} x", Code::kDataLoss},
      {R"({"a":1})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[2]}})", Code::kDataLoss},
      {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", Code::kUnsupported},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4,8]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]}})",
       Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]}})",
       Code::kOutOfRange},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})",
       Code::kOutOfRange},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}})",
       Code::kResourceExhausted},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("a":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})",
       Code::kDataLoss},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       Code::kDataLoss},
      {R"({"__metadata__":{"k":1},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       Code::kDataLoss},
      {R"({"__metadata__":{"k":"1","k":"2"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       Code::kDataLoss},
  };
  for (const auto& c : cases) {
    const Error e = expect_error(c.code, [&] { open_bytes(test::safetensors_file(c.header, 8)); });
    EXPECT_TRUE(contains(e.location, "f ")) << c.header << ": " << e.message;
  }
  expect_error(Code::kDataLoss,
               [&] { open_bytes(test::safetensors_file(good + std::string("\0x", 2), 8)); });
  const Error e =
      expect_error(Code::kDataLoss, [&] { open_bytes(test::safetensors_file(good, 9)); });
  EXPECT_TRUE(contains(e.message, "1 bytes after the last tensor"));
}

TEST(Safetensors, ComparesTheHeaderLengthWithTheFileFirst) {
  for (uint64_t length : {uint64_t{3}, uint64_t{100'000'000}}) {
    const Error e =
        expect_error(Code::kDataLoss, [&] { open_bytes(test::bytes_of(length) + "{}"); });
    EXPECT_TRUE(contains(e.location, "offset 0"));
  }
  for (uint64_t length : {uint64_t{100'000'001}, ~uint64_t{0}}) {
    expect_error(Code::kResourceExhausted, [&] { open_bytes(test::bytes_of(length) + "{}"); });
  }
  expect_error(Code::kDataLoss, [&] { open_bytes("1234567"); });
}

}  // namespace
}  // namespace rl
