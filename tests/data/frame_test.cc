// Files of frames: what is written is read, and every damage is an error that names an offset.
#include "data/frame.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "formats/memory_fs.h"
#include "support/expect_error.h"
#include "support/sample_groups.h"

namespace rl::testing {
namespace {

struct Document {
  std::string kind, text;
  bool operator==(const Document&) const = default;
};

std::vector<Document> read_all(const std::string& file) {
  test::MemoryFs fs;
  fs.files["f"] = file;
  const auto input = fs.open("f");
  FrameReader reader(*input);
  std::vector<Document> out;
  while (const auto frame = reader.next()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(frame->document.data()) % 8, 0u);
    out.push_back({std::string(frame->kind_text()), text_of(frame->document)});
  }
  EXPECT_FALSE(reader.next().has_value()) << "the end is sticky";
  EXPECT_EQ(reader.num_frames(), out.size());
  return out;
}

const std::vector<Document> kDocuments = {
    {"AAAA", "the first document"}, {"BBBB", ""}, {"CCCC", std::string(100000, 'x')}};

std::string sample_file(int level = 3) {
  FrameText file(level);
  for (const Document& d : kDocuments) file.add(d.kind, d.text);
  return file.close();
}

TEST(Frame, WhatIsWrittenIsRead) {
  EXPECT_EQ(read_all(sample_file()), kDocuments);
  EXPECT_TRUE(read_all(FrameText().close()).empty());
}

TEST(Frame, LevelsGiveOtherBytesAndTheSameDocuments) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += static_cast<char>('a' + (i * i / 7) % 11 + i % 3);
  const std::string fast = FrameText(kMinCompressionLevel).add("AAAA", text).close();
  const std::string small = FrameText(kMaxCompressionLevel).add("AAAA", text).close();
  EXPECT_LT(small.size(), fast.size());
  EXPECT_EQ(read_all(fast), read_all(small));
}

TEST(Frame, AFileCutAnywhereIsDataLossWithAnOffset) {
  const std::string whole = sample_file();
  for (size_t n = 0; n < whole.size(); ++n) {
    const Error e = expect_error(Code::kDataLoss, [&] { read_all(whole.substr(0, n)); });
    EXPECT_TRUE(contains(e.location, "f offset ")) << n;
    EXPECT_TRUE(contains(e.message, "the file is truncated")) << n;
  }
}

TEST(Frame, AFileThatEndsBetweenFramesMissesItsClosingRecord) {
  FrameText file;
  file.add("AAAA", "one").add("BBBB", "two");
  const Error e = expect_error(Code::kDataLoss, [&] { read_all(file.text()); });
  EXPECT_TRUE(contains(e.message, "closing record"));
  EXPECT_TRUE(contains(e.message, "frames before it: 2"));
  EXPECT_EQ(e.location, str("f offset ", file.text().size()));
}

TEST(Frame, AChangedByteAnywhereIsFound) {
  const std::string whole = sample_file();
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string bad = whole;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      try {
        read_all(bad);
        ADD_FAILURE() << "byte " << at << " bit " << bit;
      } catch (const Error& e) {
        EXPECT_TRUE(e.code == Code::kDataLoss || (e.code == Code::kIncompatible && at / 4 == 2))
            << at << ": " << e.message;
      }
    }
  }
}

// Also where only zstd notices it, after all bytes of the frame have been read.
TEST(Frame, AChangedByteIsReportedAtTheRecordOfItsFrame) {
  FrameText file;
  std::vector<size_t> records;
  for (const char* text : {"the first document", "the second"}) {
    records.push_back(file.text().size());
    file.add("AAAA", text);
  }
  records.push_back(file.text().size());  // the closing one
  const std::string whole = file.close();
  int64_t found_by_zstd = 0;
  for (size_t at = records.front(); at < whole.size(); ++at) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    const Error e = expect_error(Code::kDataLoss, [&] { read_all(bad); });
    EXPECT_EQ(e.location, str("f offset ", *--std::ranges::upper_bound(records, at))) << at;
    if (contains(e.message, ": zstd: ")) ++found_by_zstd;
  }
  EXPECT_GT(found_by_zstd, 0);
}

