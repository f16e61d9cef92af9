// What errors of frames say: the place, the numbers seen and the limits; and where frames are.
#include <gtest/gtest.h>
#include <zstd.h>

#include "core/error.h"
#include "data/frame.h"
#include "formats/memory_fs.h"
#include "support/expect_error.h"
#include "support/sample_groups.h"

namespace rl::testing {
namespace {

constexpr size_t kHeader = 16, kRecord = 24;

void read_all(const std::string& file) {
  test::MemoryFs fs;
  fs.files["f"] = file;
  const auto input = fs.open("f");
  FrameReader reader(*input);
  while (reader.next()) {
  }
}

std::string two_frames() {
  return FrameText().add("AAAA", "the first document").add("BBBB", "the second").close();
}

// The bytes that a frame stores, as its record says.
uint64_t stored_of(const std::string& file, size_t record) {
  uint64_t stored = 0;
  std::memcpy(&stored, file.data() + record + 8, sizeof stored);
  return stored;
}

void expect_loss(const std::string& file, const std::string& location, const std::string& message) {
  const Error e = expect_error(Code::kDataLoss, [&] { read_all(file); });
  EXPECT_EQ(e.location, location);
  EXPECT_TRUE(e.message.starts_with(location + ": ")) << e.message;
  EXPECT_TRUE(contains(e.message, message));
}

TEST(FrameErrors, AHeaderSaysWhatIsWrongAndWhere) {
  std::string file = two_frames();
  file[0] = 'X';
  expect_loss(file, "f offset 0", "does not begin with RLFRAMES");
  file = two_frames();
  file[12] = 3;
  expect_loss(file, "f offset 12", "the reserved field is 3, expected 0");
  file = two_frames();
  file[8] = 7;
  const Error e = expect_error(Code::kIncompatible, [&] { read_all(file); });
  EXPECT_EQ(e.location, "f offset 8");
  EXPECT_EQ(e.message, "f has format version 7; this library reads 1");
}

TEST(FrameErrors, ATruncatedFileSaysWhatIsMissingAndWhatCameBefore) {
  const std::string file = two_frames();
  const size_t first = stored_of(file, kHeader), second = kHeader + kRecord + first;
  expect_loss(file.substr(0, 5), "f offset 0",
              "5 bytes are left, but the file header takes 16; frames before it: 0");
  expect_loss(file.substr(0, kHeader + 7), "f offset 16",
              "7 bytes are left, but a frame's or the closing record takes 24; "
              "frames before it: 0");
  expect_loss(file.substr(0, kHeader + kRecord + 3), "f offset 16",
              str("3 bytes are left, but the frame takes ", first, "; frames before it: 0"));
  expect_loss(file.substr(0, second + kRecord + 4), str("f offset ", second),
              str("4 bytes are left, but the frame takes ", stored_of(file, second),
                  "; frames before it: 1"));
  expect_loss(file.substr(0, file.size() - 1), str("f offset ", file.size() - kRecord),
              "23 bytes are left, but a frame's or the closing record takes 24; "
              "frames before it: 2");
}

TEST(FrameErrors, TheEndIsWhereTheClosingRecordIs) {
  const std::string file = two_frames();
  expect_loss(file + "xyz", str("f offset ", file.size()), "3 bytes follow the closing record");
  const size_t second = kHeader + kRecord + stored_of(file, kHeader);
  std::string lost = file;
  lost.erase(kHeader, second - kHeader);
  expect_loss(lost, str("f offset ", lost.size() - kRecord),
              "the closing record counts 2 frames, but there are 1");
  const std::string body = FrameText().add("BBBB", "one").add("AAAA", "two").text();
  const std::string closing = file.substr(file.size() - kRecord);
  uint64_t said = 0;
  std::memcpy(&said, closing.data() + 16, sizeof said);
  expect_loss(body + closing, str("f offset ", body.size()),
              str("the file has digest ", hex64(digest64(body)), ", but the closing record says ",
                  hex64(said)));
}

// A record with a right checksum and the lengths given.
std::string with_lengths(std::string file, size_t at, uint64_t stored, uint64_t length) {
  std::memcpy(file.data() + at + 8, &stored, 8);
  std::memcpy(file.data() + at + 16, &length, 8);
  std::memset(file.data() + at + 4, 0, 4);
  const auto check = static_cast<uint32_t>(digest64(std::string_view(file).substr(at, kRecord)));
  std::memcpy(file.data() + at + 4, &check, 4);
  return file;
}

TEST(FrameErrors, LengthsOfAFrameAreNamedWithTheirLimits) {
  const std::string file = two_frames();
  const uint64_t stored = stored_of(file, kHeader), length = 18;
  const uint64_t most = ZSTD_compressBound(length);
  const auto refused = [&](uint64_t first, uint64_t second, const std::string& message) {
    expect_loss(with_lengths(file, kHeader, first, second), "f offset 16", message);
  };
  refused(stored, kMaxDocumentBytes + 1,
          str("a document of ", kMaxDocumentBytes + 1, " bytes exceeds the limit of ",
              kMaxDocumentBytes));
  refused(most + 1, length, str(most + 1, " stored bytes are too many for a document of 18"));
  // As many are allowed; this file has fewer, or other bytes.
  const std::string at_limit = with_lengths(file, kHeader, most, length);
  EXPECT_FALSE(
      contains(expect_error(Code::kDataLoss, [&] { read_all(at_limit); }).message, "too many"));
  for (const uint64_t other : {length - 1, length + 1}) {
    refused(stored, other,
            str("the ", stored,
                " stored bytes are not one zstd frame with a checksum and content "
                "of ",
                other, " bytes"));
  }
}

TEST(FrameErrors, AFrameSaysWhereItsRecordIs) {
  const std::string file = two_frames();
  test::MemoryFs fs;
  fs.files["f"] = file;
  const auto input = fs.open("f");
  FrameReader reader(*input);
  EXPECT_EQ(reader.num_frames(), 0u);
  EXPECT_EQ(reader.next()->offset, kHeader);
  EXPECT_EQ(reader.num_frames(), 1u);
  EXPECT_EQ(reader.next()->offset, kHeader + kRecord + stored_of(file, kHeader));
  EXPECT_EQ(reader.num_frames(), 2u);
}

TEST(FrameErrors, ADocumentBeyondTheLimitIsNotWritten) {
  FrameText out;
  const std::string before = out.text();
  // Its bytes are never read.
  const std::span<const std::byte> huge(std::as_bytes(std::span(before)).data(),
                                        kMaxDocumentBytes + 1);
  const Error e = expect_error(Code::kResourceExhausted, [&] { out.add("AAAA", huge); });
  EXPECT_EQ(e.message, str("a document of ", kMaxDocumentBytes + 1, " bytes exceeds the limit of ",
                           kMaxDocumentBytes));
  EXPECT_EQ(out.text(), before);
}

TEST(FrameErrors, AKindHasFourCharactersAndIsNotThatOfTheEnd) {
  for (const char* kind : {"DONE", "AAA", "AAAAA", ""}) {
    FrameText out;
    expect_error(Code::kInternal, [&] { out.add(kind, "text"); });
  }
}

TEST(FrameErrors, ACompressionLevelIsWithinItsBounds) {
  for (const int level : {kMinCompressionLevel - 1, kMaxCompressionLevel + 1}) {
    expect_error(Code::kInternal, [&] { FrameText out(level); });
  }
}

}  // namespace
}  // namespace rl::testing
