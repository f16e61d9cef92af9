// The reader and the writer of buffer files, on memory.
#include "buffer/batch_bytes.h"

#include <memory>
#include <utility>

#include "buffer/buffer_file.h"
#include "buffer/byte_files.h"

namespace rl {
namespace {

constexpr int kCompressionLevel = kMinCompressionLevel;  // bytes for another process live briefly

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
