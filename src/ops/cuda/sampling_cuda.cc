// Draws on the device: the host sends parameters and uniform numbers and gets ids and log-probs.
#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels/head/sampling_filtered.h"
#include "ops/cuda/kernels/head/sampling_plain.h"
#include "ops/cuda/sampling_edits.h"

namespace rl::cuda {
namespace {

// Units of a mass of 1.
double units_of_vocab(int64_t vocab) {
  const int bits = std::bit_width(static_cast<uint64_t>(vocab));
  return static_cast<double>(int64_t{1} << (62 - bits));
}

// The requests of a call by the kernel that serves them.
struct Requests {
  std::vector<PlainRequest> plain;
  std::vector<FilteredRequest> filtered;
  std::vector<LogitEdit> edits;
  std::vector<TopRequest> top;
  int64_t top_ids = 0;  // of all requests
};

Requests requests_of(const SampleRowsArgs& a) {
  Requests all;
  std::optional<EditMerge> merge;  // made for the first row that needs it
  for (size_t i = 0; i < a.rows.size(); ++i) {
    const SampleRow& row = a.rows[i];
    const auto token = static_cast<int32_t>(i);
    RL_CHECK(row.u >= 0 && row.u < 1);
    if (is_unfiltered(row)) {
      all.plain.push_back({row.row, row.u, token, row.params->temperature == 0 ? 1 : 0});
    } else {
      FilteredRequest request = filtered_request(row);
      request.token = token;
      request.first_edit = static_cast<int32_t>(all.edits.size());
      if (!merge) merge.emplace(a.vocab);
      merge->append(row, all.edits);
      request.num_edits = static_cast<int32_t>(all.edits.size()) - request.first_edit;
      all.filtered.push_back(request);
    }
    const auto count = static_cast<int32_t>(std::min<int64_t>(row.top_logprobs, a.vocab));
    if (count == 0) continue;
    all.top.push_back({row.row, static_cast<int32_t>(all.top_ids), count});
    all.top_ids += count;
  }
  return all;
}

// Requests share the scratch of as many rows as fit.
void sample_filtered_rows(CudaCompute& gpu, const SampleRowsArgs& a, const Requests& all,
                          SampledToken* tokens) {
  const auto count = static_cast<int64_t>(all.filtered.size());
  if (count == 0) return;
  const FilteredRequest* const requests = gpu.upload(std::span(all.filtered));
  const LogitEdit* const edits = gpu.upload(std::span(all.edits));
  const int64_t part =
      std::min(count, gpu.scratch_rows(a.vocab * static_cast<int64_t>(sizeof(float))));
  float* const x = gpu.scratch<float>(part * a.vocab);
  for (int64_t first = 0; first < count; first += part) {
    sample_filtered(gpu.stream(), {.requests = requests + first,
                                   .edits = edits,
                                   .z = a.z,
                                   .stats = a.stats,
                                   .x = x,
                                   .tokens = tokens,
                                   .count = std::min(part, count - first),
                                   .vocab = a.vocab,
                                   .units = units_of_vocab(a.vocab)});
  }
}

void sample_plain_rows(CudaCompute& gpu, const SampleRowsArgs& a, const Requests& all,
                       SampledToken* tokens) {
  sample_plain(gpu.stream(), {.requests = gpu.upload(std::span(all.plain)),
                              .z = a.z,
                              .tiles = a.tiles,
                              .stats = a.stats,
                              .tokens = tokens,
                              .count = static_cast<int64_t>(all.plain.size()),
                              .vocab = a.vocab,
                              .width = a.tile_width,
                              .units = units_of_vocab(a.vocab)});
}

// Of every request that wants some: ids and log-probs, request after request.
struct TopOfRows {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
};
TopOfRows top_of_rows(CudaCompute& gpu, const SampleRowsArgs& a, const Requests& all) {
  const auto size = static_cast<size_t>(all.top_ids);
  TopOfRows top{std::vector<int32_t>(size), std::vector<float>(size)};
  if (size == 0) return top;
  int32_t* const ids = gpu.scratch<int32_t>(all.top_ids);
  float* const logprobs = gpu.scratch<float>(all.top_ids);
  top_ids(gpu.stream(), {.requests = gpu.upload(std::span(all.top)),
                         .z = a.z,
                         .tiles = a.tiles,
                         .stats = a.stats,
                         .ids = ids,
                         .logprobs = logprobs,
                         .count = static_cast<int64_t>(all.top.size()),
                         .vocab = a.vocab,
                         .width = a.tile_width});
  gpu.download(ids, std::span(top.ids));
  gpu.download(logprobs, std::span(top.logprobs));
  return top;
}

}  // namespace

void sample_rows(Compute& compute, const SampleRowsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  if (a.rows.empty()) return;
  const Requests all = requests_of(a);
  std::vector<SampledToken> tokens(a.rows.size());
  SampledToken* const results = gpu.scratch<SampledToken>(static_cast<int64_t>(tokens.size()));
  sample_plain_rows(gpu, a, all, results);
  const TopOfRows top = top_of_rows(gpu, a, all);
  sample_filtered_rows(gpu, a, all, results);
  gpu.download(results, std::span(tokens));
  size_t next = 0;
  for (size_t i = 0; i < a.rows.size(); ++i) {
    const auto count = static_cast<size_t>(std::min<int64_t>(a.rows[i].top_logprobs, a.vocab));
    TokenChoice choice;
    if (tokens[i].finite != 0) {
      choice = {tokens[i].id, tokens[i].logprob, tokens[i].logprob_sampled, true, {}, {}};
      std::copy_n(top.ids.begin() + static_cast<std::ptrdiff_t>(next), count,
                  choice.top_ids.begin());
      std::copy_n(top.logprobs.begin() + static_cast<std::ptrdiff_t>(next), count,
                  choice.top_logprobs.begin());
    }
    next += count;
    a.choices[i] = choice;
  }
}

}  // namespace rl::cuda
