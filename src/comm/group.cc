// A reduction sends each rank the others' values of its piece, which that rank adds up in rank
// order; an all-reduce then gathers the pieces. Both move (size - 1) / size of the values out of
// and into each rank, which is the least there is, and no step depends on who comes first.
#include "comm/group.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/clock.h"

namespace rl::comm {
namespace {

constexpr uint64_t kChannelOfAll = kNumAxes;

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

int64_t deadline_after(int64_t timeout_ns) {
  const int64_t now = real_clock().now_ns();
  int64_t deadline = 0;
  if (timeout_ns < 0 || __builtin_add_overflow(now, timeout_ns, &deadline)) return -1;
  return deadline;
}

template <typename Byte>
std::span<Byte> part_of(const BasicValues<Byte>& values, Piece piece) {
  const uint64_t size = element_bytes(values.element);
  return {values.data + piece.begin * size, static_cast<size_t>(piece.count() * size)};
}

template <typename Byte>
void require_array(const BasicValues<Byte>& values, const char* call) {
  if (values.data == nullptr && values.count > 0) {
    throw Error(Code::kInvalidArgument, str(call, ": ", values.count, " values at NULL"));
  }
  if (reinterpret_cast<uintptr_t>(values.data) % element_bytes(values.element) != 0) {
    throw Error(Code::kInvalidArgument,
                str(call, ": the address of ", element_name(values.element),
                    " values is not a multiple of ", element_bytes(values.element)));
  }
}

template <typename Byte>
void require_pieces(const BasicValues<Byte>& values, const Pieces& pieces, int size) {
  RL_CHECK(pieces.parts() == size && pieces.count() == values.count);
  RL_CHECK(pieces.bounds.front() == 0 && std::ranges::is_sorted(pieces.bounds));
}

template <typename Message>
uint64_t bytes_of(const std::vector<Message>& messages) {
  uint64_t sum = 0;
  for (const Message& message : messages) sum += message.bytes.size();
  return sum;
}

Piece all_of(uint64_t count) { return {0, count}; }

}  // namespace

// One call of a collective: its name for errors, its deadline and the messages of a step.
class Group::Call {
 public:
  Call(Group& group, const TrafficCounter::Kind& kind, Way way)
      : group_(group),
        kind_(kind),
        way_(way),
        what_(str(collective_name(kind.call), " on axis ", group.axis_,
                  way == Way::kDevice ? ", from device to device" : "")),
        deadline_ns_(deadline_after(group.options_.timeout_ns)) {}

  Way way() const { return way_; }

  void send(int to, std::span<const std::byte> bytes) {
    out_.push_back({group_.ranks_[static_cast<size_t>(to)], bytes});
  }
  void receive(int from, std::span<std::byte> bytes) {
    in_.push_back({group_.ranks_[static_cast<size_t>(from)], bytes});
  }
  // Exchanges the messages of this step.
  void step() {
    if (way_ == Way::kHost) group_.transport_->exchange(exchange());
    if (way_ == Way::kStaged) step_in_rounds();
    if (way_ == Way::kDevice) step_on_device();
    count_step();
  }
  // In place of a step: run(devices, call) adds up in the order of the devices' library. The
  // messages, which are those of a sum in rank order, tell the ranks whether their sizes agree.
  template <typename Run>
  void step_in_own_order(const Run& run) {
    begin_on_device();
    run(*group_.device_, on_device());
    count_step();
  }
  // In place of a step whose messages the library makes by itself. They are the least that there is
  // unless the network adds up; what it moves is its own.
  void count_step() {
    count();
    clear();
  }
  // Before steps on devices that exchange chunks of these messages: the ranks agree on the whole.
  void agree() {
    begin_on_device();
    clear();
  }
  // What this rank gives to itself, once it has made a step.
  void copy(std::span<const std::byte> from, std::span<std::byte> to) {
    if (from.empty()) return;
    if (way_ == Way::kHost) std::memcpy(to.data(), from.data(), from.size());
    if (way_ == Way::kStaged) group_.options_.staging->copy(from, to.data());
    if (way_ == Way::kDevice) group_.device_->copy(from, to.data());
  }
  // After the last step.
  void end() {
    if (way_ == Way::kDevice) group_.device_->end(on_device());
  }
  // The same, reading them where they are; false if the backend cannot.
  bool step_in_place(const Transport::ReadInPlace& read) {
    const bool done = group_.transport_->exchange_in_place(exchange(), read);
    if (done) count();
    clear();
    return done;
  }

