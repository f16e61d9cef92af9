// Collects what the pipeline knows of a run for the report: facts, options, memory and trace. The
// report reads the run's files itself.
#include <sys/resource.h>

#include <map>

#include "core/error.h"
#include "core/hash.h"
#include "pipeline/loop/pipeline_impl.h"
#include "report/report.h"

namespace rl {
namespace {

// A report is meant to be shared: it names files, but no directories of the machine.
std::string without_directories(const std::string& text) {
  const size_t end = text.find_last_not_of('/');
  if (end == std::string::npos) return text;
  const size_t slash = text.rfind('/', end);
  return slash == std::string::npos ? text : text.substr(slash + 1, end - slash);
}

uint64_t peak_bytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0 || usage.ru_maxrss < 0) return 0;
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

Pipeline::Facts changed_options(const OptionSet& options) {
  Pipeline::Facts out;
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    if (options.is_default(info.key)) continue;
    const std::string text = options.get_text(info.key);
    out.emplace_back(info.key, info.type == OptionType::kString ? without_directories(text) : text);
  }
  return out;
}

// Arenas of the plan in order, then others in use; those of equal name are merged.
std::vector<ReportMemory> memory_of(const MemoryPlan& plan, const ArenaLedger& ledger) {
  std::map<std::string, ReportMemory> by_name;
  std::vector<std::string> order;
  const auto of = [&](const std::string& name) -> ReportMemory& {
    const auto [at, is_new] = by_name.try_emplace(name, ReportMemory{name, 0, 0});
    if (is_new) order.push_back(name);
    return at->second;
  };
  for (const PlanEntry& entry : plan.arenas) of(entry.name).planned_bytes += entry.bytes;
  for (const ArenaLedger::Entry& e : ledger.entries()) of(e.name).held_bytes += e.bytes;
  std::vector<ReportMemory> out;
  for (const std::string& name : order) out.push_back(by_name[name]);
  return out;
}

// Not computed while a trainer is changing the weights.
std::string weight_digest_of(const LoadedModel& model) {
  try {
    return hex64(model.weight_digest());
  } catch (const Error& e) {
    if (e.code != Code::kBusy) throw;
    return "not computed: the weights are being trained";
  }
}

}  // namespace

void Pipeline::write_report(const std::string& path, const TraceRecorder* trace,
                            const Facts& facts) const {
  const Impl& p = *impl_;
  ReportInputs in;
  std::shared_ptr<TraceRecorder> own;
  PipelineState state;
  const Settings settings = [&] {
    const Control::Lock lock = p.control.lock();
    state = p.control.state(lock);
    own = p.files.timeline().recorder(lock);
    in.trace = p.files.timeline().digest(lock);
    return p.settings;
  }();
  if (trace == nullptr && in.trace.spans.empty()) trace = own.get();
  if (trace != nullptr) in.trace = digest_of(*trace);
  in.title = without_directories(p.model->path());
  in.metrics_path = output_path(settings, settings.metrics.jsonl);
  in.eval_path = output_path(settings, settings.metrics.eval_jsonl);
  in.responses_path = output_path(settings, settings.metrics.samples);
  in.options = changed_options(settings.set);
  in.memory = memory_of(p.plan, p.runtime.ledger());
  in.planned_bytes = p.plan.total_bytes;
  in.baseline_bytes = p.plan.baseline_bytes;
  in.peak_bytes = peak_bytes();
  in.facts = {{"Model", in.title},
              {"Weights, digest", weight_digest_of(*p.model)},
              {"Weights, version", str(p.model->version())},
              {"State", pipeline_state_name(state)},
              {"Seed", str(p.runtime.seed())},
              {"Compute dtype", dtype_name(p.plan.compute)},
              {"Threads", str(p.plan.threads)},
              {"Longest sequence", str(p.plan.max_model_len, " tokens")},
              {"Micro-batch", str(p.plan.max_tokens, " tokens")},
              {"KV blocks", str(p.plan.engine.num_blocks)},
              {"Engines", str(p.plan.num_engines)}};
  if (const std::string& from = p.checkpoints.resumed_from(); !from.empty()) {
    in.facts.emplace_back("Resumed from", without_directories(from));
  }
  in.facts.insert(in.facts.end(), facts.begin(), facts.end());
  write_file_atomically(p.runtime.fs(), path, render_report(in, p.runtime.fs()));
}

}  // namespace rl
