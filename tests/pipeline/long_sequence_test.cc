// One sequence of 32,768 tokens and a model of the shape of Qwen2.5-0.5B: what the plan says, and
// with RL_LONG a whole training step on random weights, within 9 GiB.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "formats/open/open_weight_source.h"
#include "pipeline/update/trainer_session.h"
#include "plan_arenas.h"
#include "support/temp_dir.h"

namespace rl {
namespace {

constexpr int64_t kTokens = 32768;
constexpr uint64_t kBudget = uint64_t{9} << 30;

constexpr const char* kConfig = R"({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"],
  "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
  "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "hidden_act": "silu",
  "tie_word_embeddings": true, "use_sliding_window": false, "bos_token_id": 151643,
  "eos_token_id": 151645})";

ModelConfig qwen_shape() {
  ModelConfig c;
  c.family = Family::kQwen2;
  c.model_type = "qwen2";
  c.vocab = 151936;
  c.hidden = 896;
  c.layers = 24;
  c.heads = 14;
  c.kv_heads = 2;
  c.head_dim = 64;
  c.ffn = 4864;
  c.max_position = kTokens;
  c.rms_eps = 1e-6f;
  c.tied_head = c.qkv_bias = true;
  return c;
}

OptionSet options() {
  OptionSet o;
  for (const char* text :
       {"runtime.threads=2", "runtime.seed=7", "model.dtype=bf16", "engine.max_model_len=32768",
        "algo.objective=sft", "trainer.dynamic_batching=false", "trainer.micro_batch_size=1",
        "trainer.logprob_max_tokens_per_device=32768", "trainer.logprob_chunk_tokens=64",
        "trainer.recompute_granularity=full", "trainer.recompute_method=uniform",
        "trainer.recompute_num_layers=2", "trainer.mlp_chunk_tokens=2048",
        "trainer.grad_dtype=bf16", "optimizer.state_dtype=int8"}) {
    o.set_assignment(text);
  }
  o.set_u64("runtime.memory_budget_bytes", kBudget);
  return o;
}

TEST(LongSequence, IsPlannedWithinNineGib) {
  const MemoryPlan plan = plan_memory(options(), qwen_shape(), PlanUse::kTrain);
  EXPECT_LE(plan.total_bytes, kBudget);
  EXPECT_EQ(plan.host_workspace_bytes(), 0u);
  OptionSet whole = options();
  whole.set_i64("trainer.mlp_chunk_tokens", 0);
  EXPECT_THROW(plan_memory(whole, qwen_shape(), PlanUse::kTrain), Error);
}

// Norms are 1, everything else is random; tensor by tensor, for want of memory.
void write_weights(const std::string& path, const std::vector<TensorInfo>& tensors) {
  std::string header = "{";
  uint64_t at = 0;
  for (const TensorInfo& t : tensors) {
    const uint64_t end = at + static_cast<uint64_t>(t.rows() * t.cols()) * sizeof(float);
    header += str(at == 0 ? "" : ",", "\"", t.name,
                  "\":{\"dtype\":\"F32\",\"shape\":", shape_text(t.shape), ",\"data_offsets\":[",
                  at, ",", end, "]}");
    at = end;
  }
  header += "}";
  const uint64_t header_bytes = header.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  out << header;
  std::minstd_rand rng(1);
  for (const TensorInfo& t : tensors) {
    std::vector<float> row(static_cast<size_t>(t.cols()), 1.0f);
    for (int64_t r = 0; r < t.rows(); ++r) {
      if (t.shape.size() > 1 || t.name.ends_with("bias")) {
        for (float& v : row) v = 0.04f * (static_cast<float>(rng()) / 2147483648.0f - 0.5f);
      }
      out.write(reinterpret_cast<const char*>(row.data()),
                static_cast<std::streamsize>(row.size() * sizeof(float)));
    }
  }
}

std::string write_model(const TempDir& dir) {
  const std::string path = dir.file("qwen");
  std::filesystem::create_directory(path);
  std::ofstream(path + "/config.json") << kConfig;
  write_weights(path + "/model.safetensors", expected_tensors(qwen_shape()));
  return path;
}

SamplePtr long_sample() {
  auto s = std::make_shared<Sample>();
  s->id = 1;
  std::minstd_rand rng(2);
  for (int64_t i = 0; i < kTokens; ++i)
    s->ids.push_back(static_cast<int32_t>(rng() % static_cast<unsigned>(qwen_shape().vocab)));
  s->prompt_tokens = 1;
  s->versions.assign(s->ids.size() - 1, kUnknownVersion);
  s->loss_mask.assign(s->ids.size() - 1, 1);
  s->scored = true;
  return s;
}

uint64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}

// The loss of random weights is near that of guessing.
TEST(LongSequence, TrainsAStepWithinNineGib) {
  if (std::getenv("RL_LONG") == nullptr) GTEST_SKIP() << "RL_LONG is not set";
  const TempDir dir;
  OptionSet o = options();
  o.set_string("model.path", write_model(dir));
  const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kTrain);
  const auto runtime = std::make_shared<Runtime>(o);
  const auto model = LoadedModel::open(runtime, o, PlanUse::kTrain);
  const auto trainer = std::make_shared<TrainerSession>(model, o);
  EXPECT_EQ(testing::live(*runtime), testing::planned(plan));
  const uint64_t before = model->model().weight_digest();
  const MetricList metrics = trainer->step({{long_sample()}});
  EXPECT_NEAR(metrics.get("training/loss").value(), std::log(151936.0), 1);
  EXPECT_GT(metrics.get("training/grad_norm").value(), 0);
  EXPECT_NE(model->model().weight_digest(), before);
  RecordProperty("planned_bytes", std::to_string(plan.total_bytes));
  RecordProperty("peak_bytes", std::to_string(peak_bytes()));
  EXPECT_LE(peak_bytes(), kBudget);
}

}  // namespace
}  // namespace rl
