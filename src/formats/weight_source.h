// A checkpoint opened for reading: a Hugging Face directory or a .gguf file behind one interface.
// Invariant: a WeightSource exists only when its whole header was checked against the real file
// size and against the tensors its configuration implies; only the header is in memory, and rows
// are read on demand with pread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fs.h"
#include "formats/model_config.h"
#include "text/tokenizer_parts.h"

namespace rl {

class WeightSource {
 public:
  virtual ~WeightSource();
  virtual const ModelConfig& config() const = 0;
  // Whether the file itself holds a scalar head.
  virtual bool has_scalar_head() const { return config().scalar_head; }
  // Exactly expected_tensors(config()), in that order, with stored_type filled in. A tied head is
  // not listed.
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  virtual int64_t find(std::string_view hf_name) const = 0;  // index into tensors(), -1 when absent
  // Rows [first_row, first_row + out.size() / cols) of tensor index as fp32, in Hugging Face layout
  // and row order (the q/k row order of llama GGUF files is undone). out.size() is a multiple of
  // cols; a vector is one row. Thread-safe.
  virtual void read(int64_t index, int64_t first_row, std::span<float> out) const = 0;
  // The tokenizer stored in the file itself (GGUF); nullopt for a directory.
  virtual std::optional<TokenizerParts> tokenizer_parts() const = 0;
  virtual std::string tokenizer_json_path() const = 0;               // empty when there is none
  virtual std::vector<ChatTemplateText> chat_templates() const = 0;  // each name once
  virtual const std::string& path() const = 0;
};

enum class ModelHead : uint8_t { kLogits, kScalar };

// path is a Hugging Face directory (config.json and safetensors files) or a .gguf file. Errors name
// file, byte offset or JSON pointer, tensor, limit and value seen. A language model opened with a
// scalar head lists score.weight, all zero, in place of its own head; a file with a scalar head is
// Error(kUnsupported) where logits are asked for.
std::unique_ptr<WeightSource> open_weight_source(FileSystem& fs, const std::string& path,
                                                 ModelHead head = ModelHead::kLogits);

}  // namespace rl
