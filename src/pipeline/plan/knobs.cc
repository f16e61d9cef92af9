// The knob table, and the search for the knobs that make a plan fit.
#include "pipeline/plan/knobs.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "formats/vocabulary_cut.h"
#include "model/model.h"
#include "options/option_text.h"
#include "pipeline/config/activation_options.h"
#include "pipeline/config/runtime_options.h"

namespace rl {
namespace {

using Turns = std::vector<KnobTurn>;

Turns one(const char* key, std::string value) { return {{{key, std::move(value)}}}; }

// Halves of the present value down to the least, mildest first.
Turns halves(const char* key, int64_t now, int64_t least) {
  Turns turns;
  for (int64_t n = now / 2; n >= std::max<int64_t>(1, least); n /= 2) {
    turns.push_back({{key, std::to_string(n)}});
  }
  return turns;
}

Turns chunk_turns(const Planner& p) {
  Turns turns;
  const int64_t now = p.settings().trainer.logprob_chunk_tokens;
  for (const int64_t tokens : {256, 128, 64, 32}) {
    if (now == 0 || tokens < now) {
      turns.push_back({{"trainer.logprob_chunk_tokens", std::to_string(tokens)}});
    }
  }
  return turns;
}

Turns fraction_turns(const Planner& p) {
  const uint64_t budget = usable_budget(p.settings());
  if (budget == 0) return {};
  const double least = static_cast<double>(p.min_shared()) / static_cast<double>(budget);
  const double fraction = std::ceil(least * 1e4) / 1e4;
  if (fraction > 1 || fraction <= p.settings().engine.memory_fraction) return {};
  return one("engine.memory_fraction", format_option(fraction));
}

Turns swap_turns(const Planner& p) {
  const uint64_t half = p.settings().engine.swap_space_bytes / 2;
  return one("engine.swap_space_bytes", std::to_string(half));
}

Turns backward_turns(const Planner&) {
  return {{{"trainer.backward_weights", "by_layer"}}, {{"trainer.backward_weights", "resident"}}};
}

// Packing every layer in each micro-batch, from the masters.
StepWork backward_work(const Planner& p, const PassSize& pass) {
  if (p.settings().trainer.backward_weights == TrainerBackwardWeights::kResident) return {};
  const auto masters = static_cast<double>(Model::master_bytes(p.config()));
  return {0, pass.micro_batches * masters,
          pass.micro_batches * static_cast<double>(p.packed_bytes())};
}

// What a full turn of recomputation needs beside it, as far as it is not set.
void add_pair(const Planner& p, const char* key, const char* value, KnobTurn& turn) {
  if (p.settings().set.get_text(key) != value) turn.push_back({key, value});
}

Turns recompute_turns(const Planner& p) {
  constexpr const char* kKey = "trainer.recompute_granularity";
  const auto now = p.settings().trainer.recompute_granularity;
  KnobTurn none = {{kKey, "none"}}, selective = {{kKey, "selective"}}, full = {{kKey, "full"}};
  for (KnobTurn* turn : {&none, &selective}) {
    add_pair(p, "trainer.recompute_method", "none", *turn);
    add_pair(p, "trainer.recompute_num_layers", "0", *turn);
  }
  for (KnobTurn* turn : {&none, &full}) add_pair(p, "trainer.recompute_modules", "", *turn);
  add_pair(p, "trainer.recompute_method", "uniform", full);
  add_pair(p, "trainer.recompute_num_layers", "1", full);
  Turns turns;
  if (now != TrainerRecomputeGranularity::kNone) turns.push_back(none);
  if (now != TrainerRecomputeGranularity::kSelective) turns.push_back(selective);
  if (now != TrainerRecomputeGranularity::kFull) turns.push_back(full);
  return turns;
}

// Only for a host that says how much of its memory may be used: on a CPU it is the same memory.
Turns offload_turns(const Planner& p) {
  if (p.settings().runtime.host_memory_budget_bytes == 0) return {};
  return one("trainer.activation_offload", "true");
}

Turns reference_turns(const Planner& p) {
  if (!p.has_reference()) return {};
  if (p.settings().runtime.host_memory_budget_bytes == 0) return {};
  return one("reference.offload", "true");
}

// Its weights travel to the device once in a step.
StepWork reference_work(const Planner& p, const PassSize&) {
  return {0, 0, static_cast<double>(p.offloaded_reference_bytes())};
}

// The products of a forward that the backward computes again, and the copies of layer inputs.
StepWork activation_work(const Planner& p, const PassSize& pass) {
  const ActivationRule rule = activation_rule_from(p.settings());
  const ModelConfig& c = p.config();
  const auto hidden = static_cast<double>(c.hidden);
  const double keys = static_cast<double>(p.max_model_len()) / 2;
  double products = 0, attention = 0;
  for (int64_t l = 0; l < c.layers; ++l) {
    const LayerShape s = c.own(l);
    const LayerParts kept = rule.kept(l);
    const auto q = static_cast<double>(s.q_width());
    if (!kept.qkv) products += hidden * static_cast<double>(s.qkv_width());
    if (!kept.attention) attention += 4 * q * keys;
    if (!kept.residual) products += hidden * q;
    if (!kept.mlp) products += hidden * static_cast<double>(2 * s.ffn);
    if (kept.mlp || l + 1 == rule.group_of(l, c.layers).end) continue;
    // The input of the next layer needs the MLP; in chunks its gate and up are not held for later.
    const int64_t matrices = p.settings().trainer.mlp_chunk_tokens != 0 ? 3 : 1;
    products += hidden * static_cast<double>(matrices * s.ffn);
  }
  const double item = p.compute() == Dtype::kBf16 ? 2 : 4;
  StepWork work{pass.rows * (2 * products + attention), pass.micro_batches * item * products, 0};
  if (rule.offload)
    work.copy_bytes = 2 * pass.rows * hidden * 4 * static_cast<double>(rule.num_inputs(c.layers));
  return work;
}

// The head's product once more.
StepWork loss_work(const Planner& p, const PassSize& pass) {
  if (!p.settings().trainer.recompute_loss || p.config().scalar_head) return {};
  const double weights =
      static_cast<double>(p.config().hidden * VocabularyCut(p.config()).own().count);
  const auto longest = static_cast<double>(p.max_model_len());
  const double share =
      std::min(1.0, static_cast<double>(p.settings().sampling.max_new_tokens) / longest);
  const double rows = pass.rows * share, item = p.compute() == Dtype::kBf16 ? 2 : 4;
  return {2 * rows * weights, 2 * rows / static_cast<double>(kLogitRows) * weights * item, 0};
}

// Only below the rows of the longest sample: shorter micro-batches have few wide values.
Turns mlp_turns(const Planner& p) {
  Turns turns;
  const int64_t now = p.settings().trainer.mlp_chunk_tokens;
  for (const int64_t tokens : {4096, 1024}) {
    if ((now == 0 || tokens < now) && tokens < p.min_tokens())
      turns.push_back({{"trainer.mlp_chunk_tokens", std::to_string(tokens)}});
  }
  return turns;
}

// Each chunk after the first of a micro-batch reads the weights of the forward and of the backward
// once more, and reads and writes their gradients.
StepWork mlp_work(const Planner& p, const PassSize& pass) {
  const auto chunk = static_cast<double>(p.settings().trainer.mlp_chunk_tokens);
  if (chunk == 0) return {};
  const ModelConfig& c = p.config();
  double weights = 0;
  for (int64_t l = 0; l < c.layers; ++l) weights += 3.0 * static_cast<double>(c.own(l).ffn);
  weights *= static_cast<double>(c.hidden);
  const bool rounded = p.settings().trainer.grad_dtype == TrainerGradDtype::kBf16;
  const double item = p.compute() == Dtype::kBf16 ? 2 : 4, gradient = rounded ? 12 : 8;
  const double more = std::max(0.0, pass.rows / chunk - pass.micro_batches);
  return {0, more * weights * (2 * item + gradient), 0};
}

// Muon has no other form.
Turns state_turns(const Planner& p) {
  const OptimizerSettings& optimizer = p.settings().optimizer;
  Turns turns;
  if (optimizer.name == OptimizerName::kMuon) return turns;
  if (optimizer.state_dtype == OptimizerStateDtype::kFp32) {
    turns.push_back({{"optimizer.state_dtype", "bf16"}});
  }
  if (optimizer.state_dtype != OptimizerStateDtype::kInt8) {
    turns.push_back({{"optimizer.state_dtype", "int8"}});
  }
  return turns;
}

constexpr KnobRow kTable[] = {
    {"engine.memory_fraction", KnobEffect::kSpeed, KnobPart::kEngine, fraction_turns},
    {"engine.max_num_batched_tokens", KnobEffect::kSpeed, KnobPart::kEngine,
     [](const Planner& p) {
       return halves("engine.max_num_batched_tokens", p.settings().engine.max_num_batched_tokens,
                     32);
     }},
    {"engine.max_num_seqs", KnobEffect::kSpeed, KnobPart::kEngine,
     [](const Planner& p) {
       return halves("engine.max_num_seqs", p.settings().engine.max_num_seqs, 1);
     }},
    {"engine.num_engines", KnobEffect::kSpeed, KnobPart::kEngine,
     [](const Planner& p) { return halves("engine.num_engines", p.num_engines(), 1); }},
    {"engine.swap_space_bytes", KnobEffect::kSpeed, KnobPart::kEngine, swap_turns},
    {"trainer.backward_weights", KnobEffect::kSpeed, KnobPart::kTrainer, backward_turns,
     backward_work},
    {"trainer.recompute_granularity", KnobEffect::kSpeed, KnobPart::kTrainer, recompute_turns,
     activation_work},
    {"trainer.activation_offload", KnobEffect::kSpeed, KnobPart::kTrainer, offload_turns},
    {"reference.offload", KnobEffect::kSpeed, KnobPart::kTrainer, reference_turns, reference_work},
    {"trainer.recompute_loss", KnobEffect::kSpeed, KnobPart::kTrainer,
     [](const Planner&) { return one("trainer.recompute_loss", "true"); }, loss_work},
    {"checkpoint.async", KnobEffect::kSpeed, KnobPart::kTrainer,
     [](const Planner&) { return one("checkpoint.async", "false"); }},
    {"trainer.weights_backup", KnobEffect::kSpeed, KnobPart::kTrainer,
     [](const Planner&) { return one("trainer.weights_backup", "false"); }},
    {"runtime.threads", KnobEffect::kSpeed, KnobPart::kBoth,
     [](const Planner& p) { return halves("runtime.threads", p.threads(), 1); }},
    {"trainer.free_grad_buffers_on_publish", KnobEffect::kSpeed, KnobPart::kTrainer,
     [](const Planner& p) {
       return p.use() == PlanUse::kPipeline ? one("trainer.free_grad_buffers_on_publish", "true")
                                            : Turns();
     }},
    {"trainer.max_tokens_per_device", KnobEffect::kRounding, KnobPart::kTrainer,
     [](const Planner&) { return one("trainer.max_tokens_per_device", "0"); }},
    {"trainer.logprob_chunk_tokens", KnobEffect::kRounding, KnobPart::kTrainer, chunk_turns},
    {"trainer.mlp_chunk_tokens", KnobEffect::kRounding, KnobPart::kTrainer, mlp_turns, mlp_work},
    {"optimizer.state_dtype", KnobEffect::kRounding, KnobPart::kTrainer, state_turns},
    {"trainer.grad_dtype", KnobEffect::kRounding, KnobPart::kTrainer,
     [](const Planner&) { return one("trainer.grad_dtype", "bf16"); }},
    {"critic.max_tokens_per_device", KnobEffect::kRounding, KnobPart::kTrainer,
     [](const Planner& p) {
       const int64_t ranks = p.settings().parallel.context;
       return one("critic.max_tokens_per_device",
                  std::to_string((p.min_tokens() + ranks - 1) / ranks));
     }},
    {"model.dtype", KnobEffect::kRounding, KnobPart::kBoth,
     [](const Planner&) { return one("model.dtype", "bf16"); }},
    {"model.compute_copies", KnobEffect::kRun, KnobPart::kBoth,
     [](const Planner&) { return one("model.compute_copies", "1"); }},
    {"eval.max_prompts", KnobEffect::kRun, KnobPart::kBoth,
     [](const Planner& p) {
       return one("eval.max_prompts", std::to_string(p.settings().pipeline.prompts_per_step));
     }},
    {"engine.max_model_len", KnobEffect::kRun, KnobPart::kBoth,
     [](const Planner& p) {
       const int64_t least = 2 * p.settings().sampling.max_new_tokens;
       return halves("engine.max_model_len", p.max_model_len(), least);
     }},
    {"algo.kl.where", KnobEffect::kRun, KnobPart::kTrainer,
     [](const Planner&) { return one("algo.kl.where", "none"); }},
};

// A row's turn, and what it does to the plan that lacks memory.
struct Candidate {
  const KnobRow* row;
  KnobTurn turn;
  int rank = 0;
  double cost = 0;  // added time for each byte saved
  std::pair<int, double> order() const { return {rank, cost}; }
};

// Knobs that change time alone come first, but not if they change it much: numbers in fewer bits
// are better than a step that takes twice as long. Knobs that change the run come last.
int rank_of(KnobEffect effect, double time_ratio) {
  constexpr double kMuchSlower = 1.5;
  if (effect == KnobEffect::kRun) return 2;
  return effect == KnobEffect::kRounding || time_ratio > kMuchSlower ? 1 : 0;
}

// Options with some knobs turned.
class Trial {
 public:
  Trial(const PlanRequest& request, uint64_t budget) : request_(request), budget_(budget) {}

