// The ranks that have the stages of one model (ModelConfig::stage), and what they tell each other:
// the residual goes from stage to stage, its gradient back, and what the last stage finds goes to
// all. Messages of different kinds have channels of their own, so none waits for another kind.
//
// Stages call the same functions in the same order; for one rank those that share do nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "comm/group.h"
#include "comm/mesh.h"

namespace rl {

// The connections of a rank's stage to the others, and what it is sending.
struct StageChannels {
  StageChannels(const std::shared_ptr<Transport>& transport, const Mesh& mesh,
                const MakeGroupOptions& options, MemorySpace space = MemorySpace::kHost);

  static constexpr int kGroups = 3;
  comm::Group rows, gradients, embeddings;
  const MemorySpace space;             // of what they are named after
  StartedCall gradient;                // on its way to the stage before
  std::vector<StartedCall> embedding;  // to the last stage, of some micro-batches
};

class StageRanks {
 public:
  StageRanks() = default;                                                 // one rank
  explicit StageRanks(StageChannels& channels) : channels_(&channels) {}  // which outlive it

  int rank() const { return channels_ != nullptr ? channels_->rows.rank() : 0; }
  int size() const { return channels_ != nullptr ? channels_->rows.size() : 1; }
  bool alone() const { return size() == 1; }
  bool is_last() const { return rank() + 1 == size(); }

  // The residual, to the next stage and from the one before. A stage sends until the next one
  // takes it.
  void send_rows(std::span<const float> x) const;
  void receive_rows(std::span<float> x) const;
  // Its gradient, the other way. It stays as it is until wait_gradient() has returned.
  void start_gradient(std::span<const float> dx) const;
  void wait_gradient() const;
  void receive_gradient(std::span<float> dx) const;
  // Gradients of embedding rows, from the first stage to the last. Each stays in its slot, one of
  // size(), until wait_embedding() has returned.
  void start_embedding(std::span<const float> dx, int64_t slot) const;
  void wait_embedding(int64_t slot) const;
  void receive_embedding(std::span<float> dx) const;
  // Gradients of the last stage, which the first one has too afterwards.
  void copy_to_first(std::span<float> values) const;

  // What each stage has, by stage.
  template <typename T>
  std::vector<T> gather(const T& own) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<size_t>(size()), own);
    gather_bytes(std::as_writable_bytes(std::span(all)));
    return all;
  }
  // Afterwards all stages have what the last one has.
  template <typename T>
  void share(std::span<T> values) const {
    static_assert(std::is_trivially_copyable_v<T>);
    share_bytes(std::as_writable_bytes(values));
  }
  template <typename T>
  void share(T& value) const {
    share(std::span<T>(&value, 1));
  }
  template <typename T>
  void share(std::vector<T>& values) const {
    uint64_t count = values.size();
    share(count);
    values.resize(static_cast<size_t>(count));
    share(std::span<T>(values));
  }
  // Each value is 0 on all stages but one, which afterwards all of them have.
  void fill(std::span<float> values) const;
  void fill(std::span<double> values) const;
  // Each stage has a piece of packed weights, in memory of the device; afterwards every one has all
  // pieces.
  void gather_weights(std::span<std::byte> all, const Pieces& pieces) const;
  // Bytes from a later stage to the first.
  void give(std::span<const std::byte> bytes) const;
  void take(std::span<std::byte> bytes, int from) const;

  // What this rank has exchanged.
  Traffic traffic() const;

 private:
  void gather_bytes(std::span<std::byte> pieces) const;
  void share_bytes(std::span<std::byte> bytes) const;
  Values on_device(std::span<float> values) const { return values_of(values, channels_->space); }
  ConstValues on_device(std::span<const float> values) const {
    return const_values_of(values, channels_->space);
  }

  StageChannels* channels_ = nullptr;
};

}  // namespace rl
