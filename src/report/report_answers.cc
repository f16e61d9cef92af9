// Among equal rewards the later response is shown: it is closer to the current model.
#include "report/report_answers.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace rl {
namespace {

constexpr size_t kMaxBetter = 4, kMaxWorse = 3, kMaxReworded = 2, kMaxTraining = 3;

using Evaluation = std::map<int64_t, KeptAnswer>;  // by row

// The few training responses with the highest or lowest rewards, each for a different prompt.
class Leaders {
 public:
  explicit Leaders(double sign) : sign_(sign) {}

  void offer(KeptAnswer&& answer) {
    const auto same = [&](const KeptAnswer& a) { return a.prompt == answer.prompt; };
    const auto found = std::find_if(kept_.begin(), kept_.end(), same);
    if (found == kept_.end()) {
      kept_.push_back(std::move(answer));
    } else if (leads(answer, *found)) {
      *found = std::move(answer);
    }
    std::stable_sort(kept_.begin(), kept_.end(),
                     [&](const KeptAnswer& a, const KeptAnswer& b) { return leads(a, b); });
    if (kept_.size() > kMaxTraining) kept_.pop_back();
  }
  std::vector<KeptAnswer> take() { return std::move(kept_); }

 private:
  bool leads(const KeptAnswer& a, const KeptAnswer& b) const {
    return a.reward != b.reward ? sign_ * a.reward > sign_ * b.reward : a.step > b.step;
  }
  double sign_;
  std::vector<KeptAnswer> kept_;
};

// The first and the last evaluation of a file that holds evaluations one after the other.
class EvaluationPair {
 public:
  void add(KeptAnswer&& answer) {
    if (count_ == 0 || answer.step != step_ || open().contains(answer.data_row)) {
      ++count_;
      step_ = answer.step;
      if (count_ > 1) last_.clear();
    }
    open().emplace(answer.data_row, std::move(answer));
  }

  void compare(AnswerDigest& out) const {
    out.num_evals = count_;
    if (count_ == 0) return;
    out.first_step = first_.begin()->second.step;
    out.last_step = step_;
    for (const auto& [row, last] : last_) {
      const auto found = first_.find(row);
      if (found == first_.end() || found->second.prompt != last.prompt) continue;
      const KeptAnswer& first = found->second;
      ++out.num_compared;
      out.num_better += last.reward > first.reward;
      out.num_worse += last.reward < first.reward;
      if (last.reward > first.reward) {
        out.better.push_back({first, last});
      } else if (last.reward < first.reward) {
        out.worse.push_back({first, last});
      } else if (last.answer != first.answer) {
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

void keep_largest(std::vector<AnswerChange>& changes, size_t count) {
  const auto size = [](const AnswerChange& c) {
    const double d = c.last.reward - c.first.reward;
    return d < 0 ? -d : d;
  };
  std::stable_sort(changes.begin(), changes.end(),
                   [&](const AnswerChange& a, const AnswerChange& b) { return size(a) > size(b); });
  if (changes.size() > count) changes.resize(count);
}

}  // namespace

AnswerDigest read_answers(FileSystem& fs, const std::string& path, ReadNotes& notes) {
  EvaluationPair evaluations;
  Leaders best(1), worst(-1);
  for_each_line(fs, path, notes, [&](size_t number, std::string_view text) {
    std::optional<KeptAnswer> answer = parse_kept_answer(text);
    if (!answer) {
      notes.add(str(file_name(path), ": line ", number, " is not a kept response and is skipped"));
      return;
    }
    if (answer->kind == AnswerKind::kEval) return evaluations.add(std::move(*answer));
    (answer->kind == AnswerKind::kBest ? best : worst).offer(std::move(*answer));
  });
  AnswerDigest out;
  evaluations.compare(out);
  keep_largest(out.better, kMaxBetter);
  keep_largest(out.worse, kMaxWorse);
  keep_largest(out.reworded, kMaxReworded);
  out.best = best.take();
  out.worst = worst.take();
  return out;
}

}  // namespace rl