 private:
  void step_in_rounds() {
    const int others = std::max(1, group_.size() - 1);
    group_.options_.staging->exchange(
        out_, in_, others, [&](std::span<const Outgoing> out, std::span<const Incoming> in) {
          group_.transport_->exchange({group_.channel_, what_, out, in, deadline_ns_});
        });
  }
  void begin_on_device() {
    if (!std::exchange(has_begun_, true)) group_.device_->begin(exchange());
  }
  void step_on_device() {
    begin_on_device();
    group_.device_->exchange(exchange());
  }
  DeviceSteps::Call on_device() const { return {group_.channel_, what_, deadline_ns_}; }
  Exchange exchange() const { return {group_.channel_, what_, out_, in_, deadline_ns_}; }
  void count() { group_.traffic_->add(kind_, {bytes_of(out_), bytes_of(in_)}); }
  void clear() {
    out_.clear();
    in_.clear();
  }

  Group& group_;
  const TrafficCounter::Kind kind_;
  const Way way_;
  bool has_begun_ = false;  // on devices
  std::string what_;
  int64_t deadline_ns_;
  std::vector<Outgoing> out_;
  std::vector<Incoming> in_;
};

Group::Group(std::shared_ptr<Transport> transport, const Mesh& mesh, Axis axis,
             GroupOptions options, int channel)
    : Group(std::move(transport), mesh.ranks(axis),
            options.axis != nullptr ? options.axis : axis_name(axis), options) {
  channel_ = static_cast<uint64_t>(axis) + static_cast<uint64_t>(channel) * (kChannelOfAll + 1);
  RL_CHECK(mesh.num_ranks() == transport_->size() && mesh.rank() == transport_->rank());
  join_devices();
}

Group::Group(std::shared_ptr<Transport> transport, GroupOptions options)
    : Group(transport, all_ranks(transport->size()), "all", options) {
  join_devices();
}

Group::Group(std::shared_ptr<Transport> transport, std::vector<int> ranks, std::string axis,
             GroupOptions options)
    : transport_(std::move(transport)),
      ranks_(std::move(ranks)),
      axis_(std::move(axis)),
      options_(options),
      channel_(kChannelOfAll) {
  RL_CHECK(options.chunk_bytes >= 8 && options.chunk_bytes % 8 == 0);
  const auto own = std::find(ranks_.begin(), ranks_.end(), transport_->rank());
  RL_CHECK(own != ranks_.end());
  rank_ = static_cast<int>(own - ranks_.begin());
}

void Group::join_devices() {
  if (options_.device == nullptr) return;
  const std::string what = str("joining devices on axis ", axis_);
  device_ = std::make_unique<DeviceSteps>(
      DeviceRanks{transport_, options_.device, ranks_},
      DeviceSteps::Call{channel_, what, deadline_after(options_.timeout_ns)});
}

uint64_t Group::scratch_bytes(int size, const GroupOptions& options) {
  return static_cast<uint64_t>(size - 1) * options.chunk_bytes;
}

template <typename Byte>
void Group::require_values(const BasicValues<Byte>& values, const char* call) const {
  if (way_of(values.space) == Way::kStaged && options_.staging == nullptr)
    throw Error(Code::kUnsupported, str(call, ": the backend reaches the host's memory alone"));
  require_array(values, call);
}

void Group::require_two(const ConstValues& from, const Values& to, const char* call) const {
  require_values(from, call);
  require_values(to, call);
  RL_CHECK(from.space == to.space);
  if (from.data >= to.data + to.bytes() || to.data >= from.data + from.bytes()) return;
  throw Error(Code::kInvalidArgument, str(call, ": the two arrays overlap"));
}

void Group::require_numbers(const Values& values, const char* call) const {
  require_values(values, call);
  const Element element = values.element;
  if (element == Element::kByte)
    throw Error(Code::kUnsupported, str(call, ": reductions are of numbers, not of bytes"));
  if (way_of(values.space) != Way::kDevice || element != Element::kI64) return;
  throw Error(Code::kUnsupported,
              str(call, ": reductions on devices are of fp32, bf16 or int32, not of ",
                  element_name(element)));
}

template <typename Run>
void Group::in_windows(const Values& values, Piece changed, const Run& run) {
  if (way_of(values.space) != Way::kStaged) return run(values, all_of(values.count));
  options_.staging->pass(values, changed, run);
}

Group::Job Group::all_reduce_job(const Values& values, Reduction reduction) {
  require_numbers(values, "all_reduce");
  if (has_own_order(values, reduction)) return own_order_job(values);
  return {Collective::kAllReduce,
          [this, values, reduction](Call& call) {
            in_windows(values, all_of(values.count), [&](const Values& now, Piece) {
              const Pieces pieces = even(now);
              reduce_piece(call, {now, pieces, in_rank_order(reduction, now.space)});
              gather_pieces(call, now, pieces);
            });
          },
          way_of_sums(values.space)};
}

Group::Job Group::reduce_scatter_job(const Values& values, const Pieces& pieces,
                                     Reduction reduction) {
  require_numbers(values, "reduce_scatter");
  require_pieces(values, pieces, size());
  if (has_own_order(values, reduction)) return own_order_job(DividedValues{values, pieces});
  return {Collective::kReduceScatter,
          [this, values, pieces, reduction](Call& call) {
            in_windows(values, pieces[rank_], [&](const Values& now, Piece window) {
              const Pieces within = pieces.within(window);
              reduce_piece(call, {now, within, in_rank_order(reduction, now.space)});
            });
          },
          way_of_sums(values.space)};
}

bool Group::has_own_order(const Values& values, Reduction reduction) const {
  const bool has_sum = values.element == Element::kF32 || values.element == Element::kBf16;
  return options_.own_order_on_devices && way_of(values.space) == Way::kDevice &&
         reduction == Reduction::kSum && has_sum;
}

Group::Job Group::own_order_job(const Values& values) {
  return {Collective::kAllReduce,
          [this, values](Call& call) {
            const Pieces pieces = even(values);
            queue_parts(call, values, pieces);
            call.step_in_own_order([&](DeviceSteps& devices, const DeviceSteps::Call& now) {
              devices.all_reduce_own_order(now, values);
            });
            queue_pieces(call, values, pieces);
            call.count_step();
          },
          Way::kDevice};
}

Group::Job Group::own_order_job(const DividedValues& all) {
  return {Collective::kReduceScatter,
          [this, all](Call& call) {
            queue_parts(call, all.values, all.pieces);
            call.step_in_own_order([&](DeviceSteps& devices, const DeviceSteps::Call& now) {
              devices.reduce_scatter_own_order(now, all);
            });
          },
          Way::kDevice};
}

Group::Job Group::all_gather_job(const Values& values, const Pieces& pieces) {
  require_values(values, "all_gather");
  require_pieces(values, pieces, size());
  return {Collective::kAllGather,
          [this, values, pieces](Call& call) { gather_pieces(call, values, pieces); },
          way_of(values.space)};
}

void Group::reduce_piece(Call& call, const Reduce& what) {
  if (call.way() == Way::kDevice || !reduce_in_place(call, what)) reduce_in_chunks(call, what);
}

Group::TakeParts Group::in_rank_order(Reduction reduction, MemorySpace space) {
  if (way_of(space) == Way::kDevice) {
    return [this, reduction](std::span<const std::byte* const>, const Values& out) {
      device_->reduce(reduction, out);
    };
  }
  return [reduction](std::span<const std::byte* const> parts, const Values& out) {
    reduce_in_rank_order(reduction, parts, out);
  };
}

// Each rank writes its own piece alone, and others read that piece in no rank but in their own.
bool Group::reduce_in_place(Call& call, const Reduce& what) {
  const Values& values = what.values;
  const Piece own = what.pieces[rank_];
  const std::span<std::byte> target = part_of(values, own);
  queue_parts(call, values, what.pieces);
  std::vector<const std::byte*> parts;
  parts.reserve(static_cast<size_t>(size()));  // the callback may throw nothing
  return call.step_in_place([&](std::span<const std::byte* const> others) {
    parts.assign(others.begin(), others.end());
    parts.insert(parts.begin() + rank_, target.data());
    what.take(parts, {target.data(), own.count(), values.element});
  });
}

void Group::reduce_in_chunks(Call& call, const Reduce& what) {
  const Values& values = what.values;
  const Slots slots = this->slots(call.way());
  const uint64_t chunk = slots.bytes / element_bytes(values.element);
  const Piece own = what.pieces[rank_];
  if (call.way() == Way::kDevice) {
    queue_parts(call, values, what.pieces);
    call.agree();
  }
  // All ranks make as many steps as the longest piece needs, at least one.
  const uint64_t longest = std::max<uint64_t>(1, what.pieces.longest());
  std::vector<const std::byte*> parts(static_cast<size_t>(size()));
  for (uint64_t done = 0; done < longest; done += chunk) {
    const auto now = [&](Piece piece) {
      return Piece{std::min(piece.begin + done, piece.end),
                   std::min(piece.begin + done + chunk, piece.end)};
    };
    const std::span<std::byte> target = part_of(values, now(own));
    std::byte* slot = slots.data;
    for (int r = 0; r < size(); ++r) {
      parts[static_cast<size_t>(r)] = r == rank_ ? target.data() : slot;
      if (r == rank_) continue;
      call.send(r, part_of(values, now(what.pieces[r])));
      call.receive(r, {slot, target.size()});
      slot += slots.bytes;
    }
    call.step();
    what.take(parts, {target.data(), now(own).count(), values.element, values.space});
  }
}

Group::Slots Group::slots(Way way) {
  if (way == Way::kDevice) return {device_->slots(), device_->slot_bytes()};
  if (scratch_.empty()) scratch_.resize(scratch_bytes(size(), options_));
  return {scratch_.data(), options_.chunk_bytes};
}

void Group::gather_pieces(Call& call, const Values& values, const Pieces& pieces) {
  queue_pieces(call, values, pieces);
  call.step();
}

void Group::queue_parts(Call& call, const Values& values, const Pieces& pieces) {
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    call.send(r, part_of(values, pieces[r]));
    call.receive(r, part_of(values, pieces[rank_]));
  }
}

