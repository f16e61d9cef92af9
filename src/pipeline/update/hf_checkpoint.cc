// In fp32, so that nothing is rounded.
#include "pipeline/update/hf_checkpoint.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "model/whole_tensors.h"

namespace rl {
namespace {

// Of the policy.
struct RowsOfTensor {
  const TensorInfo& tensor;
  int64_t first_row;
  std::span<float> out;
};

void read_trained_rows(const Model& model, const TensorList& trained, const RowsOfTensor& rows) {
  const auto read = [&](const Parameter& p, int64_t first, std::span<float> to) {
    const auto at = std::ranges::find(trained, p.name, &StateTensor::name);
    if (at == trained.end())
      return model.masters().part(p.offset + first, static_cast<int64_t>(to.size())).read(to);
    const auto out = std::as_writable_bytes(to);
    at->bytes.part(static_cast<uint64_t>(first) * sizeof(float), out.size()).read(out);
  };
  read_rows(model.layout(), rows.tensor, rows.first_row, read, rows.out);
}

bool is_divided(const Model& model) {
  return model.tensor_ranks().size() > 1 || !model.stage_ranks().alone() ||
         model.master_cut().divides();
}

}  // namespace

void add_hf_model(const LoadedModel& loaded, CheckpointDraft& draft) {
  if (!draft.meta.contents.hf_model) return;
  SaveOptions options = loaded.save_options();
  options.dtype = Dtype::kF32;
  if (is_divided(loaded.model())) {
    draft.save_model = [&model = loaded.model(), options = std::move(options),
                        whole = std::make_shared<WholeTensors>(loaded.model())](
                           FileSystem& fs, const std::string& dir) {
      const auto reader = [&](const TensorInfo& tensor, int64_t first_row, std::span<float> out) {
        whole->read(tensor, first_row, out);
      };
      save_hf_directory(fs, dir, model.whole_config(), reader, options);
    };
    return;
  }
  draft.save_model = [&model = loaded.model(), options = std::move(options),
                      trained = draft.models.front().arrays.front().tensors](
                         FileSystem& fs, const std::string& dir) {
    const auto reader = [&](const TensorInfo& tensor, int64_t first_row, std::span<float> out) {
      read_trained_rows(model, trained, {tensor, first_row, out});
    };
    save_hf_directory(fs, dir, model.config(), reader, options);
  };
}

}  // namespace rl
