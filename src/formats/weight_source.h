// A checkpoint opened for reading: a Hugging Face directory or a .gguf file behind one interface.
// Invariant: a WeightSource exists only if its whole header passed the checks against the real file
// size and against the tensors its configuration implies. Only the header is in memory; rows are
// read on demand with pread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model_config.h"
#include "text/tokenizer_parts.h"

namespace rl {

// Some columns of some rows of a tensor.
struct TensorBlock {
  int64_t first_row = 0, rows = 0, first_column = 0, columns = 0;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const ModelConfig& config() const = 0;
  // Whether the file itself has a scalar head.
  virtual bool has_scalar_head() const { return config().scalar_head; }
  // Exactly expected_tensors(config()), in that order, with stored_type filled in. A tied head is
  // not listed.
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  virtual int64_t find(std::string_view hf_name) const = 0;  // index into tensors(), -1 if absent
  // Rows [first_row, first_row + out.size() / cols) of tensor index as fp32, in Hugging Face layout
  // and row order (the q/k row order of llama GGUF files is undone). out.size() is a multiple of
  // cols; a vector is one row. Thread-safe.
  virtual void read(int64_t index, int64_t first_row, std::span<float> out) const = 0;
  // The same for a block of a tensor; out is (rows, columns). Reads no more of the file than the
  // block if its element type allows that. Thread-safe.
  virtual void read_block(int64_t index, const TensorBlock& block, std::span<float> out) const;
  // The tokenizer stored in the file itself (GGUF); nullopt for a directory.
  virtual std::optional<TokenizerParts> tokenizer_parts() const = 0;
  virtual std::string tokenizer_json_path() const = 0;               // empty if there is none
  virtual std::vector<ChatTemplateText> chat_templates() const = 0;  // names are unique
  virtual const std::string& path() const = 0;
};

}  // namespace rl
