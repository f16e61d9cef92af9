// Samples as documents (abi/schemas/samples.fbs, buffer.fbs). Invariant: encode and decode apply
// the same checks, so every written document can be read back, bit for bit. Decoding uses nothing
// of a document before FlatBuffers' verifier has passed it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/sample.h"

namespace rl {

// Identifiers of the documents, also the kinds of their frames.
inline constexpr std::string_view kGroupKind = "RLSG", kBufferInfoKind = "RLBI";
inline constexpr size_t kMaxGroupSamples = 65536;

// The weights that training on the samples starts from.
struct ModelIdentity {
  std::string family;
  std::string compute_dtype;
  int64_t vocab = 0, hidden = 0, layers = 0;
  uint64_t weight_version = 0;
  uint64_t weight_digest = 0;
  bool operator==(const ModelIdentity&) const = default;
};

// Header of a file of groups.
struct BufferInfo {
  uint64_t step = 0;  // training step, from 1, whose batch it is; 0: none
  int64_t group_size = 0;
  uint64_t options_identity = 0;
  std::string options;     // key=value lines, for people
  int64_t max_tokens = 0;  // of a micro-batch; 0: unknown
  std::optional<ModelIdentity> model;
  bool operator==(const BufferInfo&) const = default;
};

// kInvalidArgument naming sample and field, unless a document can hold the sample: at least one
// prompt token, ids of at least 0, per-token arrays of one entry per generated token (num_top for
// top_ids and top_logprobs; logprobs and logprobs_sampled may both be empty), finite numbers, masks
// of 0 and 1, known enums, times of at least 0, a data row of at least -1.
void require_storable(const Sample& sample);

// Applies the same checks to every sample; also refuses a group that is empty, or has a null
// sample, a sample of another ordinal or slots that do not ascend. kResourceExhausted if the
// document would exceed kMaxDocumentBytes.
std::vector<std::byte> encode_group(const Group& group);
// document is aligned to 8 bytes. Error(kDataLoss) for the same checks; its message begins with
// `place`, which is also its location.
Group decode_group(std::span<const std::byte> document, const std::string& place);

std::vector<std::byte> encode_buffer_info(const BufferInfo& info);
BufferInfo decode_buffer_info(std::span<const std::byte> document, const std::string& place);

}  // namespace rl
