// In fp32, so that nothing is rounded.
#include "pipeline/update/hf_checkpoint.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

// Of the policy.
struct RowsOfTensor {
  const TensorInfo& tensor;
  int64_t first_row;
  std::span<float> out;
};

void read_rows(const Model& model, const TensorList& trained, const RowsOfTensor& rows) {
  const int64_t first = rows.first_row * rows.tensor.cols();
  const auto is_it = [&](const auto& t) { return t.name == rows.tensor.name; };
  if (const auto at = std::ranges::find_if(trained, is_it); at != trained.end()) {
    const auto out = std::as_writable_bytes(rows.out);
    return at->bytes.part(static_cast<uint64_t>(first) * sizeof(float), out.size()).read(out);
  }
  const auto& all = model.layout().parameters();
  const auto at = std::ranges::find_if(all, is_it);
  RL_CHECK(at != all.end());
  model.masters().part(at->offset + first, static_cast<int64_t>(rows.out.size())).read(rows.out);
}

}  // namespace

void add_hf_model(const LoadedModel& loaded, CheckpointDraft& draft) {
  if (!draft.meta.contents.hf_model) return;
  SaveOptions options = loaded.save_options();
  options.dtype = Dtype::kF32;
  draft.save_model = [&model = loaded.model(), options = std::move(options),
                      trained = draft.models.front().arrays.front().tensors](
                         FileSystem& fs, const std::string& dir) {
    const auto reader = [&](const TensorInfo& tensor, int64_t first_row, std::span<float> out) {
      read_rows(model, trained, {tensor, first_row, out});
    };
    save_hf_directory(fs, dir, model.config(), reader, options);
  };
}

}  // namespace rl
