// The reader and the writer of buffer files, on memory.
#include "buffer/batch_bytes.h"

#include <cstring>
#include <memory>
#include <utility>

#include "buffer/buffer_file.h"
#include "core/error.h"

namespace rl {
namespace {

constexpr int kCompressionLevel = kMinCompressionLevel;  // bytes for another process live briefly

class MemoryInput final : public InputFile {
 public:
  MemoryInput(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(bytes), name_(name) {}

  uint64_t size() const override { return bytes_.size(); }
  const std::string& path() const override { return name_; }
  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      throw Error(Code::kDataLoss, str(name_, " offset ", offset, ": ", out.size(),
                                       " bytes are wanted, but there are ", bytes_.size()))
          .with_location(str(name_, " offset ", offset));
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }

 private:
  const std::span<const std::byte> bytes_;
  const std::string name_;
};

class MemoryOutput final : public OutputFile {
 public:
  void append(std::span<const std::byte> data) override {
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  void sync() override {}
  void close() override {}

  std::string bytes;
};

// The first samples that share a document.
size_t document_length(std::span<const SamplePtr> samples) {
  size_t count = 1;
  while (count < samples.size() && count < kMaxGroupSamples &&
         samples[count]->ordinal == samples[0]->ordinal &&
         samples[count]->slot > samples[count - 1]->slot) {
    ++count;
  }
  return count;
}

}  // namespace

std::string encode_samples(std::span<const SamplePtr> samples) {
  MemoryOutput out;
  FrameWriter frames(out, kCompressionLevel);
  frames.append(kBufferInfoKind, encode_buffer_info({}));
  while (!samples.empty()) {
    const auto document = samples.first(document_length(samples));
    frames.append(kGroupKind,
                  encode_group({document[0]->ordinal, {document.begin(), document.end()}}));
    samples = samples.subspan(document.size());
  }
  frames.close();
  return std::move(out.bytes);
}

std::vector<SamplePtr> decode_samples(std::span<const std::byte> bytes, std::string_view name) {
  BufferFileReader reader(std::make_unique<MemoryInput>(bytes, name));
  std::vector<SamplePtr> samples;
  while (std::optional<Group> group = reader.next()) {
    for (SamplePtr& s : group->samples) samples.push_back(std::move(s));
  }
  return samples;
}

}  // namespace rl
