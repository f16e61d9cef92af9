// Layouts of ranks on the emulated GPU, which they share, against one rank on it; and ranks that
// exchange values of GPUs by the emulation's stand-in of NCCL against those that exchange them
// through the memory of the host.
#include "comm/local_ranks.h"
#include "cuda_host/nccl_stand_in.h"
#include "cuda_models/emulated_gpu.h"
#include "layouts/layout_runs.h"

namespace rl::testing {
namespace {

// Of each axis alone, and with others.
constexpr LayoutRow kGpuLayouts[] = {
    {"tensor=2"},
    {"tensor=2 reduction_parts=4 sequence_parallel=true"},
    {"tensor=2 data=2 zero_stage=2 sequence_parallel=true"},
    {"pipeline=2"},
    {"pipeline=2 tensor=2"},
    {"context=2 context_kind=all_gather"},
    {"context=2 context_kind=all_gather context_zigzag=true"},
    {"context=2 context_kind=ulysses"},
    {"context=2 context_kind=ulysses tensor=2 algo.advantage=gae"},
    {"context=2 context_kind=ring", kRing},
    {"context=4 context_kind=ring context_zigzag=true", kRing},
    {"data=4 zero_stage=2 zero_group=2"},
    {"data=4 zero_stage=3 zero_group=2 overlap_grad_reduce=true"},
    {"engines=whole tensor=2"},
    {"engines=whole pipeline=2"},
};
// NCCL has a way of its own for each kind of exchange; groups of ZeRO are refused with it.
constexpr LayoutRow kNcclLayouts[] = {
    {"tensor=2"},
    {"tensor=2 reduction_parts=4 sequence_parallel=true"},
    {"pipeline=2"},
    {"context=2 context_kind=all_gather"},
    {"context=2 context_kind=ulysses"},
    {"context=4 context_kind=ring context_zigzag=true", kRing},
    {"engines=whole pipeline=2"},
};

OptionSet on_gpu(OptionSet options) {
  options.set_text("runtime.device", "cuda");
  return options;
}

void on_gpu_ranks(const OptionSet& given,
                  const std::function<void(std::shared_ptr<Runtime>)>& body) {
  run_ranks(make_ranks(on_gpu(given), &emulated_gpu()), body);
}

// Each rank makes its runtime on a thread of its own, as processes do.
void on_nccl_ranks(const OptionSet& given,
                   const std::function<void(std::shared_ptr<Runtime>)>& body) {
  const int size = rank_count_of(Settings(given));
  if (size == 1) return on_gpu_ranks(given, body);
  rl::run_ranks(copying_backend, size, [&](std::shared_ptr<Transport> transport) {
    OptionSet o = on_gpu(given);
    o.set_text("comm.backend", "nccl");
    o.set_i64("comm.rank", transport->rank());
    o.set_string("comm.rendezvous", "file:not_read");
    RuntimeSeams seams = seams_on(emulated_gpu());
    seams.joined = std::move(transport);
    body(std::make_shared<Runtime>(o, std::move(seams)));
  });
}

class GpuLayouts : public ::testing::TestWithParam<LayoutRow> {
 protected:
  static void SetUpTestSuite() {
    staged_ = new LayoutRuns(on_gpu_ranks);
    nccl_ = new LayoutRuns(on_nccl_ranks);
  }
  static void TearDownTestSuite() {
    delete nccl_;
    delete staged_;
  }
  void SetUp() override { begin(); }
  void TearDown() override {
    EXPECT_EQ(emulated::live_nccl_communicators(), 0);
    for (const auto& report : emulated::take_reports()) ADD_FAILURE() << report.text;
    begin();
  }
  static void begin() {
    emulated::forget_nccl();
    emulated::set_device({});
    emulated::restart(0);
  }
  static inline LayoutRuns *staged_, *nccl_;
};

TEST_P(GpuLayouts, TrainGenerateAndSaveAsOneRankDoes) {
  expect_as_one_rank(*staged_, GetParam(), kSmallRun);
}
INSTANTIATE_TEST_SUITE_P(Of, GpuLayouts, ::testing::ValuesIn(kGpuLayouts), layout_test_name);

class NcclLayouts : public GpuLayouts {};
TEST_P(NcclLayouts, HaveTheBitsOfThoseThroughTheHost) {
  const Layout layout(str(GetParam().layout, kSmallRun));
  const double bound = GetParam().logprob_bound;
  expect_same_outcome(nccl_->run(layout, bound), staged_->outcome_of(layout, bound));
}
INSTANTIATE_TEST_SUITE_P(Of, NcclLayouts, ::testing::ValuesIn(kNcclLayouts), layout_test_name);

}  // namespace
}  // namespace rl::testing
