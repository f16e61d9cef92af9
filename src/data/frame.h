// Files of documents: a file header, one checksummed zstd frame per document, and a closing record
// with the number of frames and a digest of everything before it. docs/buffer_format.md has the
// byte layout. Invariant: every length is checked against the file and the limits before memory is
// allocated for it, and a file truncated anywhere is Error(kDataLoss), unless its reader expects
// that.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fs.h"
#include "core/hash.h"

namespace rl {

// Size of one document after decompression. FlatBuffers end at 2 GiB.
inline constexpr uint64_t kMaxDocumentBytes = uint64_t{1} << 30;
inline constexpr int kMinCompressionLevel = 1, kMaxCompressionLevel = 19;

class FrameWriter {
 public:
  // Writes the file header. out must be empty and outlive the writer; level is a zstd level within
  // the bounds above.
  FrameWriter(OutputFile& out, int level);
  ~FrameWriter();
  FrameWriter(const FrameWriter&) = delete;

  // kind has four characters. kResourceExhausted if the document exceeds kMaxDocumentBytes.
  void append(std::string_view kind, std::span<const std::byte> document);
  // What follows goes there: the same file, opened again to append to it. Outlives the writer.
  void go_on(OutputFile& out) { out_ = &out; }
  // Writes the closing record; nothing can be appended afterwards. The caller makes it durable.
  void close();

 private:
  struct Compressor;
  void write(std::span<const std::byte> data);

  OutputFile* out_;
  std::unique_ptr<Compressor> compressor_;
  Digest64 digest_;
  uint64_t num_frames_ = 0;
};

struct FrameRecord;  // as stored in the file

// One document of a file.
struct Frame {
  std::array<char, 4> kind{};
  uint64_t offset = 0;                  // of its record in the file
  std::span<const std::byte> document;  // aligned for any scalar; valid until the next call

  std::string_view kind_text() const { return {kind.data(), kind.size()}; }
};

// How a file must end: with its closing record, or also where its writer was killed.
enum class FrameEnd : uint8_t { kClosed, kMayBeTorn };

class FrameReader {
 public:
  // Reads the file header: kDataLoss if this is no such file, kIncompatible if it has another
  // version. file must outlive the reader.
  explicit FrameReader(const InputFile& file, FrameEnd end = FrameEnd::kClosed);
  ~FrameReader();
  FrameReader(const FrameReader&) = delete;

  // Frames in order; nullopt after the last one, if the closing record is present, nothing follows
  // it, and its count and digest match what was read. Otherwise Error(kDataLoss) naming the offset.
  // With kMayBeTorn nullopt also where the file ends without a closing record; a frame that it ends
  // in is left out.
  std::optional<Frame> next();
  // After nullopt: there was no closing record.
  bool torn() const { return torn_; }
  // Bytes of the file that belong to no frame read: 0, or those of a frame that is not whole.
  uint64_t bytes_left() const { return file_.size() - at_; }
  uint64_t num_frames() const { return num_frames_; }  // so far

 private:
  struct Decompressor;
  bool is_whole() const;
  FrameRecord read_record();
  void read_payload(const FrameRecord& record, uint64_t offset);
  void check_closing(const FrameRecord& record, uint64_t offset, uint64_t digest) const;
  void read_digested(std::span<std::byte> out, const char* what);
  [[noreturn]] void fail(uint64_t offset, const std::string& what) const;

  const InputFile& file_;
  const FrameEnd end_;
  std::unique_ptr<Decompressor> decompressor_;
  std::vector<std::byte> stored_, document_;
  Digest64 digest_;
  uint64_t at_ = 0, num_frames_ = 0;
  bool closed_ = false, torn_ = false;
};

}  // namespace rl
