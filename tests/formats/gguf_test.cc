// The GGUF reader without a model: formats against their golden values, typed getters, and broken
// headers.
#include "formats/gguf/gguf.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "formats/memory_fs.h"
#include "formats/safetensors/safetensors.h"
#include "formats/stored/gguf_formats.h"
#include "formats/tiny_files.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using test::bytes_of;
using test::GgufBuilder;

const std::string kGguf = std::string(RL_FIXTURES) + "/gguf/";

GgufFile open_bytes(const std::string& bytes) {
  static test::MemoryFs fs;
  fs.files["f"] = bytes;
  return GgufFile(fs, "f");
}

TEST(Gguf, DequantisesEveryReadableFormatBitForBit) {
  const GgufFile file(real_fs(), kGguf + "quant_types.gguf");
  const SafetensorsFile golden(real_fs(), kGguf + "quant_types.golden.safetensors");
  std::set<StoredType> compared;
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const GgufTensor& t = file.tensors()[i];
    ASSERT_TRUE(t.type) << t.name;
    std::vector<float> want(4 * 512), have(4 * 512);
    golden.rows(golden.find(t.name)).read(0, want);
    file.rows(static_cast<int64_t>(i)).read(0, have);
    EXPECT_EQ(std::memcmp(want.data(), have.data(), want.size() * 4), 0) << t.name;
    file.rows(static_cast<int64_t>(i)).read(3, std::span(have).first(512));
    EXPECT_EQ(std::memcmp(want.data() + 3 * 512, have.data(), 512 * 4), 0) << t.name;
    compared.insert(*t.type);
  }
  EXPECT_EQ(compared.size(), std::size(kBlockLayouts));
}

// One tensor of two rows of two blocks each, or of as many bytes as given.
GgufBuilder two_rows(const GgufFormat& f, int64_t more_columns = 0, int64_t more_bytes = 0) {
  GgufBuilder b;
  b.add_tensor("t", {static_cast<uint64_t>(2 * f.layout.elements + more_columns), 2}, f.number,
               std::string(static_cast<size_t>(4 * f.layout.bytes + more_bytes), '\1'));
  return b;
}

TEST(Gguf, ChecksRowsAndBytesOfEveryFormat) {
  int readable = 0, named = 0;
  for (uint32_t number = 0; number < 64; ++number) {
    const GgufFormat* f = find_gguf_format(number);
    if (f == nullptr) continue;
    const GgufFile file = open_bytes(two_rows(*f).build());
    if (f->type) {
      EXPECT_EQ(file.rows(0).row_bytes(), static_cast<uint64_t>(2 * f->layout.bytes));
      ++readable;
    } else {
      const Error e = expect_error(Code::kUnsupported, [&] { file.rows(0); });
      EXPECT_TRUE(contains(e.message, f->layout.name)) << e.message;
      EXPECT_TRUE(contains(e.expected, "Q6_K")) << e.expected;
      ++named;
    }
    std::string cut = two_rows(*f, 0, 32).build();
    cut.resize(file.tensors()[0].offset + static_cast<size_t>(4 * f->layout.bytes) - 1);
    EXPECT_TRUE(
        contains(expect_error(Code::kDataLoss, [&] { open_bytes(cut); }).message, "tensor t"));
    if (f->layout.elements == 1) continue;
    for (int64_t columns : {-1, 1}) {
      const GgufBuilder uneven = two_rows(*f, columns, f->layout.bytes);
      const Error e = expect_error(Code::kDataLoss, [&] { open_bytes(uneven.build()); });
      EXPECT_TRUE(contains(e.message, str("blocks of ", f->layout.elements))) << e.message;
    }
  }
  EXPECT_EQ(readable, 13);
  EXPECT_GT(named, 10);
}

// Reference by the definition of the format: sign, exponent, fraction.
float half_by_definition(uint16_t h) {
  const int exponent = h >> 10 & 31;
  const float fraction = static_cast<float>(h & 1023);
  const float magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                          : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                           : std::ldexp(1024.0f + fraction, exponent - 25);
  return h & 0x8000 ? -magnitude : magnitude;
}

