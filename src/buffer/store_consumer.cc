// The book is written before anything is said of it: a group is recorded before it is returned, and
// done before the store forgets it. So whatever a crash leaves behind, a delivery that comes again
// is found in the book.
#include "buffer/store_consumer.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <thread>
#include <utility>

#include "buffer/batch_bytes.h"
#include "data/sample_document.h"

namespace rl {
namespace {

constexpr int64_t kPollNs = 10'000'000;       // between two looks at the store
constexpr int64_t kSettleNs = 1'000'000'000;  // most to wait for another one that begins at once
constexpr int kInstanceBit = 48;  // of a sample's id, from which runtime.instance begins

[[noreturn]] void refuse_group(const std::string& place, const std::string& what) {
  throw Error(Code::kDataLoss, str(place, ": ", what)).with_location(place);
}

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// No bytes: nobody has begun to take.
StoreBook decode_book(const std::string& bytes, const ExperienceStore& store) {
  return bytes.empty() ? StoreBook() : StoreBook::decode(bytes, store.book_place());
}

// ": " and what it says; nothing for none.
std::string reason_of(const std::exception_ptr& failure) {
  try {
    if (failure != nullptr) std::rethrow_exception(failure);
    return {};
  } catch (const Error& e) {
    return str(": ", e.message);
  } catch (const std::exception& e) {
    return str(": ", e.what());
  }
}

}  // namespace

GroupKey key_of(std::span<const SamplePtr> group) {
  const GroupKey key{group[0]->id >> kInstanceBit, group[0]->ordinal};
  for (const SamplePtr& s : group) {
    if (s->id >> kInstanceBit == key.instance) continue;
    throw Error(Code::kInvalidArgument,
                str(sample_name(*s), " is of instance ", s->id >> kInstanceBit,
                    ", but the first of its group is of instance ", key.instance))
        .with_key("sample_id");
  }
  if (key.ordinal == std::numeric_limits<uint64_t>::max()) {
    throw Error(Code::kInvalidArgument, str(sample_name(*group[0]),
                                            " has the last ordinal, which "
                                            "no store can hold"))
        .with_key("ordinal");
  }
  return key;
}

std::vector<SamplePtr> decode_stored_group(std::string_view bytes, const std::string& place,
                                           int64_t group_size) {
  std::vector<SamplePtr> group = decode_samples(std::as_bytes(std::span(bytes)), place);
  if (static_cast<int64_t>(group.size()) != group_size) {
    throw Error(Code::kDataLoss,
                str(place, ": has ", group.size(), " samples, not one group of ", group_size))
        .with_key("pipeline.samples_per_prompt")
        .with_location(place);
  }
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i]->ordinal == group[0]->ordinal && group[i]->slot == i) continue;
    refuse_group(place,
                 str("is not one complete group: sample ", i, " is ", sample_name(*group[i])));
  }
  try {
    key_of(group);
  } catch (const Error& e) {
    refuse_group(place, e.message);
  }
  return group;
}

StoreConsumer::StoreConsumer(std::shared_ptr<ExperienceStore> store, int64_t group_size,
                             int64_t capacity, bool needs_scores, int64_t lease_ns)
    : store_(std::move(store)),
      group_size_(group_size),
      waiting_(group_size, capacity, needs_scores),
      lease_ns_(lease_ns) {
  waiting_.observe(removals_);
}

StoreConsumer::~StoreConsumer() {
  keeper_.reset();
  release();
}

