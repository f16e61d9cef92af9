// One file of a checkpoint: its bytes, and what is refused with its place.
#include "train/checkpoint/array_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint_arrays.h"
#include "core/hash.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace rl::testing {
namespace {

using Json = nlohmann::json;

std::string text_of(const std::string& path) { return read_text_file(real_fs(), path, 1 << 26); }

void write_masters(const std::string& path, CheckpointedArrays& some) {
  write_array_file(real_fs(), path,
                   trained_tensors(some.layout, {some.masters, &Parameter::offset}));
}

TEST(ArrayFile, AFileIsVerifiedBySizeThenByDigest) {
  const TempDir dir;
  const std::string path = dir.file("some");
  const FileMark mark = write_marked_text(real_fs(), path, "0123456789");
  EXPECT_EQ(mark.bytes, 10u);
  EXPECT_EQ(mark.digest, digest64("0123456789"));
  EXPECT_EQ(text_of(path), "0123456789");
  verify_file(real_fs(), path, mark);
  const Error size = expect_error(Code::kDataLoss, [&] {
    verify_file(real_fs(), path, {11, mark.digest});
  });
  EXPECT_EQ(size.location, path);
  EXPECT_TRUE(contains(size.message, "has 10 bytes, expected 11 according to the manifest"));
  const Error digest = expect_error(Code::kDataLoss, [&] {
    verify_file(real_fs(), path, {10, 1});
  });
  EXPECT_EQ(digest.location, path);
  EXPECT_TRUE(
      contains(digest.message, str("has digest ", hex64(mark.digest), ", expected ", hex64(1))));
  const FileMark empty = write_marked_text(real_fs(), dir.file("empty"), "");
  verify_file(real_fs(), dir.file("empty"), empty);
}

// safetensors: a length, a JSON header padded to a multiple of 8, then the tensors without gaps.
TEST(ArrayFile, AnArrayFileHasTheTrainedTensorsInOrder) {
  const TempDir dir;
  CheckpointedArrays some(1, {{"model.embed_tokens.weight"}, {}});
  const std::string path = dir.file("some.safetensors");
  const TensorList tensors = trained_tensors(some.layout, {some.first, &Parameter::gradient});
  const FileMark mark = write_array_file(real_fs(), path, tensors);
  EXPECT_EQ(array_mark(tensors).bytes, mark.bytes);
  EXPECT_EQ(array_mark(tensors).digest, mark.digest);
  const std::string bytes = text_of(path);
  EXPECT_EQ(mark.bytes, bytes.size());
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  EXPECT_EQ(length % 8, 0u);
  const Json header = Json::parse(bytes.substr(8, length));
  uint64_t at = 0;
  size_t count = 0;
  for (const Parameter& p : some.layout.parameters()) {
    EXPECT_EQ(header.contains(p.name), p.trainable()) << p.name;
    if (!p.trainable()) continue;
    ++count;
    const uint64_t size = static_cast<uint64_t>(p.size) * sizeof(float);
    EXPECT_EQ(header.at(p.name).at("dtype"), "F32");
    EXPECT_EQ(header.at(p.name).at("shape"), Json(p.shape));
    EXPECT_EQ(header.at(p.name).at("data_offsets"), Json::array({at, at + size})) << p.name;
    EXPECT_EQ(std::memcmp(bytes.data() + 8 + length + at, &some.first[p.gradient], size), 0);
    at += size;
  }
  EXPECT_EQ(header.size(), count);
  EXPECT_EQ(bytes.size(), 8 + length + at);
}

TEST(ArrayFile, ATensorOfAnotherShapeOrNoneIsNamed) {
  const TempDir dir;
  CheckpointedArrays policy(1);
  const std::string path = dir.file("some.safetensors");
  write_masters(path, policy);
  check_array_file(real_fs(), path, policy.layout);
  const auto refused = [&](const ModelConfig& other) {
    const WeightLayout layout(other);
    std::vector<float> room(static_cast<size_t>(layout.gradient_total()));
    const Error checked =
        expect_error(Code::kIncompatible, [&] { check_array_file(real_fs(), path, layout); });
    const Error read = expect_error(Code::kIncompatible, [&] {
      read_array_file(real_fs(), path, trained_tensors(layout, {room, &Parameter::gradient}));
    });
    EXPECT_EQ(checked.key, read.key);
    EXPECT_EQ(checked.location, path);
    EXPECT_EQ(read.location, path);
    return checked;
  };
  ModelConfig wide = checkpointed_config(), deep = wide, shallow = wide;
  wide.ffn += 16;
  const Error shape = refused(wide);
  EXPECT_TRUE(contains(shape.key, "model.layers.0.mlp."));
  EXPECT_TRUE(contains(shape.message, "is F32"));
  ++deep.layers;
  const Error missing = refused(deep);
  EXPECT_TRUE(contains(missing.key, "model.layers.2."));
  EXPECT_TRUE(contains(missing.message, "is missing, expected F32"));
  --shallow.layers;
  const Error more = expect_error(
      Code::kIncompatible, [&] { check_array_file(real_fs(), path, WeightLayout(shallow)); });
  const size_t all = policy.layout.parameters().size();
  const size_t expected = WeightLayout(shallow).parameters().size();
  EXPECT_LT(expected, all);
  EXPECT_TRUE(contains(more.message, str("holds ", all, " tensors, expected the ", expected)));
  EXPECT_EQ(more.location, path);
}

TEST(ArrayFile, ATensorOfAnotherTypeIsNamed) {
  const TempDir dir;
  CheckpointedArrays policy(1);
  const std::string path = dir.file("some.safetensors");
  write_masters(path, policy);
  std::string bytes = text_of(path);
  const Parameter& last = policy.layout.parameters().back();
  const size_t at = bytes.find("F32", bytes.find("\"" + last.name + "\""));
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'I';
  std::ofstream(path, std::ios::binary) << bytes;
  const Error e =
      expect_error(Code::kIncompatible, [&] { check_array_file(real_fs(), path, policy.layout); });
  EXPECT_EQ(e.key, last.name);
  EXPECT_EQ(e.location, path);
  EXPECT_TRUE(contains(e.message, "tensor " + last.name + " is I32"));
  EXPECT_TRUE(contains(e.message, ", expected F32" + shape_text(last.shape)));
}

// Tensors of any type, such as states of fewer bits.
TEST(ArrayFile, TensorsOfOtherTypesAreReadBack) {
  const TempDir dir;
  const std::string path = dir.file("some.safetensors");
  std::vector<std::byte> bytes(7, std::byte{3}), read(7);
  const TensorList written = {{"a", "U8", {3}, std::span(bytes).first(3)},
                              {"b", "BF16", {1, 2}, std::span(bytes).last(4)}};
  write_array_file(real_fs(), path, written);
  check_array_file(real_fs(), path, written);
  read_array_file(
      real_fs(), path,
      {{"a", "U8", {3}, std::span(read).first(3)}, {"b", "BF16", {1, 2}, std::span(read).last(4)}});
  EXPECT_EQ(read, bytes);
  const Error other = expect_error(Code::kIncompatible, [&] {
    check_array_file(real_fs(), path, {{"a", "I8", {3}, {}}, {"b", "BF16", {1, 2}, {}}});
  });
  EXPECT_TRUE(contains(other.message, "tensor a is U8[3], expected I8[3]")) << other.message;
}

}  // namespace
}  // namespace rl::testing
