// Layouts of ranks against one rank: forward, backward, optimizer steps, decode, publication, and
// checkpoints that another layout resumes. To add a layout, add a line to kLayouts.
#include <cctype>
#include <cstring>

#include "layout_run.h"
#include "support/compare_values.h"
#include "train/checkpoint/checkpoint.h"

namespace rl::testing {
namespace {

struct Row {
  const char* layout;
  double logprob_bound = 0;  // between those of an engine and of the training forward
  // Relative, between the weights of one rank and those whose gradients have other sums: moments of
  // the first steps make signs of gradients near 0.
  double weights_bound = 1e-3;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.layout; }

constexpr double kRing = 1e-5;  // in fp32
constexpr double kBf16 = 1e-2;  // of gradients that are rounded at random

constexpr Row kLayouts[] = {
    {"data=2"},
    {"data=3"},
    {"data=4"},
    {"data=8"},
    {"data=2 zero_stage=1"},
    {"data=3 zero_stage=2"},
    {"data=4 zero_stage=1"},
    {"data=8 zero_stage=2"},
    {"data=2 zero_stage=3"},
    {"data=4 zero_stage=3"},
    {"data=3 zero_stage=1 overlap_grad_reduce=true overlap_param_gather=true"},
    {"data=3 zero_stage=3 overlap_grad_reduce=true overlap_param_gather=true"},
    {"tensor=2"},
    {"tensor=4"},
    {"tensor=8"},
    {"tensor=2 reduction_parts=4"},
    {"tensor=2 reduction_parts=8"},
    {"tensor=2 data=2"},
    {"tensor=2 data=4"},
    {"tensor=4 data=2"},
    {"tensor=2 data=2 zero_stage=1"},
    {"tensor=2 data=2 zero_stage=2"},
    {"tensor=2 data=3 zero_stage=2"},
    {"tensor=2 data=4 zero_stage=2"},
    {"tensor=2 data=2 zero_stage=3"},
    {"tensor=4 data=2 zero_stage=1"},
    {"tensor=2 reduction_parts=4 data=2 zero_stage=2"},
    {"reduction_parts=4 data=2 zero_stage=2"},
    {"reduction_parts=4 data=2 zero_stage=3"},
    {"tensor=2 sequence_parallel=true"},
    {"tensor=4 sequence_parallel=true data=2 zero_stage=2"},
    {"tensor=2 reduction_parts=4 sequence_parallel=true"},
    {"pipeline=2"},
    {"pipeline=4"},
    {"pipeline=3 pipeline_last_layers=2"},
    {"pipeline=2 data=2"},
    {"pipeline=2 data=4"},
    {"pipeline=4 data=2"},
    {"pipeline=2 reduction_parts=2"},
    {"pipeline=2 tensor=2"},
    {"pipeline=2 tensor=4"},
    {"pipeline=4 tensor=2"},
    {"pipeline=3 pipeline_first_layers=2 tensor=2"},
    {"pipeline=2 tensor=2 reduction_parts=4"},
    {"pipeline=2 tensor=2 data=2"},
    {"pipeline=2 data=2 zero_stage=1"},
    {"pipeline=2 data=3 zero_stage=2"},
    {"pipeline=4 data=2 zero_stage=2"},
    {"pipeline=2 tensor=2 data=2 zero_stage=1"},
    {"pipeline=2 tensor=2 data=2 zero_stage=2"},
    {"pipeline=2 data=2 zero_stage=3"},
    {"pipeline=2 tensor=2 data=2 zero_stage=3"},
    {"pipeline=2 tensor=2 reduction_parts=4 data=2 zero_stage=2"},
    {"context=2"},
    {"context=4"},
    {"context=2 context_zigzag=true"},
    {"context=2 context_kind=ulysses"},
    {"context=4 context_kind=ulysses"},
    {"context=2 data=2"},
    {"context=2 zero_stage=2"},
    {"context=2 context_kind=ulysses data=2 zero_stage=1"},
    {"context=4 context_zigzag=true data=2 zero_stage=2"},
    {"context=2 reduction_parts=2"},
    {"context=2 tensor=2"},
    {"context=4 tensor=2"},
    {"context=2 tensor=2 context_zigzag=true data=2"},
    {"context=2 tensor=2 context_kind=ulysses"},
    {"context=2 tensor=2 reduction_parts=4 context_kind=ulysses zero_stage=2"},
    {"context=2 tensor=2 data=2 zero_stage=2"},
    {"context=2 zero_stage=3"},
    {"context=2 tensor=2 data=2 zero_stage=3"},
    {"context=2 tensor=2 reduction_parts=4 zero_stage=2 overlap_grad_reduce=true"},
    {"context=2 pipeline=2"},
    {"context=2 pipeline=4"},
    {"context=2 pipeline=2 context_kind=ulysses"},
    {"context=2 pipeline=2 data=2 context_zigzag=true zero_stage=2"},
    {"context=2 pipeline=2 tensor=2"},
    {"context=2 pipeline=2 tensor=2 context_kind=ulysses zero_stage=1"},
    {"context=2 context_kind=ring", kRing},
    {"context=4 context_kind=ring context_zigzag=true", kRing},
    {"context=2 context_kind=ring data=2 zero_stage=2", kRing},
    {"context=2 context_kind=ring tensor=2", kRing},
    {"context=2 context_kind=ring pipeline=2 tensor=2", kRing},
    // Each rank generates with all parts and stages.
    {"engines=whole tensor=2"},
    {"engines=whole tensor=2 reduction_parts=4"},
    {"engines=whole tensor=2 data=2 zero_stage=2"},
    {"engines=whole tensor=4 data=2"},
    {"engines=whole tensor=2 sequence_parallel=true"},
    {"engines=whole pipeline=4"},
    {"engines=whole pipeline=2 tensor=2 data=2 zero_stage=1"},
    {"engines=whole context=2 pipeline=2 tensor=2"},
    {"engines=whole context=2 context_kind=ring tensor=2", kRing},
    {"engines=whole model=smollm2 pipeline=2 tensor=2 data=2"},
    {"engines=whole model=three tensor=3 data=2"},
    // The head is the embedding, of which the last stage has a copy.
    {"model=smollm2 tensor=2 data=2 zero_stage=2"},
    {"model=smollm2 tensor=2 sequence_parallel=true"},
    {"model=smollm2 pipeline=2 tensor=2"},
    {"model=smollm2 pipeline=2 data=2 zero_stage=1"},
    {"model=smollm2 pipeline=2 data=3 zero_stage=3"},
    {"model=smollm2 pipeline=2 tensor=2 data=2 zero_stage=2"},
    {"model=smollm2 context=2 pipeline=2 tensor=2"},
    {"model=uneven tensor=2"},
    {"model=uneven tensor=4 data=2 zero_stage=2"},
    {"model=uneven tensor=2 reduction_parts=4 sequence_parallel=true"},
    {"model=uneven pipeline=2 tensor=2"},
    {"model=uneven context=2 tensor=2"},
    {"model.freeze=model.layers.1.*,model.embed_tokens.* data=2 zero_stage=2"},
    {"model.freeze=model.layers.1.*,model.embed_tokens.* tensor=2 data=2 zero_stage=1"},
    {"model.freeze=model.layers.1.*,model.embed_tokens.* tensor=4 sequence_parallel=true"},
    {"model.freeze=model.layers.1.*,model.embed_tokens.* context=2 tensor=2 zero_stage=2"},
    {"model.freeze=model.layers.1.*,lm_head.* model=uneven tensor=2 reduction_parts=4"},
    {"model.train_only=model.layers.2.* context=2 context_kind=ulysses"},
    {"algo.advantage=gae data=2"},
    {"algo.advantage=gae data=3 zero_stage=2"},
    {"algo.advantage=gae tensor=2"},
    {"algo.advantage=gae tensor=2 sequence_parallel=true data=2 zero_stage=2"},
    {"algo.advantage=gae tensor=2 reduction_parts=4 data=2 zero_stage=1"},
    {"algo.advantage=gae context=2"},
    {"algo.advantage=gae context=2 tensor=2 zero_stage=2"},
    {"algo.advantage=gae model.freeze=model.layers.1.* context=2 data=2"},
    // Rounded with random numbers of their place, which follow from the parts that a rank has.
    {"trainer.grad_dtype=bf16 data=2", 0, kBf16},
    {"trainer.grad_dtype=bf16 data=4 zero_stage=2", 0, kBf16},
    {"trainer.grad_dtype=bf16 context=2 data=2 zero_stage=1", 0, kBf16},
    {"trainer.grad_dtype=bf16 tensor=2 data=2 zero_stage=2", 0, kBf16},
    {"trainer.grad_dtype=bf16 algo.advantage=gae data=2 zero_stage=2", 0, kBf16},
};
static_assert(std::size(kLayouts) >= 40);

constexpr int kSteps = 3;

// The layout of fewest ranks whose bits it has: its samples are cut and its sums ordered alike.
Layout same_bits_as(const Layout& layout) {
  if (layout.get("trainer.grad_dtype", "fp32") != "fp32") return layout.without({"zero_stage"});
  return layout.without({"tensor", "pipeline", "pipeline_first_layers", "pipeline_last_layers",
                         "zero_stage", "sequence_parallel", "engines", "overlap_grad_reduce",
                         "overlap_param_gather"});
}

// One rank that computes the same log-probs, and gradients but for the order of their sums.
Layout one_rank_of(const Layout& layout) {
  return same_bits_as(layout).without(
      {"tensor", "data", "context", "context_kind", "context_zigzag"});
}

struct Outcome {
  std::vector<std::string> steps;  // samples and metrics
  Files saved;
  std::string path;     // of the checkpoint
  std::string resumed;  // a step that goes on from a checkpoint of one rank
};

class Layouts : public ::testing::TestWithParam<Row> {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    outcomes_ = new std::map<std::string, Outcome>;
  }
  static void TearDownTestSuite() {
    delete outcomes_;
    delete dir_;
  }