// The number of the opening fences off a process that took before. Of two that begin at once after
// a lease has lapsed the one that wrote first finds the other's number.
bool StoreConsumer::open() {
  if (open_) return true;
  const int64_t now = now_ns();
  const std::string bytes = store_->read_book();
  StoreBook book = decode_book(bytes, *store_);
  if (!others_.is_over(book.lease, now)) return false;
  ++book.opening;
  book.lease = {};
  const int64_t settle_ns = std::min(lease_ns_ / 8, kSettleNs);
  if (lease_ns_ > 0) book.lease = {new_lease_holder(), 1, static_cast<uint64_t>(lease_ns_)};
  if (!begin_book(book, bytes)) return false;
  book_ = std::move(book);
  renewed_ns_ = now;
  if (lease_ns_ > 0) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(settle_ns));
    if (!is_current()) return false;
  }
  store_->recover();
  in_doubt_ = book_.has_taken();
  if (lease_ns_ > 0) keeper_ = std::make_unique<LeaseKeeper>(lease_ns_ / 4, [this] { renew(); });
  open_ = true;
  return true;
}

// False if another one with a lease wrote since it was read.
bool StoreConsumer::begin_book(const StoreBook& next, const std::string& before) {
  bool changed = false;
  try {
    store_->write_book(next.encode(), [&] {
      changed = lease_ns_ > 0 && store_->read_book() != before;
      if (changed) throw Error(Code::kBusy, str(store_->book_place(), " was written meanwhile"));
    });
  } catch (const Error&) {
    if (!changed) throw;
  }
  return !changed;
}

void StoreConsumer::refuse_busy() const {
  throw Error(Code::kBusy, str(store_->book_place(),
                               ": another process has the lease of this store, and writes to it"))
      .with_location(store_->book_place());
}

void StoreConsumer::require_open() {
  if (!open()) refuse_busy();
}

bool StoreConsumer::begin() {
  const std::lock_guard lock(mutex_);
  return open();
}

void StoreConsumer::require_own() {
  const std::lock_guard lock(mutex_);
  if (open_) return require_current();
  const int64_t now = now_ns();
  const StoreBook book = decode_book(store_->read_book(), *store_);
  if (!others_.is_over(book.lease, now)) refuse_busy();
}

// Whether the book is of this opening.
bool StoreConsumer::is_current() const {
  const StoreBook now = StoreBook::decode(store_->read_book(), store_->book_place());
  return now.opening == book_.opening && now.lease.holder == book_.lease.holder;
}

bool StoreConsumer::has_lapsed() const {
  return lease_ns_ > 0 && now_ns() - renewed_ns_ > lease_ns_;
}

void StoreConsumer::require_lease() const {
  if (!has_lapsed()) return;
  throw Error(Code::kFailedPrecondition,
              str(store_->book_place(),
                  ": the lease of this buffer has lapsed: it wrote nothing for more than ",
                  lease_ns_, " ns", reason_of(failure_)))
      .with_key("buffer.store_lease_ns")
      .with_location(store_->book_place());
}

void StoreConsumer::require_current() const {
  require_lease();
  if (is_current()) return;
  throw Error(
      Code::kFailedPrecondition,
      str(store_->book_place(),
          ": another process takes from this store since; this buffer is opening ", book_.opening))
      .with_location(store_->book_place());
}

// A write may take longer than the lease lasts: whoever has begun since keeps its book.
void StoreConsumer::write(StoreBook&& next) {
  require_current();
  ++next.lease.beat;
  const int64_t now = now_ns();
  store_->write_book(next.encode(), [this] { require_current(); });
  book_ = std::move(next);
  renewed_ns_ = now;
  require_lease();
}

// A failure shows when the lease lapses, or with the next write.
void StoreConsumer::renew() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    write(StoreBook(book_));
    failure_ = nullptr;
  } catch (const std::exception&) {
    if (!has_lapsed()) failure_ = std::current_exception();
  }
}

void StoreConsumer::release() noexcept {
  if (!open_ || lease_ns_ == 0) return;
  try {
    StoreBook next = book_;
    next.lease.holder = 0;
    store_->write_book(next.encode(), [this] { require_current(); });
  } catch (const std::exception&) {
    return;  // it lapses
  }
}

void StoreConsumer::drop_duplicate(const GroupKey& key, const StoredGroup& group) {
  ++counts_.duplicates;
  const auto waits = deliveries_.find(key.ordinal);
  const bool is_waiting =
      waits != deliveries_.end() && waits->second.key == key && waits->second.token == group.token;
  const auto taken = taken_.find(key);
  // The store has one group of this token, which is still needed.
  if (is_waiting || (taken != taken_.end() && taken->second == group.token)) return;
  owed_.push_back(group.token);
}

