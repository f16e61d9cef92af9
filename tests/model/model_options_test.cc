// What a Model refuses before it reserves anything.
#include <gtest/gtest.h>

#include "core/error.h"
#include "formats/open/open_weight_source.h"
#include "support/tiny_model.h"

namespace rl::testing {
namespace {

// A source whose configuration claims another size than its tensors have.
class Claiming final : public WeightSource {
 public:
  Claiming(int64_t ModelConfig::*size, int64_t claimed)
      : inner_(open_weight_source(real_fs(), TinyModel::fixture("llama"))),
        config_(inner_->config()) {
    config_.*size = claimed;
  }
  const ModelConfig& config() const override { return config_; }
  const std::vector<TensorInfo>& tensors() const override { return inner_->tensors(); }
  int64_t find(std::string_view name) const override { return inner_->find(name); }
  void read(int64_t index, int64_t first_row, std::span<float> out) const override {
    inner_->read(index, first_row, out);
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
};

TEST(ModelOptions, AnAbsurdContextIsRefusedUnlessBounded) {
  const auto executor = make_thread_executor(1);
  const auto compute = make_cpu_compute(*executor, Dtype::kF32);
  const Claiming source(&ModelConfig::max_position, int64_t{1} << 30);
  ModelOptions options;
  try {
    Model model(source, *compute, options);
    FAIL() << "a rope table of 2^30 positions was made";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::kResourceExhausted);
    EXPECT_EQ(e.key, "engine.max_model_len");
  }
  options.max_positions = 64;
  EXPECT_EQ(Model(source, *compute, options).max_positions(), 64);
}

TEST(ModelOptions, AHeadSizeAboveTheLargestIsRefusedByName) {
  const auto executor = make_thread_executor(1);
  const auto compute = make_cpu_compute(*executor, Dtype::kF32);
  try {
    Model model(Claiming(&ModelConfig::head_dim, kMaxHeadDim + 2), *compute, {});
    FAIL() << "attention has no room for such a head";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::kUnsupported);
    EXPECT_EQ(e.key, "head_dim");
    EXPECT_NE(std::string(e.what()).find("1026"), std::string::npos) << e.what();
  }
}

TEST(ModelOptions, BlockSizesThatAreNoPowerOfTwoAreRefused) {
  const auto executor = make_thread_executor(1);
  const auto compute = make_cpu_compute(*executor, Dtype::kF32);
  const auto source = open_weight_source(real_fs(), TinyModel::fixture("llama"));
  for (const int64_t block : {0, 8, 24, 256}) {
    ModelOptions options;
    options.block_size = block;
    EXPECT_THROW(Model(*source, *compute, options), Error) << block;
  }
}

}  // namespace
}  // namespace rl::testing