void Group::queue_pieces(Call& call, const Values& values, const Pieces& pieces) {
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    call.send(r, part_of(values, pieces[rank_]));
    call.receive(r, part_of(values, pieces[r]));
  }
}

Group::Job Group::all_to_all_job(const ConstValues& from, const Values& to) {
  const auto parts = static_cast<uint64_t>(size());
  if (from.count != to.count || from.element != to.element || from.count % parts != 0) {
    throw Error(
        Code::kInvalidArgument,
        str("all_to_all of ", from.count, " ", element_name(from.element), " to ", to.count, " ",
            element_name(to.element), ": expected one type and one multiple of ", size()));
  }
  return all_to_all_job({from, even_pieces(from.count, size())},
                        DividedValues{to, even_pieces(to.count, size())});
}

Group::Job Group::all_to_all_job(const ConstDividedValues& from, const DividedValues& to) {
  const ConstValues& out = from.values;
  const Values& in = to.values;
  require_two(out, in, "all_to_all");
  require_pieces(out, from.pieces, size());
  require_pieces(in, to.pieces, size());
  RL_CHECK(from.pieces[rank_].count() == to.pieces[rank_].count());
  return {Collective::kAllToAll,
          [this, from, to](Call& call) {
            for (int r = 0; r < size(); ++r) {
              if (r == rank_) continue;
              call.send(r, part_of(from.values, from.pieces[r]));
              call.receive(r, part_of(to.values, to.pieces[r]));
            }
            call.step();
            call.copy(part_of(from.values, from.pieces[rank_]),
                      part_of(to.values, to.pieces[rank_]));
          },
          way_of(from.values.space)};
}