void StoreConsumer::admit(StoredGroup group) {
  std::vector<SamplePtr> samples;
  try {
    samples = decode_stored_group(group.bytes, store_->place(group.token), group_size_);
    const GroupKey key = key_of(samples);
    const auto waits = deliveries_.find(key.ordinal);
    const bool is_here = waits != deliveries_.end();
    if (book_.is_done(key) || book_.is_taken(key) || (is_here && waits->second.key == key)) {
      return drop_duplicate(key, group);
    }
    if (is_here) {
      deferred_.push_back(std::move(group));
      return;
    }
    waiting_.put_all(std::move(samples));
    deliveries_[key.ordinal] = {key, std::move(group.token)};
  } catch (Error& e) {
    set_aside(group);
    const std::string place = store_->place(group.token);
    if (!e.message.starts_with(place)) e.message = str(place, ": ", e.message);
    if (e.location.empty()) e.location = place;
    throw;
  }
}

// Whoever put it must not wait for it.
void StoreConsumer::set_aside(const StoredGroup& group) {
  const auto is_known = [&](const GroupKey& key) {
    const auto waits = deliveries_.find(key.ordinal);
    return book_.is_done(key) || book_.is_taken(key) ||
           (waits != deliveries_.end() && waits->second.key == key);
  };
  if (group.key && !is_known(*group.key)) {
    StoreBook next = book_;
    next.finish(*group.key);
    write(std::move(next));
  }
  store_->set_aside(group.token);
  ++counts_.damaged;
  if (!group.key) ++counts_.nameless;
}

// Claims what there is room for. Deliveries that a failure leaves unread are kept for the next
// time.
void StoreConsumer::fetch() {
  std::vector<StoredGroup> groups = std::exchange(deferred_, {});
  const int64_t room = (waiting_.capacity() - waiting_.num_samples()) / group_size_ -
                       static_cast<int64_t>(groups.size());
  if (room > 0) {
    try {
      for (StoredGroup& group : store_->claim(room)) groups.push_back(std::move(group));
      give_up_if_fenced();
    } catch (...) {
      deferred_ = std::move(groups);
      throw;
    }
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    try {
      admit(std::move(groups[i]));
    } catch (...) {
      std::move(groups.begin() + static_cast<std::ptrdiff_t>(i) + 1, groups.end(),
                std::back_inserter(deferred_));
      throw;
    }
  }
}

// Another one has begun to take since the last look, and these groups are its own.
void StoreConsumer::give_up_if_fenced() {
  if (is_current()) return;
  store_->recover();
  require_current();
}

// What the store need not keep. A failure is tried again later.
void StoreConsumer::settle() {
  while (!owed_.empty()) {
    store_->acknowledge(owed_.back());
    owed_.pop_back();
  }
}

// A group of an earlier process has no token here: the store delivers it again.
void StoreConsumer::forget(std::span<const GroupKey> done) {
  for (const GroupKey& key : done) {
    const auto found = taken_.find(key);
    if (found == taken_.end()) continue;
    owed_.push_back(std::move(found->second));
    taken_.erase(found);
  }
  counts_.acknowledged += static_cast<int64_t>(done.size());
  settle();
}

void StoreConsumer::finish_removed() {
  if (removals_.ordinals.empty()) return;
  StoreBook next = book_;
  for (const uint64_t ordinal : removals_.ordinals) next.finish(deliveries_.at(ordinal).key);
  write(std::move(next));
  for (const uint64_t ordinal : std::exchange(removals_.ordinals, {})) {
    owed_.push_back(std::move(deliveries_.at(ordinal).token));
    deliveries_.erase(ordinal);
  }
}