TEST(Frame, AnotherVersionIsIncompatible) {
  std::string bad = sample_file();
  bad[8] = 2;
  const Error e = expect_error(Code::kIncompatible, [&] { read_all(bad); });
  EXPECT_TRUE(contains(e.message, "version 2"));
}

TEST(Frame, ReservedBytesAreNamedWithTheirPlace) {
  std::string bad = sample_file();
  bad[12] = 1;
  const Error e = expect_error(Code::kDataLoss, [&] { read_all(bad); });
  EXPECT_TRUE(contains(e.location, "offset 12")) << e.location;
}

TEST(Frame, BytesAfterTheEndAndLostOrSwappedFramesAreFound) {
  const std::string whole = sample_file();
  expect_error(Code::kDataLoss, [&] { read_all(whole + "x"); });
  FrameText some;
  some.add("AAAA", kDocuments[0].text);
  const size_t first = FrameText().text().size(), second = some.text().size();
  std::string lost = whole;
  lost.erase(first, second - first);
  EXPECT_TRUE(contains(expect_error(Code::kDataLoss, [&] { read_all(lost); }).message, "counts 3"));
  FrameText swapped;
  swapped.add("BBBB", "").add("AAAA", kDocuments[0].text).add("CCCC", kDocuments[2].text);
  const std::string body = swapped.text();
  const Error e =
      expect_error(Code::kDataLoss, [&] { read_all(body + whole.substr(whole.size() - 24)); });
  EXPECT_TRUE(contains(e.message, "digest"));
}

// A record with a right checksum and lengths of the test's choice.
std::string with_record(std::string file, size_t at, uint64_t first, uint64_t second) {
  std::memcpy(file.data() + at + 8, &first, 8);
  std::memcpy(file.data() + at + 16, &second, 8);
  std::memset(file.data() + at + 4, 0, 4);
  const auto check = static_cast<uint32_t>(digest64(std::string_view(file).substr(at, 24)));
  std::memcpy(file.data() + at + 4, &check, 4);
  return file;
}

TEST(Frame, LengthsAreCheckedBeforeMemoryIsTaken) {
  const std::string whole = sample_file();
  uint64_t stored = 0, length = 0;
  std::memcpy(&stored, whole.data() + 24, 8);
  std::memcpy(&length, whole.data() + 32, 8);
  const auto refused = [&](uint64_t first, uint64_t second, const char* why) {
    const Error e =
        expect_error(Code::kDataLoss, [&] { read_all(with_record(whole, 16, first, second)); });
    EXPECT_TRUE(contains(e.message, why));
    EXPECT_EQ(e.location, "f offset 16");
  };
  EXPECT_EQ(read_all(whole), kDocuments);
  refused(stored, kMaxDocumentBytes + 1, "limit");
  refused(stored, UINT64_MAX, "limit");
  refused(UINT64_MAX, length, "too many");
  refused(kMaxDocumentBytes, kMaxDocumentBytes, "the file is truncated");
  refused(stored, kMaxDocumentBytes, "not one zstd frame");
  refused(stored + 1, length, "not one zstd frame");
  refused(0, length, "not one zstd frame");
}

// zstd decompresses it to nothing, without a checksum.
TEST(Frame, ASkippableFrameIsNoFrame) {
  const std::string skippable("\x50\x2a\x4d\x18\x04\0\0\0junk", 12);
  const std::string start = FrameText().add("AAAA", "").text();
  std::string bad = start.substr(0, 16 + 24) + skippable;
  bad = with_record(bad, 16, skippable.size(), 0);
  EXPECT_TRUE(contains(expect_error(Code::kDataLoss, [&] { read_all(bad); }).message,
                       "not one zstd frame"));
}

TEST(Frame, AFrameWithoutZstdsChecksumIsRefused) {
  std::string bad = sample_file();
  bad[16 + 24 + 4] = static_cast<char>(bad[16 + 24 + 4] & ~4);
  EXPECT_TRUE(contains(expect_error(Code::kDataLoss, [&] { read_all(bad); }).message,
                       "not one zstd frame"));
}

}  // namespace
}  // namespace rl::testing