  static std::string new_directory() { return dir_->file(str("saved", ++num_directories_)); }

  // Of a layout that others are compared with, once.
  static const Outcome& outcome_of(const Layout& layout, double logprob_bound = 0) {
    const auto found = outcomes_->find(layout.text());
    if (found != outcomes_->end()) return found->second;
    return (*outcomes_)[layout.text()] = run(layout, logprob_bound);
  }

  static Outcome run(const Layout& layout, double logprob_bound) {
    Outcome out;
    const std::string saved = new_directory(), again = new_directory();
    const Layout one = one_rank_of(layout);
    const bool alone = layout.text() == one.text();
    const std::string other = alone ? checkpoint_path(saved, kSteps) : outcome_of(one).path;
    const std::string text = on_layout(*dir_, layout, [&](LayoutRank& rank) {
      rank.expect_plan_equals_ledger();
      std::string steps;
      for (int i = 0; i < kSteps; ++i) steps += rank.step(logprob_bound) + kEnd;
      rank.save(saved);
      rank.load(other);
      rank.save(again);
      steps += rank.step(logprob_bound) + kEnd;
      rank.expect_plan_equals_ledger();
      return steps;
    });
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, kEnd);) out.steps.push_back(part);
    out.resumed = out.steps.back();
    out.steps.pop_back();
    out.path = checkpoint_path(saved, kSteps);
    out.saved = files_of(out.path);
    expect_same_files(files_of(checkpoint_path(again, kSteps)),
                      alone ? out.saved : outcome_of(one).saved);
    return out;
  }

  // What one rank saves that has loaded a checkpoint.
  static Files saved_by_one(const Layout& layout, const std::string& path) {
    const std::string dir = new_directory();
    on_layout(*dir_, one_rank_of(layout), [&](LayoutRank& rank) {
      rank.load(path);
      rank.save(dir);
      return std::string();
    });
    return files_of(checkpoint_path(dir, kSteps));
  }

  static constexpr char kEnd = '\x1e';
  static inline TempDir* dir_;
  static inline int num_directories_ = 0;
  static inline std::map<std::string, Outcome>* outcomes_;
};