void StoreConsumer::record(std::span<const SamplePtr> batch, uint64_t step) {
  StoreBook next = book_;
  const auto size = static_cast<size_t>(group_size_);
  for (size_t i = 0; i < batch.size(); i += size) next.take(key_of(batch.subspan(i, size)), step);
  write(std::move(next));
  for (size_t i = 0; i < batch.size(); i += size) {
    const auto found = deliveries_.find(batch[i]->ordinal);
    taken_[found->second.key] = std::move(found->second.token);
    deliveries_.erase(found);
  }
}

void StoreConsumer::require_settled() const {
  if (!in_doubt_) return;
  throw Error(Code::kFailedPrecondition,
              str(store_->book_place(), ": an earlier process took groups for ",
                  book_.taken_steps(), "; say after which step training goes on"))
      .with_location(store_->book_place());
}

void StoreConsumer::require_later(uint64_t step) const {
  if (step > book_.step()) return;
  const std::string expected = str("at least ", book_.step() + 1);
  throw Error(Code::kOutOfRange, str("parameter take.step is ", step, ", expected ", expected,
                                     ": step ", book_.step(), " is acknowledged"))
      .with_key("take.step")
      .with_expected(expected);
}

// After an error the batch waits again.
std::vector<SamplePtr> StoreConsumer::take_now(const TakeRule& rule, uint64_t step) {
  const std::lock_guard lock(mutex_);
  if (!open()) return {};
  require_current();
  require_settled();
  require_later(step);
  settle();
  fetch();
  removals_.ordinals.reserve(deliveries_.size());
  std::vector<SamplePtr> batch = waiting_.take(rule, 0);
  try {
    finish_removed();
    if (!batch.empty()) record(batch, step);
  } catch (...) {
    waiting_.put_all(std::move(batch));
    throw;
  }
  return batch;
}

std::vector<SamplePtr> StoreConsumer::take(const TakeRule& rule, uint64_t step,
                                           int64_t timeout_ns) {
  const int64_t start = now_ns();
  for (;;) {
    std::vector<SamplePtr> batch = take_now(rule, step);
    const int64_t left = timeout_ns < 0 ? kPollNs : timeout_ns - (now_ns() - start);
    if (!batch.empty() || left <= 0) return batch;
    if (waiting_.wait_until_closed(std::min(left, kPollNs))) return {};
  }
}

void StoreConsumer::acknowledge(uint64_t step) {
  const std::lock_guard lock(mutex_);
  require_open();
  require_settled();
  StoreBook next = book_;
  const std::vector<GroupKey> done = next.acknowledge(step);
  if (!done.empty() || next.step() != book_.step()) write(std::move(next));
  forget(done);
}

void StoreConsumer::resume(uint64_t step) {
  const std::lock_guard lock(mutex_);
  require_open();
  if (step < book_.step()) {
    throw Error(Code::kFailedPrecondition,
                str("training cannot go on after step ", step, ": step ", book_.step(),
                    " was acknowledged, and its groups are gone"))
        .with_key("step")
        .with_expected(str("at least ", book_.step()))
        .with_location(store_->book_place());
  }
  StoreBook next = book_;
  const std::vector<GroupKey> done = next.acknowledge(step);
  const std::vector<GroupKey> returned = next.give_back();
  write(std::move(next));
  in_doubt_ = false;
  forget(done);
  taken_.clear();
  if (!returned.empty()) store_->recover();
}

void StoreConsumer::finish(std::span<const GroupKey> dropped) {
  const std::lock_guard lock(mutex_);
  StoreBook next = book_;
  for (const GroupKey& key : dropped) next.finish(key);
  write(std::move(next));
  forget(dropped);
}

int64_t StoreConsumer::drop(const DropRule& rule) {
  const std::lock_guard lock(mutex_);
  if (!open_) return 0;  // nothing is claimed, and who never takes must not fence off who does
  removals_.ordinals.reserve(deliveries_.size());
  const int64_t dropped = waiting_.drop(rule);
  finish_removed();
  return dropped;
}

StoreCounts StoreConsumer::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace rl
