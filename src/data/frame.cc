// Records are structs copied to and from bytes; byte order is little-endian, like the machine's
// (core/hash.h).
#include "data/frame.h"

#include <zstd.h>

#include <cstring>

#include "core/error.h"

namespace rl {
namespace {

constexpr uint32_t kVersion = 1;
constexpr std::string_view kMagic = "RLFRAMES", kClosingKind = "DONE";
// Offset of the frame header descriptor, right after zstd's magic number.
constexpr size_t kDescriptorAt = 4;
constexpr std::byte kChecksumFlag{4};

// zstd itself also accepts skippable frames, whose contents are not checked.
bool is_checksummed_frame(std::span<const std::byte> stored) {
  uint32_t magic = 0;
  if (stored.size() <= kDescriptorAt) return false;
  std::memcpy(&magic, stored.data(), sizeof magic);
  return magic == ZSTD_MAGICNUMBER && (stored[kDescriptorAt] & kChecksumFlag) != std::byte{0};
}

struct FileHeader {
  std::array<char, 8> magic{};
  uint32_t version = kVersion;
  uint32_t reserved = 0;
};
static_assert(sizeof(FileHeader) == 16);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// zstd failed while writing: its input is ours, so it can only be out of memory.
size_t checked(size_t result, const char* operation) {
  if (ZSTD_isError(result) == 0) return result;
  throw Error(Code::kOutOfMemory, str("zstd cannot ", operation, ": ", ZSTD_getErrorName(result)));
}

}  // namespace

// Precedes every frame, and ends the file. For a frame, first and second are the bytes stored and
// the bytes of the document; for the closing record, the number of frames and the digest of the
// file before it.
struct FrameRecord {
  std::array<char, 4> kind{};
  uint32_t check = 0;  // low half of the XXH64 of the record with 0 here
  uint64_t first = 0, second = 0;

