// Loading masters from a source, publication and saving.
#include "model/model.h"

#include <algorithm>

#include "core/error.h"
#include "core/hash.h"
#include "model/rollout_weights.h"
#include "model/whole_tensors.h"

namespace rl {
namespace {

constexpr int64_t kLoadBytes = 1 << 20;  // of fp32 that are read at a time
constexpr int64_t kMaxRopeBytes = int64_t{1} << 30;

// Every parameter that the rank has, in runs of whole rows.
std::vector<FloatRun> cut_load(const WeightLayout& layout, const MasterFloats& masters) {
  std::vector<FloatRun> runs;
  for (const Parameter& p : layout.parameters()) {
    if (!masters.has(p.offset)) continue;
    const int64_t cols = p.shape.back(), rows = p.size / cols;
    const int64_t step =
        std::max<int64_t>(1, kLoadBytes / (cols * static_cast<int64_t>(sizeof(float))));
    for (int64_t r = 0; r < rows; r += step) {
      const int64_t from = p.offset + r * cols;
      runs.push_back({from, masters.at(from), std::min(step, rows - r) * cols});
    }
  }
  return runs;
}

void check_options(const ModelConfig& c, const ModelOptions& o, const Device& device) {
  if (o.block_size < 16 || o.block_size > 128 || (o.block_size & (o.block_size - 1)) != 0) {
    throw Error(Code::kOutOfRange,
                str("KV block size ", o.block_size, " is not a power of two in 16..128"))
        .with_key("engine.block_size")
        .with_expected("16, 32, 64 or 128");
  }
  if (o.compute_copies < 1 || o.compute_copies > 2) {
    throw Error(Code::kOutOfRange,
                str("model.compute_copies is ", o.compute_copies, ", outside 1..2"))
        .with_key("model.compute_copies")
        .with_expected("1 or 2");
  }
  if (const int64_t most = device.max_head_dim(); c.head_dim > most) {
    throw Error(Code::kUnsupported, str("head size ", c.head_dim, " is above ", most,
                                        ", the largest supported by the device ", device.name()))
        .with_key("head_dim")
        .with_expected(str("an even number up to ", most));
  }
  if (o.max_positions < 0 || o.max_positions > c.max_position) {
    throw Error(Code::kOutOfRange,
                str("max_positions ", o.max_positions, " exceeds the model's ", c.max_position))
        .with_key("engine.max_model_len")
        .with_expected(str("0..", c.max_position));
  }
  const int64_t positions = o.max_positions ? o.max_positions : c.max_position;
  const int64_t row_bytes = c.num_ropes() * c.head_dim * static_cast<int64_t>(sizeof(float));
  if (positions > kMaxRopeBytes / row_bytes) {
    throw Error(Code::kResourceExhausted,
                str("a rope table of ", positions, " positions needs more than ", kMaxRopeBytes,
                    " bytes; set engine.max_model_len"))
        .with_key("engine.max_model_len")
        .with_expected(str("1..", kMaxRopeBytes / row_bytes));
  }
}

}  // namespace

uint64_t Model::master_bytes(const ModelConfig& config, const MasterCut& cut) {
  return static_cast<uint64_t>(cut.floats(WeightLayout(config).total())) * sizeof(float);
}
uint64_t Model::packed_forward_bytes(const Device& device, const ModelConfig& config,
                                     Dtype compute) {
  return packed_bytes(plan_forward_shapes(device, config, compute));
}

uint64_t Model::borrowed_bytes(const Device& device, const ModelConfig& config, Dtype compute) {
  return ComputeCopy::borrowed_bytes(config, plan_forward_shapes(device, config, compute));
}

Model::Model(const WeightSource& source, Compute& compute, const ModelOptions& options)
    : cut_(options.cut),
      stages_(options.stages),
      tensor_(options.tensor),
      whole_config_((check_options(source.config(), options, compute.device()),
                     with_split(source.config(), options.split))),
      config_(with_stage(whole_config_, cut_, stages_.rank())),
      layout_(config_),
      master_cut_(options.masters),
      master_ranks_(options.master_ranks),
      compute_(compute),
      kv_format_{options.block_size, options.kv_dtype.value_or(compute_dtype())},
      max_positions_(options.max_positions ? options.max_positions : config_.max_position),
      slice_width_(options.slice_width),
      master_("master weights", options.frozen ? 0 : master_bytes(config_, master_cut_),
              Touch::kLater, compute.memory()) {
  RL_CHECK(!options.frozen || options.compute_copies == 1);
  RL_CHECK(config_.split.ranks() == tensor_.size() && cut_.stages == stages_.size());
  RL_CHECK(options.frozen || (!options.filled_later && options.borrowed == nullptr));
  RL_CHECK(options.rollout_bucket_bytes == 0 || (!options.frozen && options.compute_copies == 1));
  RL_CHECK(!master_cut_.divides() || (!options.frozen && options.compute_copies == 1 &&
                                      master_cut_.ranks() == master_ranks_.size()));
  const bool apart = options.compute_copies > 1 || options.frozen;
  const PackedShapes shapes =
      plan_forward_shapes(compute.device(), config_, compute_dtype(), slice_width_);
  for (int64_t i = 0; i < options.compute_copies; ++i) {
    copies_.push_back(options.borrowed != nullptr
                          ? std::make_unique<ComputeCopy>(config_, layout_, shapes,
                                                          options.borrowed, compute.ledger())
                          : std::make_unique<ComputeCopy>(config_, layout_, shapes, held_masters(),
                                                          apart, compute.memory()));
  }
  trained_ = copies_.front().get();
  published_ = trained_;
  ropes_.push_back(make_rope_table(config_.head_dim, max_positions_, config_.rope));
  if (config_.local_rope)
    ropes_.push_back(make_rope_table(config_.head_dim, max_positions_, *config_.local_rope));
  if (options.frozen) {
    if (!options.filled_later) trained_->update(compute_, WeightFloats(source, layout_));
  } else {
    load_masters(source);
    pack_loaded(source);
  }
  if (options.rollout_bucket_bytes != 0)
    rollout_ = std::make_unique<RolloutWeights>(source, *this, options);
}
Model::~Model() = default;

const Model& Model::rollout() const { return rollout_ != nullptr ? rollout_->model() : *this; }

void Model::load_masters(const WeightSource& source) {
  const WeightFloats weights(source, layout_);
  const auto read = [&](int64_t from, std::span<float> out) { weights.read(from, out); };
  const FloatReader reader = read;
  read_floats(compute_, {cut_load(layout_, held_masters()), &reader, nullptr});
}

// Every rank reads the whole file, so divided masters need no other rank here.
void Model::pack_loaded(const WeightSource& source) {
  trained_->update(compute_, master_cut_.divides() ? WeightFloats(source, layout_)
                                                   : WeightFloats(held_masters()));
}

MasterFloats Model::held_masters() const {
  if (frozen()) return {};
  const auto floats = static_cast<int64_t>(master_.bytes() / sizeof(float));
  return {DeviceFloats(compute_, master_.at<float>(0), floats), master_cut_};
}

const float* Model::rows(int64_t place, const PackedMatrix& packed, float* scratch) const {
  const MasterFloats masters = held_masters();
  if (masters.has(place)) return masters.at(place);
  unpack_rows(compute_, {packed, scratch});
  return scratch;
}

void Model::publish() { publish_as(version() + 1); }

WeightPin Model::pin() const {
  const std::lock_guard lock(pin_mutex_);
  const ComputeCopy& copy = published();
  if (&copy == packing_) {
    throw Error(Code::kBusy, str("version ", copy.version(), " of the weights is being replaced"));
  }
  return WeightPin(copy);
}

void Model::require_unpinned(const ComputeCopy& copy) const {
  const int64_t pins = copy.num_pins();
  if (pins == 0) return;
  throw Error(Code::kBusy, str("version ", copy.version(),
                               " of the weights cannot change: readers have pinned it (", pins,
                               "), and model.compute_copies is ", copies_.size()))
      .with_key("model.compute_copies");
}

// Its copy has no pins, and gets none.
class Model::Packing {
 public:
  Packing(Model& model, const ComputeCopy& copy) : model_(model) {
    const std::lock_guard lock(model.pin_mutex_);
    model.require_unpinned(copy);
    model.packing_ = &copy;
  }
  ~Packing() {
    const std::lock_guard lock(model_.pin_mutex_);
    model_.packing_ = nullptr;
  }
  Packing(const Packing&) = delete;
  Packing& operator=(const Packing&) = delete;

