// Files of documents: a file header, one checksummed zstd frame per document, and a closing record
// with the number of frames and a digest of everything before it. docs/buffer_format.md has the
// byte layout. Invariant: every length is checked against the file and the limits before memory is
// allocated for it, and a file truncated anywhere is Error(kDataLoss).
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
  // Writes the closing record; nothing can be appended afterwards. The caller makes it durable.
  void close();

 private:
  struct Compressor;
  void write(std::span<const std::byte> data);

  OutputFile& out_;
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

class FrameReader {
 public:
  // Reads the file header: kDataLoss if this is no such file, kIncompatible if it has another
  // version. file must outlive the reader.
  explicit FrameReader(const InputFile& file);
  ~FrameReader();
  FrameReader(const FrameReader&) = delete;

  // Frames in order; nullopt after the last one, if the closing record is present, nothing follows
  // it, and its count and digest match what was read. Otherwise Error(kDataLoss) naming the offset.
  std::optional<Frame> next();
  uint64_t num_frames() const { return num_frames_; }  // so far

 private:
  struct Decompressor;
  FrameRecord read_record();
  void read_payload(const FrameRecord& record, uint64_t offset);
  void check_closing(const FrameRecord& record, uint64_t offset, uint64_t digest) const;
  void read_digested(std::span<std::byte> out, const char* what);
  [[noreturn]] void fail(uint64_t offset, const std::string& what) const;

  const InputFile& file_;
  std::unique_ptr<Decompressor> decompressor_;
  std::vector<std::byte> stored_, document_;
  Digest64 digest_;
  uint64_t at_ = 0, num_frames_ = 0;
  bool closed_ = false;
};

}  // namespace rl
