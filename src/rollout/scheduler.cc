#include "rollout/scheduler.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

// True if nothing was sampled yet, so the sequence can take over another one's prompt KV.
bool is_fresh(const Sequence& s) { return s.length() == s.request->first_tokens(); }

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, KvBlocks& blocks, SwapSpace& swap)
    : limits_(limits), blocks_(blocks), swap_(swap), lanes_(limits.lanes) {
  RL_CHECK(limits.max_num_seqs > 0 && limits.prefill_chunk >= 0 && limits.watermark_blocks >= 0);
  RL_CHECK(limits.max_num_batched_tokens >= limits.max_num_seqs);
  const auto most = static_cast<size_t>(limits.max_num_seqs);
  running_.reserve(most);
  spare_nodes_.reserve(most);
  schedule_.rows.reserve(most);
  // A step swaps at most every block, and copies at most one per sequence.
  schedule_.transfers.reserve(static_cast<size_t>(blocks.pool().num_blocks()) + most);
}

// Everything that allocates comes first, so that a failure changes nothing.
void Scheduler::submit(std::unique_ptr<ActiveRequest> request) {
  Waiting fresh;
  for (Sequence& s : request->sequences) fresh.insert(&s);
  if (ended_requests_.capacity() <= requests_.size()) {
    ended_requests_.reserve(2 * requests_.size() + 1);
  }
  const uint64_t number = request->number;
  requests_.emplace(number, std::move(request));
  waiting_.merge(fresh);
}

const StepSchedule& Scheduler::next() {
  schedule_.rows.clear();
  if (handed_out_) schedule_.transfers.clear();
  handed_out_ = false;
  schedule_.decode_rows = schedule_.prefill_rows = 0;
  const bool all_served = schedule_running();
  if (all_served) admit_waiting();
  RL_CHECK(!schedule_.rows.empty() || nothing_runnable());
  handed_out_ = true;
  return schedule_;
}

// A sequence that finds no lane while none has begun leaves none for those behind it.
bool Scheduler::nothing_runnable() const {
  if (num_begun() > 0) return false;
  return !admitting_ || waiting_.empty() || !lanes_.has_room(**waiting_.begin());
}

// False when a sequence was preempted or a prompt found no room: nothing is admitted then.
bool Scheduler::schedule_running() {
  const auto one_row = std::count_if(running_.begin(), running_.end(), [](const Sequence* s) {
    return !s->follows && s->length() - s->computed == 1;
  });
  prompt_room_ = limits_.max_num_batched_tokens - one_row;
  const int64_t preemptions = counts_.preemptions;
  bool all_served = true;
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& s = *running_[i];
    if (s.follows) continue;
    const int64_t rows = rows_to_go(s);
    if (rows == 0) {
      all_served = false;
    } else if (make_room(s, s.computed + rows)) {
      if (s.length() - s.computed > 1) prompt_room_ -= rows;
      add_rows(s, rows);
    }
  }
  prompt_room_ = limits_.max_num_batched_tokens - schedule_.num_rows();
  return all_served && counts_.preemptions == preemptions;
}

int64_t Scheduler::rows_to_go(const Sequence& s) const {
  const int64_t left = s.length() - s.computed;
  if (left == 1) return 1;
  int64_t rows = std::min(left, prompt_room_);
  if (!limits_.chunked_prefill) return rows == left ? rows : 0;
  if (limits_.prefill_chunk > 0) rows = std::min(rows, limits_.prefill_chunk);
  return rows;
}

void Scheduler::admit_waiting() {
  if (!admitting_ && begun_waiting_ == 0) return;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (num_running() == limits_.max_num_seqs) return;
    Sequence& s = **it++;
    if (!s.begun && (!admitting_ || !lanes_.has_room(s))) continue;
    if (!s.sample) prepare_to_run(s, blocks_);
    if (s.request->leader)
      follow(s);
    else if (prompt_room_ == 0 || !admit(s))
      return;
  }
}

// A sequence that cannot follow waits until the leader has put the prompt into the cache.
void Scheduler::follow(Sequence& s) {
  if (!is_fresh(s) || !is_fresh(*s.request->leader)) return;
  s.follows = true;
  start_running(s);
}

bool Scheduler::admit(Sequence& s) {
  if (!(s.swapped.empty() ? take_prefix(s) : swap_in(s))) return false;
  start_running(s);
  const int64_t rows = rows_to_go(s);
  RL_CHECK(rows > 0);
  add_rows(s, rows);
  prompt_room_ -= rows;
  return true;
}

