// Texts are decoded from the token ids, only for the few responses that are kept.
#include "pipeline/loop/run_records.h"

#include <algorithm>
#include <exception>

#include "core/error.h"
#include "pipeline/config/run_options.h"

namespace rl {
namespace {

std::unique_ptr<MetricsWriter> open_lines(FileSystem& fs, const std::string& path, uint64_t steps) {
  return path.empty() ? nullptr : std::make_unique<MetricsWriter>(fs, path, steps);
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Replaces the text if the model has no tokenizer.
std::string id_text(std::span<const int32_t> ids) {
  std::string out = "[";
  for (const int32_t id : ids) out += str(out.size() > 1 ? ", " : "", id);
  return out + "]";
}

std::string text_of(const LoadedModel& model, std::span<const int32_t> ids, bool skip_special) {
  return model.has_tokenizer() ? model.decode_sampled(ids, skip_special) : id_text(ids);
}

}  // namespace

RunRecords::RunRecords(LoadedModel& model, const Settings& settings, uint64_t done_steps)
    : model_(model),
      max_eval_responses_(static_cast<size_t>(settings.metrics.max_samples)),
      steps_(open_lines(model.runtime().fs(), output_path(settings, settings.metrics.jsonl),
                        done_steps)),
      evals_(open_lines(model.runtime().fs(), output_path(settings, settings.metrics.eval_jsonl),
                        done_steps)),
      responses_(open_lines(model.runtime().fs(), output_path(settings, settings.metrics.samples),
                            done_steps)) {
  if (!settings.metrics.tensorboard) return;
  Runtime& runtime = model.runtime();
  board_ = std::make_unique<TensorBoardWriter>(
      runtime.fs(), directory_of(output_path(settings, settings.metrics.jsonl)), runtime.clock(),
      done_steps);
}

void RunRecords::check(FileSystem& fs, const Settings& settings, uint64_t done_steps) {
  const MetricsSettings& metrics = settings.metrics;
  for (const std::string* given : {&metrics.jsonl, &metrics.eval_jsonl, &metrics.samples}) {
    const std::string path = output_path(settings, *given);
    if (!path.empty()) MetricsWriter::check(fs, path, done_steps);
  }
}

KeptResponse RunRecords::kept(const Sample& s, ResponseKind kind) const {
  const std::span<const int32_t> ids(s.ids);
  const auto split = static_cast<size_t>(s.prompt_tokens);
  KeptResponse out;
  out.kind = kind;
  out.data_row = s.data_row;
  out.reward = s.reward;
  out.num_tokens = s.generated();
  out.finish = finish_reason_name(s.finish);
  out.tag = s.tag;
  out.prompt = text_of(model_, ids.first(split), false);
  out.response = text_of(model_, ids.subspan(split), true);
  return out;
}

void RunRecords::keep_extremes(std::span<const SamplePtr> batch) {
  extremes_.clear();
  if (responses_ == nullptr || batch.empty()) return;
  const auto less = [](const SamplePtr& a, const SamplePtr& b) { return a->reward < b->reward; };
  const auto [worst, best] = std::minmax_element(batch.begin(), batch.end(), less);
  extremes_.push_back(kept(**best, ResponseKind::kBest));
  extremes_.push_back(kept(**worst, ResponseKind::kWorst));
}

void RunRecords::write_response(const KeptResponse& response) {
  if (full_) return;
  const std::string line = render_kept_response(response);
  full_ = responses_->size() + line.size() + 1 > kMaxSamplesBytes;
  if (!full_) return responses_->write_line(line);
  model_.runtime().logger().log(
      LogLevel::kWarn, "pipeline", {{"path", responses_->path()}, {"step", response.step}},
      responses_->path(), " is full at step ", response.step, ": no more responses are kept");
}

void RunRecords::write_step(const MetricList& metrics, int64_t interval_steps) {
  const auto step = static_cast<uint64_t>(metrics.get(kStepMetric).value());
  for (KeptResponse& response : extremes_) {
    response.step = step;
    write_response(response);
  }
  extremes_.clear();
  if (step % static_cast<uint64_t>(interval_steps) != 0) return;
  if (steps_ != nullptr) steps_->write(metrics);
  if (board_ != nullptr) board_->write(step, metrics);
}

void RunRecords::write_engine(uint64_t step, const MetricList& metrics) {
  if (steps_ == nullptr) return;
  MetricList line;
  line.set(kStepMetric, static_cast<double>(step));
  line.append(metrics);
  steps_->write(line);
}

void RunRecords::write_eval(uint64_t step, const MetricList& metrics,
                            std::span<const SamplePtr> responses) {
  MetricList line;
  line.set(kStepMetric, static_cast<double>(step));
  line.append(metrics);
  if (evals_ != nullptr) evals_->write(line);
  if (board_ != nullptr) board_->write(step, metrics);
  if (responses_ == nullptr) return;
  for (const SamplePtr& s : responses.first(std::min(responses.size(), max_eval_responses_))) {
    KeptResponse response = kept(*s, ResponseKind::kEval);
    response.step = step;
    write_response(response);
  }
}

void RunRecords::close() {
  std::exception_ptr failure;
  const auto end = [&](const auto& file) {
    try {
      if (file != nullptr) file->close();
    } catch (const Error&) {
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  end(steps_);
  end(evals_);
  end(responses_);
  end(board_);
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace rl
