// What ranks that divide a model read from files, and the files that they write together.
#include <gtest/gtest.h>

#include <atomic>

#include "core/fs.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"
#include "tensor/tensor_rig.h"

namespace rl::testing {
namespace {

// Counts the bytes that are read from files.
class CountingFs final : public FaultFs {
 public:
  std::unique_ptr<InputFile> open(const std::string& path) override {
    return std::make_unique<Input>(*this, real_fs().open(path));
  }
  uint64_t bytes() const { return bytes_; }
  void reset() { bytes_ = 0; }

 private:
  class Input final : public InputFile {
   public:
    Input(CountingFs& fs, std::unique_ptr<InputFile> base) : fs_(fs), base_(std::move(base)) {}
    uint64_t size() const override { return base_->size(); }
    const std::string& path() const override { return base_->path(); }
    void read_at(uint64_t offset, std::span<std::byte> out) const override {
      fs_.bytes_ += out.size();
      base_->read_at(offset, out);
    }

   private:
    CountingFs& fs_;
    std::unique_ptr<InputFile> base_;
  };
  std::atomic<uint64_t> bytes_ = 0;
};

TEST(TensorFiles, ARankReadsItsRowsAndColumns) {
  for (const char* model : {"llama", "llama_bf16", "qwen3"}) {
    SCOPED_TRACE(model);
    CountingFs fs;
    const auto source = open_weight_source(fs, TinyModel::fixture(model));
    const uint64_t item = source->config().file_dtype == Dtype::kBf16 ? 2 : 4;
    run_local_ranks(2, [&](std::shared_ptr<Transport> transport) {
      comm::Group group(transport, {kLongNs});
      for (int rank = 0; rank < 2; ++rank) {
        group.barrier();
        if (group.rank() == rank) fs.reset();
        group.barrier();
        if (group.rank() != rank) continue;
        const ModelOptions options{
            .block_size = 16, .split = {2, rank, 1}, .tensor = TensorRanks(group)};
        const TinyModel tiny(*source, {make_thread_executor(1)}, Dtype::kF32, options);
        const auto own = static_cast<uint64_t>(tiny.model->layout().num_parameters());
        EXPECT_EQ(fs.bytes(), own * item);
        const int64_t whole = WeightLayout(source->config()).num_parameters();
        EXPECT_LT(own, static_cast<uint64_t>(whole));
      }
      group.barrier();
    });
  }
}

TEST(TensorFiles, AModelThatThePartsDoNotDivideIsRefusedByName) {
  ModelConfig c = uniform_config();
  c.heads = c.kv_heads = 6;
  c.ffn = 40;
  const auto refusal = [&](int64_t parts) {
    return expect_error(Code::kIncompatible, [&] { with_split(c, {parts, 0, parts}); });
  };
  EXPECT_TRUE(contains(refusal(3).message, "40 MLP units"));
  EXPECT_TRUE(contains(refusal(4).message, "6 attention heads"));
  c.kv_heads = 3;
  EXPECT_TRUE(contains(refusal(2).message, "3 KV heads"));
  EXPECT_EQ(refusal(2).key, "parallel.reduction_parts");
}

const CheckpointMeta kMeta{.step = 1, .config_digest = "c", .pipeline = "{}"};

std::string file_text(const std::string& path) {
  return read_text_file(real_fs(), path, uint64_t{1} << 26);
}

// A checkpoint after one step, and the weights after another one.
std::vector<float> save_and_go_on(const Division& d, const RigOptions& rig,
                                  const std::string& dir) {
  std::vector<float> out;
  on_ranks(d, rig, options_of(), [&](TrainRig& r, int rank) {
    random_step(r, 21);
    r.trainer->save(real_fs(), dir, kMeta, {});
    random_step(r, 22);
    const WholeTensors whole(r.model());
    if (rank == 0) out = all_weights(r.model(), whole);
  });
  return out;
}

TEST(TensorFiles, ACheckpointOfRanksIsThatOfOneAndAnySizeResumesIt) {
  const LayeredSource source(twelve_heads(true));
  const RigOptions rig{.source = &source};
  const TempDir dir;
  const std::vector<float> one = save_and_go_on({4, 1}, rig, dir.file("one"));
  for (const int64_t ranks : {2, 4}) {
    const std::string saved = dir.file(str(ranks));
    EXPECT_TRUE(same_bits(save_and_go_on({4, ranks}, rig, saved), one));
    for (const char* file : {"masters", "first_moments", "second_moments"}) {
      const std::string name = str("/step_000001/", file, ".safetensors");
      EXPECT_EQ(file_text(saved + name), file_text(dir.file("one") + name)) << file;
    }
  }
  for (const Division d : {Division{4, 1}, Division{4, 2}, Division{4, 4}}) {
    SCOPED_TRACE(d.ranks);
    const std::string from = dir.file(d.ranks == 1 ? "4" : "one") + "/step_000001";
    on_ranks(d, rig, options_of(), [&](TrainRig& r, int) {
      r.trainer->load(real_fs(), from, kMeta.config_digest);
      random_step(r, 22);
      EXPECT_TRUE(same_bits(all_weights(r.model(), WholeTensors(r.model())), one));
    });
  }
  on_ranks({2, 1}, rig, options_of(), [&](TrainRig& r, int) {
    expect_error(Code::kIncompatible, [&] {
      r.trainer->load(real_fs(), dir.file("one") + "/step_000001", kMeta.config_digest);
    });
  });
}

TEST(TensorFiles, RanksWriteOneHuggingFaceDirectory) {
  const std::string quantized = std::string(RL_FIXTURES) + "/gguf/tiny_llama_mixed.gguf";
  for (const std::string& model :
       {std::string("llama"), std::string("qwen2"), std::string("gemma3"), quantized}) {
    const TempDir dir;
    const RigOptions rig{.model = model};
    on_ranks({2, 2}, rig, options_of(),
             [&](TrainRig& r, int) { r.model().save(real_fs(), dir.file("two"), {}); });
    on_ranks({2, 1}, rig, options_of(),
             [&](TrainRig& r, int) { r.model().save(real_fs(), dir.file("parts"), {}); });
    on_ranks({1, 1}, rig, options_of(),
             [&](TrainRig& r, int) { r.model().save(real_fs(), dir.file("one"), {}); });
    const std::string want = file_text(dir.file("one/model.safetensors"));
    EXPECT_EQ(file_text(dir.file("two/model.safetensors")), want) << model;
    EXPECT_EQ(file_text(dir.file("parts/model.safetensors")), want) << model;
  }
}

}  // namespace
}  // namespace rl::testing