// Floats of a file of masters.
std::vector<float> masters_of(const Files& files) {
  const std::string& text = files.at("masters.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, text.data(), sizeof header);
  const size_t begin = sizeof header + static_cast<size_t>(header);
  std::vector<float> out((text.size() - begin) / sizeof(float));
  std::memcpy(out.data(), text.data() + begin, out.size() * sizeof(float));
  return out;
}

// The samples of a step, without its metrics.
std::string samples_of(const std::string& step) { return step.substr(0, step.find('{')); }

TEST_P(Layouts, TrainGenerateAndSaveAsOneRankDoes) {
  const Layout layout(GetParam().layout), one = one_rank_of(layout);
  const Outcome out = run(layout, GetParam().logprob_bound);
  const Outcome& same = outcome_of(same_bits_as(layout), GetParam().logprob_bound);
  EXPECT_EQ(out.steps, same.steps);
  EXPECT_EQ(out.resumed, same.resumed);
  expect_same_files(out.saved, same.saved);
  expect_same_files(saved_by_one(layout, out.path), out.saved);
  const Outcome& alone = outcome_of(one);
  EXPECT_EQ(samples_of(out.steps[0]), samples_of(alone.steps[0]));
  EXPECT_EQ(samples_of(out.resumed), samples_of(alone.resumed));
  EXPECT_LT(relative_l2(masters_of(out.saved), masters_of(alone.saved)), GetParam().weights_bound);
}

std::string test_name(const ::testing::TestParamInfo<Row>& info) {
  std::string out;
  for (const char c : std::string_view(info.param.layout)) out += std::isalnum(c) ? c : '_';
  return out;
}
INSTANTIATE_TEST_SUITE_P(Of, Layouts, ::testing::ValuesIn(kLayouts), test_name);

}  // namespace
}  // namespace rl::testing