TEST(Gguf, ConvertsEveryHalf) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  for (size_t skip :
       {size_t{0}, size_t{5}}) {  // 5: the last elements go through the remainder path
    const std::span<const uint16_t> in = std::span<const uint16_t>(halves).subspan(skip);
    std::vector<float> out(in.size());
    dequantize(StoredType::kF16, std::as_bytes(in), out);
    for (size_t i = 0; i < in.size(); ++i) {
      const float want = half_by_definition(in[i]);
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(out[i]));
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(want)) << in[i];
    }
  }
}

TEST(Gguf, GettersCheckTheTypeOfAValue) {
  GgufBuilder b;
  b.add_u32("u32", 7);
  b.add("i8", 1, bytes_of(int8_t{-3}));
  b.add("u64", 10, bytes_of(~uint64_t{0}));
  b.add("bool", 7, std::string(1, '\1'));
  b.add("not_bool", 7, std::string(1, '\2'));
  b.add("f64", 12, bytes_of(0.5));
  b.add_text("text", "hello");
  b.add_texts("texts", {"a", "", "ccc"});
  const GgufFile f = open_bytes(b.build());
  EXPECT_EQ(f.integer("u32"), 7);
  EXPECT_EQ(f.integer("i8"), -3);
  EXPECT_EQ(f.number("f64"), 0.5);
  EXPECT_EQ(f.boolean("bool"), true);
  EXPECT_EQ(f.text("text"), "hello");
  EXPECT_EQ(f.texts("texts"), (std::vector<std::string>{"a", "", "ccc"}));
  EXPECT_EQ(f.integer("absent"), std::nullopt);
  EXPECT_EQ(f.texts("absent"), std::nullopt);
  expect_error(Code::kOutOfRange, [&] { f.integer("u64"); });
  expect_error(Code::kDataLoss, [&] { f.boolean("not_bool"); });
  for (const auto& call : {std::function<void()>([&] { f.integer("text"); }),
                           {[&] { f.number("u32"); }},
                           {[&] { f.text("texts"); }},
                           {[&] { f.integers("texts"); }},
                           {[&] { f.boolean("u32"); }}}) {
    EXPECT_TRUE(contains(expect_error(Code::kWrongType, call).location, "f offset "));
  }
}

TEST(Gguf, ReadsVersionTwoAndOtherAlignments) {
  GgufBuilder b;
  b.version = 2;
  b.alignment = 256;
  b.add_u32("general.alignment", 256);
  b.add_tensor("t", {4}, 0, std::string(16, 'x'));
  b.add_tensor("u", {4}, 0, std::string(16, 'y'));
  const GgufFile f = open_bytes(b.build());
  EXPECT_EQ(f.tensors()[1].offset % 256, 0u);
  EXPECT_EQ(f.find_tensor("u"), 1);
}

Error open_error(Code code, const GgufBuilder& b) {
  Error e = expect_error(code, [&] { open_bytes(b.build()); });
  EXPECT_TRUE(contains(e.location, "f offset ")) << e.message;
  return e;
}

TEST(Gguf, RefusesBrokenHeaders) {
  GgufBuilder b;
  b.version = 1;
  open_error(Code::kUnsupported, b);
  b.version = 0x03000000;
  open_error(Code::kUnsupported, b);
  const auto with = [](auto fill) {
    GgufBuilder g;
    fill(g);
    return g;
  };
  open_error(Code::kDataLoss, with([](auto& g) { g.add("k", 13, "1234"); }));
  open_error(Code::kDataLoss, with([](auto& g) { g.add_u32("k", 1), g.add_u32("k", 1); }));
  open_error(Code::kUnsupported,
             with([](auto& g) { g.add("k", 9, bytes_of(uint32_t{9}) + bytes_of(uint64_t{0})); }));
  open_error(Code::kDataLoss, with([](auto& g) {
               g.add("k", 9, bytes_of(uint32_t{4}) + bytes_of(uint64_t{1} << 62));
             }));
  open_error(Code::kDataLoss, with([](auto& g) {
               g.add("k", 9, bytes_of(uint32_t{8}) + bytes_of(uint64_t{1} << 40));
             }));
  open_error(Code::kResourceExhausted,
             with([](auto& g) { g.add("k", 8, bytes_of(uint64_t{1} << 40)); }));
  open_error(Code::kDataLoss, with([](auto& g) { g.add("k", 8, bytes_of(uint64_t{1} << 20)); }));
  open_error(Code::kResourceExhausted, with([](auto& g) { g.add_u32(std::string(1025, 'k'), 1); }));
  for (uint32_t alignment : {0u, 3u, 1u << 21}) {
    open_error(Code::kOutOfRange,
               with([&](auto& g) { g.add_u32("general.alignment", alignment); }));
  }
  open_error(Code::kWrongType, with([](auto& g) { g.add_text("general.alignment", "32"); }));
}