  // Nothing if the options refuse the turns.
  std::optional<PlanRequest> turned(const std::vector<const KnobTurn*>& turns) const {
    try {
      OptionSet changed = request_.settings.set;
      int threads = request_.threads;
      for (const KnobTurn* turn : turns) {
        for (const auto& [key, value] : *turn) changed.set_text(key, value);
        if (turn->front().first == "runtime.threads") threads = 0;
      }
      PlanRequest to = request_.with(changed);
      to.threads = threads;
      throw_violations(to);
      return to;
    } catch (const Error&) {
      return std::nullopt;  // not a setting for this run
    }
  }
  std::optional<PlanRequest> turned(const std::vector<Candidate>& all, size_t count) const {
    std::vector<const KnobTurn*> turns;
    for (size_t i = 0; i < count; ++i) turns.push_back(&all[i].turn);
    return turned(turns);
  }
  std::optional<PlanRequest> turned(const std::vector<Candidate>& all) const {
    return turned(all, all.size());
  }
  const PlanRequest& request() const { return request_; }
  // What a turn has to reduce. If two phases need the same, none alone reduces the first number.
  std::pair<uint64_t, uint64_t> lacks(const Planner& p) const {
    const uint64_t phases = p.train_bytes(p.min_tokens()) + p.rollout_bytes(p.min_blocks());
    const uint64_t over = budget_ == 0 ? p.min_total() : deficit_of(p, budget_).sum();
    return {over, p.always_bytes() + phases};
  }

