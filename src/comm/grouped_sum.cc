// No circle of waits: of each chunk the ranks of a group meet first, then it goes from group to
// group, and no rank begins a chunk before it has passed on the one before.
#include "comm/grouped_sum.h"

#include <algorithm>
#include <utility>

#include "comm/rank_order.h"

namespace rl::comm {
namespace {

GroupOptions part_of(const GroupOptions& options, const char* axis) {
  GroupOptions out = options.named(axis);
  out.memory = {};
  return out;
}

ConstValues as_const(const Values& values) {
  return {values.data, values.count, values.element, values.space};
}

}  // namespace

GroupedSum::GroupedSum(std::shared_ptr<Transport> transport, const Mesh& mesh,
                       const GroupOptions& options)
    : chunk_bytes_(options.chunk_bytes),
      memory_(options.memory),
      within_(transport, mesh, Axis::kContext, part_of(options, "data, sums of a group"), kChannel),
      across_(std::move(transport), mesh, Axis::kData, part_of(options, "data, between groups"),
              kChannel) {}

// The most values of a chunk are those of bf16.
uint64_t GroupedSum::scratch_bytes(int size, const GroupOptions& options) {
  return Group::scratch_bytes(size, options) +
         options.chunk_bytes / element_bytes(Element::kBf16) * sizeof(float);
}

void GroupedSum::run_as(bool overlapped, const std::function<void()>& sum) {
  within_.count_as(TrafficUse::kGradients, overlapped);
  across_.count_as(TrafficUse::kGradients, overlapped);
  run_checked(memory_, sum);
}

void GroupedSum::run(const std::function<void()>& sum) {
  if (started_ != nullptr) started_->drain();
  run_as(false, sum);
}

StartedCall GroupedSum::start(std::function<void()> sum) {
  if (started_ == nullptr) started_ = std::make_unique<CallQueue>();
  return started_->start([this, sum = std::move(sum)] { run_as(true, sum); });
}

void GroupedSum::reduce_scatter(const Values& values, const Pieces& pieces) {
  run([&] { sum_pieces(values, pieces); });
}

void GroupedSum::all_reduce(const Values& values) {
  run([&] { sum_all(values); });
}

StartedCall GroupedSum::start_reduce_scatter(const Values& values, const Pieces& pieces) {
  return start([this, values, pieces] { sum_pieces(values, pieces); });
}

StartedCall GroupedSum::start_all_reduce(const Values& values) {
  return start([this, values] { sum_all(values); });
}

void GroupedSum::sum_all(const Values& values) {
  const Pieces pieces = even_pieces(values.count, size());
  sum_pieces(values, pieces);
  within_.all_gather(values, pieces);
}

void GroupedSum::sum_pieces(const Values& values, const Pieces& pieces) {
  within_.scatter_chunks(values, pieces,
                         [this](std::span<const std::byte* const> parts, const Values& chunk) {
                           if (chunk.count > 0) add_chunk(parts, chunk);
                         });
  const Piece own = pieces[rank()];
  const uint64_t each = element_bytes(values.element);
  return_sums({values.data + own.begin * each, own.count(), values.element, values.space});
}

void GroupedSum::add_chunk(std::span<const std::byte* const> parts, const Values& chunk) {
  sums_.resize(std::max<size_t>(sums_.size(), chunk.count));
  const Values sums = values_of(std::span(sums_).first(chunk.count));
  if (!is_first()) across_.receive(sums, group() - 1);
  const float* const before = is_first() ? nullptr : sums_.data();
  add_in_rank_order(before, parts, chunk.element, is_last() ? chunk : sums);
  if (!is_last()) across_.send(as_const(sums), group() + 1);
}

void GroupedSum::return_sums(const Values& own) {
  const uint64_t each = element_bytes(own.element), most = chunk_bytes_ / each;
  for (uint64_t first = 0; first < own.count; first += most) {
    const Values chunk{own.data + first * each, std::min(most, own.count - first), own.element,
                       own.space};
    if (!is_last()) across_.receive(chunk, group() + 1);
    if (!is_first()) across_.send(as_const(chunk), group() - 1);
  }
}

Traffic GroupedSum::traffic() const {
  Traffic between = across_.traffic();
  between.between = between.total();
  Traffic all = within_.traffic();
  all += between;
  return all;
}

}  // namespace rl::comm
