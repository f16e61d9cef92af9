// Range checks, and what excludes each other.
#include "train/options/optimizer_options.h"

#include "algo/choice.h"

namespace rl {
namespace {

[[noreturn]] void refuse_with_muon(const char* key, const char* why) {
  throw Error(Code::kConflict, str("optimizer.name is muon, but ", key, " ", why))
      .with_key(key)
      .with_other_key("optimizer.name");
}

}  // namespace

void validate(const OptimizerOptions& o) {
  require_value(o.ema >= 0 && o.ema < 1, "optimizer.ema", o.ema, "at least 0, below 1");
  require_value(o.offload.fraction > 0 && o.offload.fraction <= 1, "optimizer.cpu_offload_fraction",
                o.offload.fraction, "above 0, at most 1");
  validate(o.muon);
  if (o.kind != OptimizerKind::kMuon) return;
  if (o.offload.on) {
    refuse_with_muon("optimizer.cpu_offload",
                     "takes steps on the host: products of whole matrices stay on the device");
  }
  if (o.state_dtype != StateDtype::kF32) {
    refuse_with_muon("optimizer.state_dtype", "is not fp32, and its momentum has no other form");
  }
}

void require_same_states(const OptimizerOptions& now, const OptimizerOptions& next) {
  const auto require = [](bool same, const char* key) {
    if (same) return;
    throw Error(Code::kNotChangeable, str(key, " cannot be changed: the memory plan depends on it"))
        .with_key(key);
  };
  require(now.kind == next.kind, "optimizer.name");
  require(now.state_dtype == next.state_dtype, "optimizer.state_dtype");
  require(now.grad_dtype == next.grad_dtype, "trainer.grad_dtype");
  require(now.frees_gradients == next.frees_gradients, "trainer.free_grad_buffers_on_publish");
  require(now.offload.on == next.offload.on, "optimizer.cpu_offload");
  require(now.offload == next.offload, "optimizer.cpu_offload_fraction");
  require(now.no_decay == next.no_decay, "optimizer.no_decay");
  require(now.zero == next.zero, "parallel.zero_stage");
  require(now.ema == next.ema, "optimizer.ema");
}

}  // namespace rl