 private:
  Model& model_;
};

// What the next repack() writes.
ComputeCopy& Model::next_packed() const {
  if (copies_.size() == 1 || trained_ != &published()) return *trained_;
  return *copies_[trained_ == copies_[0].get() ? 1 : 0];
}

void Model::require_repackable() const {
  const std::lock_guard lock(pin_mutex_);
  require_unpinned(next_packed());
}

void Model::mark_masters_changed() {
  if (copies_.size() == 1) require_repackable();
  masters_changed_ = true;
}

void Model::repack(const MasterFloats::Await* await) {
  RL_CHECK(!frozen());
  ComputeCopy& next = next_packed();
  const Packing packing(*this, next);
  trained_ = &next;
  trained_->update(compute_, WeightFloats(held_masters(), await));
  if (master_cut_.divides()) trained_->gather(master_cut_, master_ranks_);
  packed_dropped_ = masters_changed_ = false;
  ++num_packings_;
}

void Model::copy_masters(const Model& from) {
  RL_CHECK(frozen() && !from.frozen() && from.layout_.total() == layout_.total());
  const Packing packing(*this, *trained_);
  from.master_cut_.divides() ? copy_packed(from)
                             : trained_->update(compute_, WeightFloats(from.held_masters()));
  ++num_packings_;
}

void Model::copy_packed(const Model& from) {
  int64_t largest = 0;
  for (const LayerMatrix& m : layout_.layer_matrices()) largest = std::max(largest, m.size);
  const Arena scratch("weights being read", static_cast<uint64_t>(largest) * sizeof(float),
                      Touch::kLater, compute_.memory());
  trained_->update_from(compute_, from.trained(), from.held_masters(),
                        [&](int64_t place, const PackedMatrix& packed) {
                          return from.rows(place, packed, scratch.at<float>(0));
                        });
}

void Model::fill(const WeightSource& source) {
  RL_CHECK(frozen());
  const Packing packing(*this, *trained_);
  trained_->update(compute_, WeightFloats(source, layout_));
  ++num_packings_;
}

void Model::replace_packed(uint64_t version, FunctionRef<void()> write) {
  RL_CHECK(frozen());
  const Packing packing(*this, *trained_);
  write();
  ++num_packings_;
  release_as(version);
}

// A published copy older than the masters cannot be recreated, so it stays.
void Model::drop_packed() {
  RL_CHECK(!frozen());
  if (master_cut_.divides()) {
    throw Error(Code::kUnsupported,
                "the packed weights cannot be dropped: with parallel.zero_stage = 3 no rank can "
                "pack all of them again by itself")
        .with_key("parallel.zero_stage");
  }
  const std::lock_guard lock(pin_mutex_);
  const bool remade = trained_ == &published() && !masters_changed_;
  for (const auto& copy : copies_) require_unpinned(*copy);
  for (const auto& copy : copies_) {
    if (copy.get() == &published() && !remade) continue;
    copy->drop_packed();
    packed_dropped_ = packed_dropped_ || copy.get() == trained_;
  }
}

void Model::restore_packed() {
  if (packed_dropped_) trained_->update(compute_, WeightFloats(held_masters()));
  packed_dropped_ = false;
}

void Model::release_as(uint64_t version) {
  if (rollout_ != nullptr) rollout_->take(version);
  trained_->set_release(version, ++num_releases_);
  published_.store(trained_, std::memory_order_release);
}

void Model::publish_as(uint64_t version) {
  repack();
  release_as(version);
}

uint64_t Model::arena_bytes() const {
  uint64_t bytes = master_.bytes();
  for (const auto& copy : copies_) bytes += copy->arena_bytes();
  return bytes;
}

uint64_t Model::weight_digest() const {
  RL_CHECK(!frozen());
  Digest64 digest;
  for (const Parameter& p : layout_.parameters()) {
    if (!held_masters().has(p.offset)) continue;
    held_masters().part(p.offset, p.size).visit([&](std::span<const float> part) {
      digest.update(std::as_bytes(part));
    });
  }
  return digest.value();
}

void Model::save(FileSystem& fs, const std::string& dir, const SaveOptions& options) const {
  RL_CHECK(!frozen());
  const WholeTensors whole(*this);
  if (tensor_.rank() != 0 || stages_.rank() != 0) return;
  const bool has_all = master_ranks_.rank() == 0 && master_ranks_.of_first_group();
  if (master_cut_.divides() && !has_all) return;
  save_hf_directory(
      fs, dir, whole_config_,
      [&](const TensorInfo& tensor, int64_t first_row, std::span<float> out) {
        whole.read(tensor, first_row, out);
      },
      options);
}

}  // namespace rl
