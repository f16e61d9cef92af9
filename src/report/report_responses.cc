// Among equal rewards the later response is shown: it is closer to the current model.
#include "report/report_responses.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace rl {
namespace {

constexpr size_t kMaxBetter = 4, kMaxWorse = 3, kMaxReworded = 2, kMaxTraining = 3;

using Evaluation = std::map<int64_t, KeptResponse>;  // by row

// The few training responses with the highest or lowest rewards, each for a different prompt.
class Leaders {
 public:
  explicit Leaders(double sign) : sign_(sign) {}

  void offer(KeptResponse&& response) {
    const auto same = [&](const KeptResponse& a) { return a.prompt == response.prompt; };
    const auto found = std::find_if(kept_.begin(), kept_.end(), same);
    if (found == kept_.end()) {
      kept_.push_back(std::move(response));
    } else if (leads(response, *found)) {
      *found = std::move(response);
    }
    std::stable_sort(kept_.begin(), kept_.end(),
                     [&](const KeptResponse& a, const KeptResponse& b) { return leads(a, b); });
    if (kept_.size() > kMaxTraining) kept_.pop_back();
  }
  std::vector<KeptResponse> take() { return std::move(kept_); }

 private:
  bool leads(const KeptResponse& a, const KeptResponse& b) const {
    return a.reward != b.reward ? sign_ * a.reward > sign_ * b.reward : a.step > b.step;
  }
  double sign_;
  std::vector<KeptResponse> kept_;
};

// The first and the last evaluation of a file that holds evaluations one after the other.
class EvaluationPair {
 public:
  void add(KeptResponse&& response) {
    if (count_ == 0 || response.step != step_ || open().contains(response.data_row)) {
      ++count_;
      step_ = response.step;
      if (count_ > 1) last_.clear();
    }
    open().emplace(response.data_row, std::move(response));
  }

  void compare(ResponseDigest& out) const {
    out.num_evals = count_;
    if (count_ == 0) return;
    out.first_step = first_.begin()->second.step;
    out.last_step = step_;
    for (const auto& [row, last] : last_) {
      const auto found = first_.find(row);
      if (found == first_.end() || found->second.prompt != last.prompt) continue;
      const KeptResponse& first = found->second;
      ++out.num_compared;
      out.num_better += last.reward > first.reward;
      out.num_worse += last.reward < first.reward;
      if (last.reward > first.reward) {
        out.better.push_back({first, last});
      } else if (last.reward < first.reward) {
        out.worse.push_back({first, last});
      } else if (last.response != first.response) {
        ++out.num_reworded;
        out.reworded.push_back({first, last});
      }
    }
  }

 private:
  Evaluation& open() { return count_ <= 1 ? first_ : last_; }

  Evaluation first_, last_;
  uint64_t step_ = 0;
  size_t count_ = 0;
};

void keep_largest(std::vector<ResponseChange>& changes, size_t count) {
  const auto size = [](const ResponseChange& c) {
    const double d = c.last.reward - c.first.reward;
    return d < 0 ? -d : d;
  };
  std::stable_sort(
      changes.begin(), changes.end(),
      [&](const ResponseChange& a, const ResponseChange& b) { return size(a) > size(b); });
  if (changes.size() > count) changes.resize(count);
}

}  // namespace

ResponseDigest read_responses(FileSystem& fs, const std::string& path, ReadNotes& notes) {
  EvaluationPair evaluations;
  Leaders best(1), worst(-1);
  for_each_line(fs, path, notes, [&](size_t number, std::string_view text) {
    std::optional<KeptResponse> response = parse_kept_response(text);
    if (!response) {
      notes.add(str(file_name(path), ": line ", number, " is not a kept response and is skipped"));
      return;
    }
    if (response->kind == ResponseKind::kEval) return evaluations.add(std::move(*response));
    (response->kind == ResponseKind::kBest ? best : worst).offer(std::move(*response));
  });
  ResponseDigest out;
  evaluations.compare(out);
  keep_largest(out.better, kMaxBetter);
  keep_largest(out.worse, kMaxWorse);
  keep_largest(out.reworded, kMaxReworded);
  out.best = best.take();
  out.worst = worst.take();
  return out;
}

}  // namespace rl