Group::Job Group::broadcast_job(const Values& values, int root) {
  require_values(values, "broadcast");
  require_rank(root, "broadcast");
  return {Collective::kBroadcast,
          [this, values, root](Call& call) {
            const bool gives = root == rank_;
            if (!gives) call.receive(root, values.span());
            for (int r = 0; gives && r < size(); ++r) {
              if (r != rank_) call.send(r, values.span());
            }
            call.step();
          },
          way_of(values.space)};
}

Group::Job Group::shift_job(const ConstValues& from, const Values& to) {
  require_two(from, to, "shift");
  const int next = (rank_ + 1) % size(), before = (rank_ + size() - 1) % size();
  require_other_rank(next, "shift");
  return {Collective::kMessage,
          [from, to, next, before](Call& call) {
            call.send(next, from.span());
            call.receive(before, to.span());
            call.step();
          },
          way_of(from.space)};
}

Group::Job Group::send_job(const ConstValues& values, int to) {
  require_values(values, "send");
  require_other_rank(to, "send");
  return {Collective::kMessage,
          [values, to](Call& call) {
            call.send(to, values.span());
            call.step();
          },
          way_of(values.space)};
}

Group::Job Group::receive_job(const Values& values, int from) {
  require_values(values, "receive");
  require_other_rank(from, "receive");
  return {Collective::kMessage,
          [values, from](Call& call) {
            call.receive(from, values.span());
            call.step();
          },
          way_of(values.space)};
}