TEST(Gguf, RefusesBrokenTensorRecords) {
  const auto with = [](std::vector<uint64_t> dims, uint32_t type, size_t bytes) {
    GgufBuilder g;
    g.add_tensor("t", std::move(dims), type, std::string(bytes, 'x'));
    return g;
  };
  EXPECT_EQ(open_bytes(with({32, 2}, 8, 68).build()).tensors().size(), 1u);
  open_error(Code::kDataLoss, with({32, 4}, 8, 68));   // more than there is
  open_error(Code::kDataLoss, with({32, 2}, 8, 200));  // trailing bytes
  open_error(Code::kDataLoss, with({33, 2}, 8, 68));   // half a block
  const Error removed = open_error(Code::kUnsupported, with({32, 2}, 5, 68));
  EXPECT_TRUE(contains(removed.message, "tensor t has the unknown element format 5"))
      << removed.message;
  open_error(Code::kUnsupported, with({32, 2}, ~0u, 68));
  open_error(Code::kOutOfRange, with({0, 2}, 0, 0));
  open_error(Code::kOutOfRange, with({~uint64_t{0}}, 0, 0));
  open_error(Code::kDataLoss, with({uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0));
  open_error(Code::kResourceExhausted, with({}, 0, 4));
  open_error(Code::kResourceExhausted, with({1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 4));
  GgufBuilder twice = with({4}, 0, 16);
  twice.add_tensor("t", {4}, 0, std::string(16, 'y'));
  EXPECT_TRUE(contains(open_error(Code::kDataLoss, twice).message, "duplicate"));
}

TEST(Gguf, RefusesOverlapsAndHoles) {
  GgufBuilder g;
  g.add_tensor("t", {4}, 0, std::string(16, 'x'));
  g.add_tensor("u", {4}, 0, std::string(16, 'y'));
  std::string bytes = g.build();
  const size_t offset_of_u = bytes.find("u", bytes.find("t") + 1) + 1 + 4 + 8 + 4;
  bytes.replace(offset_of_u, 8, bytes_of(uint64_t{0}));
  EXPECT_TRUE(
      contains(expect_error(Code::kDataLoss, [&] { open_bytes(bytes); }).message, "overlap"));
  bytes.replace(offset_of_u, 8, bytes_of(uint64_t{64}));
  bytes.resize(bytes.size() + 32);
  EXPECT_TRUE(contains(expect_error(Code::kDataLoss, [&] { open_bytes(bytes); }).message, "hole"));
}

TEST(Gguf, RefusesCountsAboveTheCaps) {
  const std::string start = "GGUF" + bytes_of(uint32_t{3});
  for (uint64_t n : {uint64_t{1'000'001}, ~uint64_t{0}}) {
    expect_error(Code::kResourceExhausted,
                 [&] { open_bytes(start + bytes_of(n) + bytes_of(uint64_t{0})); });
  }
  expect_error(Code::kResourceExhausted,
               [&] { open_bytes(start + bytes_of(uint64_t{0}) + bytes_of(uint64_t{65'537})); });
  expect_error(Code::kDataLoss, [&] {
    open_bytes(start + bytes_of(uint64_t{1'000'000}) + bytes_of(uint64_t{65'536}));
  });
  expect_error(Code::kDataLoss, [&] { open_bytes("GGUX" + bytes_of(uint32_t{3})); });
  expect_error(Code::kDataLoss, [&] { open_bytes(""); });
}

}  // namespace
}  // namespace rl