bool Scheduler::has_room(int64_t blocks) const {
  const int64_t kept_free = running_.empty() ? 0 : limits_.watermark_blocks;
  return blocks + kept_free <= blocks_.num_free();
}

bool Scheduler::swap_in(Sequence& s) {
  if (rows_to_go(s) == 0 || !has_room(blocks_.count(s.length()))) return false;
  for (const int32_t from : s.swapped) {
    const int32_t to = blocks_.allocate();
    s.blocks.push_back(to);
    schedule_.transfers.push_back({BlockTransfer::Kind::kSwapIn, from, to});
    swap_.release(from);
  }
  s.swapped.clear();
  return true;
}

// Starts after the cached prefix, at most up to its last token, whose logits are needed.
bool Scheduler::take_prefix(Sequence& s) {
  find_cached(s);
  const int64_t missing = blocks_.count(s.length()) - static_cast<int64_t>(s.blocks.size());
  if (rows_to_go(s) == 0 || !has_room(missing)) {
    give_up_blocks(s);
    return false;
  }
  counts_.looked_up_tokens += s.length();
  counts_.cached_tokens += s.computed;
  if (blocks_.cache() && s.request->sequences.size() > 1) {
    const int64_t whole = s.request->first_tokens() / blocks_.block_size();
    if (is_fresh(s) || s.place.blocks < whole) s.request->leader = &s;
  }
  return true;
}

void Scheduler::find_cached(Sequence& s) {
  RL_CHECK(s.blocks.empty() && s.computed == 0);
  const PrefixCache* cache = blocks_.cache();
  if (!cache) return;
  const int64_t size = blocks_.block_size();
  s.place = cache->root();
  if (s.request->measures_prompt()) return;
  while ((s.place.blocks + 1) * size < s.length()) {
    const std::span<const int32_t> ids = whole_block(s, s.place.blocks);
    const int32_t block = cache->find(s.place.serial, ids);
    if (block < 0) break;
    blocks_.retain(block);
    s.blocks.push_back(block);
    s.place = {cache->serial(block), s.place.blocks + 1};
  }
  s.computed = s.place.blocks * size;
}

std::span<const int32_t> Scheduler::whole_block(const Sequence& s, int64_t index) const {
  const auto size = static_cast<size_t>(blocks_.block_size());
  return std::span<const int32_t>(s.sample->ids).subspan(static_cast<size_t>(index) * size, size);
}

void Scheduler::start_running(Sequence& s) {
  spare_nodes_.push_back(waiting_.extract(&s));
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &s, SchedulingOrder()), &s);
  s.state = SequenceState::kRunning;
  if (s.begun) --begun_waiting_;
  if (!s.begun) lanes_.take(s);
  s.begun = true;
}

// Frees blocks for positions up to `end`; false when the sequence itself was preempted.
bool Scheduler::make_room(Sequence& s, int64_t end) {
  while (blocks_missing(s, end) > blocks_.num_free()) {
    Sequence& last = *running_.back();
    preempt(last);
    if (&last == &s) return false;
  }
  return true;
}

int64_t Scheduler::blocks_missing(const Sequence& s, int64_t end) const {
  const int64_t more = blocks_.count(end) - static_cast<int64_t>(s.blocks.size());
  return std::max<int64_t>(more, 0) + (shares_next_block(s) ? 1 : 0);
}

// Whether another sequence shares the block of the next position.
bool Scheduler::shares_next_block(const Sequence& s) const {
  const auto next = static_cast<size_t>(s.computed / blocks_.block_size());
  return next < s.blocks.size() && blocks_.pool().references(s.blocks[next]) > 1;
}

void Scheduler::preempt(Sequence& s) {
  if (!s.follows) {
    ++counts_.preemptions;
    ++s.preemptions;
  }
  const auto written = static_cast<size_t>(blocks_.count(s.computed));
  if (written > 0 && swap_.has_room(written)) {
    for (size_t i = 0; i < written; ++i) {
      s.swapped.push_back(swap_.take());
      schedule_.transfers.push_back({BlockTransfer::Kind::kSwapOut, s.blocks[i], s.swapped.back()});
    }
    counts_.swapped_blocks += static_cast<int64_t>(written);
    release_blocks(s);
  } else {
    give_up_blocks(s);
  }
  stop_running(s);
  wait_again(s);
}

void Scheduler::release_blocks(Sequence& s) {
  // The last one first, so that the beginning of a cached prefix is kept longest.
  for (auto it = s.blocks.rbegin(); it != s.blocks.rend(); ++it) blocks_.release(*it);
  s.blocks.clear();
}

