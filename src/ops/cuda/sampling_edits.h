// What the rules of a request do to logits, as one record per id: the host's part of sampling from
// rows that rules shape. Which rules there are, and their order: algo/sampling/sampling.h.
#pragma once
#include <span>
#include <vector>

#include "ops/cuda/kernels/head/sampling_filtered.h"
#include "ops/sample_ops.h"

namespace rl::cuda {

// Whether the row is drawn from its logits as they are, or their largest is taken.
bool is_unfiltered(const SampleRow& row);

// Merges the records of ids. Keeps a place for every id of the vocabulary between rows.
class EditMerge {
 public:
  explicit EditMerge(int64_t vocab) : place_(static_cast<size_t>(vocab), kNone) {}

  // Appends the records of the row's ids. Error(kOutOfRange) naming the rule and an id outside the
  // vocabulary.
  void append(const SampleRow& row, std::vector<LogitEdit>& edits);

 private:
  static constexpr int32_t kNone = -1;
  void add(const char* what, const LogitEdit& edit, std::vector<LogitEdit>& edits);
  void add_previous(const SampleRow& row, std::vector<LogitEdit>& edits);

  std::vector<int32_t> place_;  // of an id's record in the row's edits, or kNone
};

// The request without its edits.
FilteredRequest filtered_request(const SampleRow& row);

}  // namespace rl::cuda