  static FrameRecord make(std::string_view kind, uint64_t first, uint64_t second) {
    FrameRecord r;
    RL_CHECK(kind.size() == r.kind.size());
    kind.copy(r.kind.data(), r.kind.size());
    r.first = first;
    r.second = second;
    r.check = r.expected_check();
    return r;
  }
  uint32_t expected_check() const {
    FrameRecord plain = *this;
    plain.check = 0;
    return static_cast<uint32_t>(digest64(bytes_of(plain)));
  }
  bool closes() const { return std::string_view(kind.data(), kind.size()) == kClosingKind; }
};

struct FrameWriter::Compressor {
  Compressor() : context(ZSTD_createCCtx()) {
    if (context == nullptr) throw Error(Code::kOutOfMemory, "no memory for a zstd compressor");
  }
  ~Compressor() { ZSTD_freeCCtx(context); }
  ZSTD_CCtx* context;
  std::vector<std::byte> out;
};

FrameWriter::FrameWriter(OutputFile& out, int level)
    : out_(&out), compressor_(std::make_unique<Compressor>()) {
  RL_CHECK(level >= kMinCompressionLevel && level <= kMaxCompressionLevel);
  checked(ZSTD_CCtx_setParameter(compressor_->context, ZSTD_c_compressionLevel, level), "set up");
  checked(ZSTD_CCtx_setParameter(compressor_->context, ZSTD_c_checksumFlag, 1), "set up");
  FileHeader header;
  kMagic.copy(header.magic.data(), header.magic.size());
  write(bytes_of(header));
}

FrameWriter::~FrameWriter() = default;

void FrameWriter::write(std::span<const std::byte> data) {
  out_->append(data);
  digest_.update(data);
}

void FrameWriter::append(std::string_view kind, std::span<const std::byte> document) {
  RL_CHECK(kind != kClosingKind);
  if (document.size() > kMaxDocumentBytes) {
    throw Error(Code::kResourceExhausted, str("a document of ", document.size(),
                                              " bytes exceeds the limit of ", kMaxDocumentBytes));
  }
  std::vector<std::byte>& out = compressor_->out;
  out.resize(ZSTD_compressBound(document.size()));
  const size_t stored = checked(ZSTD_compress2(compressor_->context, out.data(), out.size(),
                                               document.data(), document.size()),
                                "compress");
  write(bytes_of(FrameRecord::make(kind, stored, document.size())));
  write(std::span(out).first(stored));
  ++num_frames_;
}

void FrameWriter::close() {
  write(bytes_of(FrameRecord::make(kClosingKind, num_frames_, digest_.value())));
}

struct FrameReader::Decompressor {
  Decompressor() : context(ZSTD_createDCtx()) {
    if (context == nullptr) throw Error(Code::kOutOfMemory, "no memory for a zstd decompressor");
  }
  ~Decompressor() { ZSTD_freeDCtx(context); }
  ZSTD_DCtx* context;
};

FrameReader::FrameReader(const InputFile& file, FrameEnd end)
    : file_(file), end_(end), decompressor_(std::make_unique<Decompressor>()) {
  FileHeader header;
  read_digested(writable_bytes_of(header), "the file header");
  if (std::string_view(header.magic.data(), header.magic.size()) != kMagic) {
    fail(0, str("does not begin with ", kMagic));
  }
  if (header.version != kVersion) {
    throw Error(Code::kIncompatible, str(file_.path(), " has format version ", header.version,
                                         "; this library reads ", kVersion))
        .with_location(str(file_.path(), " offset 8"));
  }
  if (header.reserved != 0) {
    fail(12, str("the reserved field is ", header.reserved, ", expected 0"));
  }
}

FrameReader::~FrameReader() = default;

void FrameReader::fail(uint64_t offset, const std::string& what) const {
  const std::string place = str(file_.path(), " offset ", offset);
  throw Error(Code::kDataLoss, str(place, ": ", what)).with_location(place);
}

void FrameReader::read_digested(std::span<std::byte> out, const char* what) {
  const uint64_t rest = file_.size() - at_;
  if (rest < out.size()) {
    fail(at_, str("the file is truncated: ", rest, " bytes are left, but ", what, " takes ",
                  out.size(), "; frames before it: ", num_frames_));
  }
  file_.read_at(at_, out);
  digest_.update(out);
  at_ += out.size();
}

// Whether the file goes on to the end of the next frame or closing record. One that is damaged is
// whole: reading it says how.
bool FrameReader::is_whole() const {
  const uint64_t rest = file_.size() - at_;
  FrameRecord record;
  if (rest < sizeof record) return false;
  file_.read_at(at_, writable_bytes_of(record));
  const bool damaged = record.check != record.expected_check();
  return damaged || record.closes() || record.first <= rest - sizeof record;
}

FrameRecord FrameReader::read_record() {
  const uint64_t offset = at_;
  FrameRecord record;
  static_assert(sizeof record == 24);
  read_digested(writable_bytes_of(record), "a frame's or the closing record");
  if (record.check != record.expected_check()) {
    fail(offset, "the record does not match its checksum");
  }
  return record;
}

void FrameReader::read_payload(const FrameRecord& record, uint64_t offset) {
  const uint64_t stored = record.first, length = record.second;
  if (length > kMaxDocumentBytes) {
    fail(offset, str("a document of ", length, " bytes exceeds the limit of ", kMaxDocumentBytes));
  }
  if (stored > ZSTD_compressBound(length)) {
    fail(offset, str(stored, " stored bytes are too many for a document of ", length));
  }
  if (stored > file_.size() - at_) {
    fail(offset,
         str("the file is truncated: ", file_.size() - at_, " bytes are left, but the frame ",
             "takes ", stored, "; frames before it: ", num_frames_));
  }
  stored_.resize(stored);
  read_digested(stored_, "a frame");
  if (!is_checksummed_frame(stored_) ||
      ZSTD_getFrameContentSize(stored_.data(), stored) != length ||
      ZSTD_findFrameCompressedSize(stored_.data(), stored) != stored) {
    fail(offset, str("the ", stored, " stored bytes are not one zstd frame with a checksum and ",
                     "content of ", length, " bytes"));
  }
  document_.resize(length);
  const size_t done =
      ZSTD_decompressDCtx(decompressor_->context, document_.data(), length, stored_.data(), stored);
  if (ZSTD_isError(done) != 0) fail(offset, str("zstd: ", ZSTD_getErrorName(done)));
  if (done != length) fail(offset, str("the frame holds ", done, " bytes, not ", length));
}

void FrameReader::check_closing(const FrameRecord& record, uint64_t offset, uint64_t digest) const {
  if (record.first != num_frames_) {
    fail(offset,
         str("the closing record counts ", record.first, " frames, but there are ", num_frames_));
  }
  if (record.second != digest) {
    fail(offset, str("the file has digest ", hex64(digest), ", but the closing record says ",
                     hex64(record.second)));
  }
  if (at_ != file_.size()) {
    fail(at_, str(file_.size() - at_, " bytes follow the closing record"));
  }
}

std::optional<Frame> FrameReader::next() {
  if (closed_) return std::nullopt;
  if (end_ == FrameEnd::kMayBeTorn && !is_whole()) {
    closed_ = torn_ = true;
    return std::nullopt;
  }
  const uint64_t offset = at_, digest = digest_.value();
  const FrameRecord record = read_record();
  if (record.closes()) {
    check_closing(record, offset, digest);
    closed_ = true;
    return std::nullopt;
  }
  read_payload(record, offset);
  ++num_frames_;
  return Frame{record.kind, offset, document_};
}

}  // namespace rl