void Scheduler::give_up_blocks(Sequence& s) {
  release_blocks(s);
  s.computed = s.kept = 0;
  s.place = {};
}

void Scheduler::stop_running(Sequence& s) {
  running_.erase(std::find(running_.begin(), running_.end(), &s));
  s.follows = false;
  if (!s.is_leader()) return;
  s.request->leader = nullptr;
  for (Sequence& other : s.request->sequences) {
    if (!other.follows) continue;
    stop_running(other);
    wait_again(other);
  }
}

void Scheduler::wait_again(Sequence& s) {
  Waiting::node_type node = std::move(spare_nodes_.back());
  spare_nodes_.pop_back();
  node.value() = &s;
  waiting_.insert(std::move(node));
  s.state = SequenceState::kWaiting;
  ++begun_waiting_;
}

void Scheduler::add_rows(Sequence& s, int64_t rows) {
  make_writable(s, s.computed + rows);
  schedule_.rows.push_back({&s, static_cast<int32_t>(rows)});
  const bool decode = !is_fresh(s) && s.length() - s.computed == 1;
  (decode ? schedule_.decode_rows : schedule_.prefill_rows) += rows;
}

void Scheduler::make_writable(Sequence& s, int64_t end) {
  if (shares_next_block(s)) {
    int32_t& block = s.blocks[static_cast<size_t>(s.computed / blocks_.block_size())];
    const int32_t own = blocks_.allocate();
    schedule_.transfers.push_back({BlockTransfer::Kind::kCopy, block, own});
    blocks_.release(block);
    block = own;
  }
  const auto count = static_cast<size_t>(blocks_.count(end));
  while (s.blocks.size() < count) s.blocks.push_back(blocks_.allocate());
}

void Scheduler::advance() {
  for (const ScheduledRows& r : schedule_.rows) {
    Sequence& s = *r.sequence;
    s.computed += r.rows;
    enter_whole_blocks(s);
    if (s.is_leader() && s.computed >= s.request->first_tokens()) share_prompt(s);
  }
}

void Scheduler::enter_whole_blocks(Sequence& s) {
  PrefixCache* cache = blocks_.cache();
  if (!cache || s.kept > 0) return;
  while ((s.place.blocks + 1) * blocks_.block_size() <= s.computed) {
    const int32_t block = s.blocks[static_cast<size_t>(s.place.blocks)];
    const std::span<const int32_t> ids = whole_block(s, s.place.blocks);
    s.place = {cache->insert(s.place.serial, ids, block), s.place.blocks + 1};
  }
}

void Scheduler::share_prompt(Sequence& leader) {
  leader.request->leader = nullptr;
  for (Sequence& s : leader.request->sequences) {
    if (!s.follows) continue;
    s.follows = false;
    s.blocks.assign(leader.blocks.begin(), leader.blocks.end());
    for (const int32_t block : s.blocks) blocks_.retain(block);
    s.computed = leader.computed;
    s.kept = leader.kept;
    s.place = leader.place;
  }
}

void Scheduler::finish(Sequence& s) {
  RL_CHECK(s.state != SequenceState::kFinished);
  if (s.state == SequenceState::kRunning) {
    release_blocks(s);
    stop_running(s);
    spare_nodes_.pop_back();
  } else {
    waiting_.erase(&s);
    if (s.begun) --begun_waiting_;
    drop_swapped(s);
  }
  s.state = SequenceState::kFinished;
  if (--s.request->unfinished == 0) ended_requests_.push_back(s.request->number);
  if (s.begun) lanes_.leave(s);
}

void Scheduler::drop_swapped(Sequence& s) {
  for (const int32_t block : s.swapped) swap_.release(block);
  s.swapped.clear();
  s.computed = s.kept = 0;
  s.place = {};
}

void Scheduler::drop_finished() {
  for (const uint64_t number : ended_requests_) requests_.erase(number);
  ended_requests_.clear();
}

void Scheduler::forget_computed() {
  if (PrefixCache* cache = blocks_.cache()) cache->cut();
  while (!running_.empty()) {
    Sequence& s = *running_.back();
    give_up_blocks(s);
    stop_running(s);
    wait_again(s);
  }
  for (Sequence* s : waiting_) drop_swapped(*s);
}

void Scheduler::keep_computed() {
  if (PrefixCache* cache = blocks_.cache()) cache->cut();
  const auto keep = [](Sequence* s) { s->kept = s->computed; };
  std::for_each(running_.begin(), running_.end(), keep);
  std::for_each(waiting_.begin(), waiting_.end(), keep);
}

}  // namespace rl
