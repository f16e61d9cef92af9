// Forwards everything but the head, by name.
#include "formats/open/scalar_head_source.h"

#include <algorithm>

#include "core/error.h"

namespace rl {
namespace {

class ScalarHeadSource final : public WeightSource {
 public:
  explicit ScalarHeadSource(std::unique_ptr<WeightSource> inner)
      : inner_(std::move(inner)),
        config_(with_scalar_head(inner_->config())),
        tensors_(expected_tensors(config_)) {
    for (TensorInfo& t : tensors_) {
      const int64_t index = inner_->find(t.name);
      if (index >= 0) t.stored_type = inner_->tensors()[static_cast<size_t>(index)].stored_type;
    }
  }

  const ModelConfig& config() const override { return config_; }
  bool has_scalar_head() const override { return false; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  int64_t find(std::string_view name) const override {
    const auto it = std::ranges::find(tensors_, name, &TensorInfo::name);
    return it == tensors_.end() ? -1 : it - tensors_.begin();
  }
  void read(int64_t index, int64_t first_row, std::span<float> out) const override {
    if (index < 0 || index >= static_cast<int64_t>(tensors_.size())) {
      throw Error(Code::kInvalidArgument, str("tensor index ", index, " of ", tensors_.size()));
    }
    const TensorInfo& t = tensors_[static_cast<size_t>(index)];
    if (t.name != kScalarHeadName) return inner_->read(inner_->find(t.name), first_row, out);
    if (first_row != 0 || static_cast<int64_t>(out.size()) != t.cols()) {
      throw Error(Code::kInvalidArgument,
                  str("tensor ", t.name, " has one row of ", t.cols(), " elements, asked for ",
                      out.size(), " from row ", first_row))
          .with_key(t.name);
    }
    std::ranges::fill(out, 0.0f);
  }
  void read_block(int64_t index, const TensorBlock& block, std::span<float> out) const override {
    const bool inside = index >= 0 && index < static_cast<int64_t>(tensors_.size());
    const TensorInfo* const t = inside ? &tensors_[static_cast<size_t>(index)] : nullptr;
    if (t == nullptr || t->name == kScalarHeadName) return read(index, block.first_row, out);
    inner_->read_block(inner_->find(t->name), block, out);
  }
  std::optional<TokenizerParts> tokenizer_parts() const override {
    return inner_->tokenizer_parts();
  }
  std::string tokenizer_json_path() const override { return inner_->tokenizer_json_path(); }
  std::vector<ChatTemplateText> chat_templates() const override { return inner_->chat_templates(); }
  const std::string& path() const override { return inner_->path(); }

 private:
  std::unique_ptr<WeightSource> inner_;
  ModelConfig config_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace

std::unique_ptr<WeightSource> give_scalar_head(std::unique_ptr<WeightSource> language_model) {
  return std::make_unique<ScalarHeadSource>(std::move(language_model));
}

}  // namespace rl