 private:
  const PlanRequest& request_;
  const uint64_t budget_;
};

double time_of(const Planner& p) {
  return step_seconds(p, {p.max_tokens(), p.has_engine() ? p.max_blocks() : 0},
                      MachineRates::nominal())
      .total();
}

// All turns that reduce what is lacking, in the order to try them.
std::vector<Candidate> candidates_of(const Trial& trial, const std::vector<Candidate>& chosen) {
  const Planner now = trial.turned(chosen)->planner();
  const auto [over, sum] = trial.lacks(now);
  const double seconds = time_of(now);
  std::vector<Candidate> found;
  for (const KnobRow& row : knob_table()) {
    for (KnobTurn& turn : row.turns(now)) {
      std::vector<const KnobTurn*> turns;
      for (const Candidate& c : chosen) turns.push_back(&c.turn);
      turns.push_back(&turn);
      const auto changed = trial.turned(turns);
      if (!changed) continue;
      const Planner then = changed->planner();
      const auto [over_then, sum_then] = trial.lacks(then);
      if (std::pair(over_then, sum_then) >= std::pair(over, sum)) continue;
      const uint64_t saved = over_then < over ? over - over_then : sum - sum_then;
      const double slower = time_of(then);
      found.push_back({&row, std::move(turn), rank_of(row.effect, slower / seconds),
                       (slower - seconds) / static_cast<double>(saved)});
    }
  }
  std::ranges::stable_sort(found, {}, &Candidate::order);
  return found;
}

// Turns one candidate after the other, as long as bytes lack; a later one of a key replaces an
// earlier one.
std::vector<Candidate> turn_all(const Trial& trial) {
  std::vector<Candidate> chosen;
  auto lacking = trial.lacks(trial.request().planner());
  for (bool progress = true; progress && lacking.first != 0;) {
    progress = false;
    for (const Candidate& c : candidates_of(trial, chosen)) {
      if (lacking.first == 0) break;
      std::vector<Candidate> more = chosen;
      std::erase_if(more, [&](const Candidate& old) { return old.row == c.row; });
      more.push_back(c);
      const auto changed = trial.turned(more);
      if (!changed) continue;
      const auto then = trial.lacks(changed->planner());
      if (then >= lacking) continue;
      chosen = std::move(more);
      lacking = then;
      progress = true;
    }
  }
  return chosen;
}

// Without those that change nothing any more, of which the last go first.
void prune(const Trial& trial, std::vector<Candidate>& chosen) {
  const auto lacking = [&](const std::vector<Candidate>& all) {
    const auto changed = trial.turned(all);
    return changed ? trial.lacks(changed->planner()).first : UINT64_MAX;
  };
  const uint64_t least = lacking(chosen);
  for (size_t i = chosen.size(); i-- > 0;) {
    std::vector<Candidate> without = chosen;
    without.erase(without.begin() + static_cast<ptrdiff_t>(i));
    if (lacking(without) <= least) chosen = std::move(without);
  }
}

// So that the options accept every turn after those before it.
std::vector<Candidate> in_order(const Trial& trial, std::vector<Candidate> rest) {
  std::vector<Candidate> ordered;
  while (!rest.empty()) {
    const auto accepted = std::ranges::find_if(rest, [&](const Candidate& c) {
      std::vector<Candidate> with = ordered;
      with.push_back(c);
      return trial.turned(with).has_value();
    });
    const auto next = accepted != rest.end() ? accepted : rest.begin();
    ordered.push_back(std::move(*next));
    rest.erase(next);
  }
  return ordered;
}

// The knobs of one turn: the first carries what all of them do.
void add_knobs(const Candidate& c, const PlanRequest& before, const PlanRequest& after,
               std::vector<Knob>& out) {
  const Planner then = after.planner(), now = before.planner();
  for (const auto& [key, value] : c.turn) {
    out.push_back({key, before.settings.set.get_text(key), value, 0, 1, c.row->effect});
  }
  Knob& first = *(out.end() - static_cast<ptrdiff_t>(c.turn.size()));
  first.saved_bytes = now.min_total() - std::min(now.min_total(), then.min_total());
  first.time_ratio = time_of(then) / time_of(now);
}

}  // namespace

std::span<const KnobRow> knob_table() { return kTable; }

KnobList find_knobs(const PlanRequest& request, uint64_t budget) {
  const Trial trial(request, budget);
  std::vector<Candidate> chosen = turn_all(trial);
  std::ranges::stable_sort(chosen, {}, &Candidate::rank);
  prune(trial, chosen);
  chosen = in_order(trial, std::move(chosen));
  KnobList list;
  PlanRequest now = request;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto then = trial.turned(chosen, i + 1);
    add_knobs(chosen[i], now, then ? *then : now, list.knobs);
    if (then) now = *then;
  }
  const Planner last = now.planner();
  list.min_total = last.min_total();
  if (budget != 0) list.left = deficit_of(last, budget);
  return list;
}

std::string knobs_text(const std::vector<Knob>& knobs) {
  std::string text;
  for (const Knob& k : knobs) {
    text += str(text.empty() ? "" : ", ", k.key, " = ", k.proposed);
    if (k.saved_bytes != 0) text += str(" saves ", k.saved_bytes);
  }
  return text;
}

}  // namespace rl