void Group::barrier() {
  run({Collective::kBarrier, [this](Call& call) {
         for (int r = 0; r < size(); ++r) {
           if (r == rank_) continue;
           call.send(r, {});
           call.receive(r, {});
         }
         call.step();
       }});
}

void Group::run_as(const Job& job, TrafficUse use, bool started) {
  Call call(*this, {job.collective, use, started}, job.way);
  run_checked(options_.memory, [&] {
    job.run(call);
    call.end();
  });
}

void Group::run(const Job& job) {
  if (started_ != nullptr) started_->drain();
  run_as(job, use_, overlapped_);
}

StartedCall Group::start(Job job) {
  if (started_ == nullptr) started_ = std::make_unique<CallQueue>();
  return started_->start([this, job = std::move(job), use = use_] { run_as(job, use, true); });
}

void Group::all_reduce(const Values& values, Reduction reduction) {
  run(all_reduce_job(values, reduction));
}
void Group::reduce_scatter(const Values& values, Reduction reduction) {
  run(reduce_scatter_job(values, even(values), reduction));
}
void Group::reduce_scatter(const Values& values, const Pieces& pieces, Reduction reduction) {
  run(reduce_scatter_job(values, pieces, reduction));
}
void Group::scatter_chunks(const Values& values, const Pieces& pieces, const TakeParts& take) {
  require_values(values, "reduce_scatter");
  require_pieces(values, pieces, size());
  if (way_of(values.space) == Way::kDevice)
    throw Error(Code::kUnsupported, "reduce_scatter: what a callback adds up is the host's");
  run({Collective::kReduceScatter, [&](Call& call) {
         in_windows(values, pieces[rank_], [&](const Values& now, Piece window) {
           reduce_in_chunks(call, {now, pieces.within(window), take});
         });
       }});
}
void Group::all_gather(const Values& values) { run(all_gather_job(values, even(values))); }
void Group::all_gather(const Values& values, const Pieces& pieces) {
  run(all_gather_job(values, pieces));
}
void Group::all_to_all(const ConstValues& from, const Values& to) { run(all_to_all_job(from, to)); }
void Group::all_to_all(const ConstDividedValues& from, const DividedValues& to) {
  run(all_to_all_job(from, to));
}
void Group::broadcast(const Values& values, int root) { run(broadcast_job(values, root)); }
void Group::shift(const ConstValues& from, const Values& to) { run(shift_job(from, to)); }
void Group::send(const ConstValues& values, int to) { run(send_job(values, to)); }
void Group::receive(const Values& values, int from) { run(receive_job(values, from)); }

StartedCall Group::start_all_reduce(const Values& values, Reduction reduction) {
  return start(all_reduce_job(values, reduction));
}
StartedCall Group::start_reduce_scatter(const Values& values, Reduction reduction) {
  return start(reduce_scatter_job(values, even(values), reduction));
}
StartedCall Group::start_reduce_scatter(const Values& values, const Pieces& pieces,
                                        Reduction reduction) {
  return start(reduce_scatter_job(values, pieces, reduction));
}
StartedCall Group::start_all_gather(const Values& values) {
  return start(all_gather_job(values, even(values)));
}
StartedCall Group::start_all_gather(const Values& values, const Pieces& pieces) {
  return start(all_gather_job(values, pieces));
}
StartedCall Group::start_all_to_all(const ConstValues& from, const Values& to) {
  return start(all_to_all_job(from, to));
}
StartedCall Group::start_broadcast(const Values& values, int root) {
  return start(broadcast_job(values, root));
}
StartedCall Group::start_shift(const ConstValues& from, const Values& to) {
  return start(shift_job(from, to));
}
StartedCall Group::start_send(const ConstValues& values, int to) {
  return start(send_job(values, to));
}
StartedCall Group::start_receive(const Values& values, int from) {
  return start(receive_job(values, from));
}

void Group::require_rank(int rank, const char* call) const {
  if (rank >= 0 && rank < size()) return;
  throw Error(Code::kOutOfRange, str(call, ": rank is ", rank, ", expected 0..", size() - 1));
}

void Group::require_other_rank(int rank, const char* call) const {
  require_rank(rank, call);
  if (rank != rank_) return;
  throw Error(Code::kInvalidArgument, str(call, ": rank ", rank, " is this rank itself"));
}

}  // namespace rl::comm
