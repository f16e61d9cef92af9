// Takes groups from a store so that each is trained on once. The book of the store says, before a
// batch is returned, for which step its groups were taken; a step that is acknowledged makes them
// done, and a trainer that goes on from an earlier checkpoint gets those of later steps again.
// Whatever the store delivers twice is dropped and counted. One process takes from a store: when
// another one begins to, this one is refused; with a lease the other one waits until this one has
// ended, or has written nothing for so long, which a thread does. Thread-safe.
#pragma once
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "buffer/experience_buffer.h"
#include "buffer/experience_store.h"
#include "buffer/store_book.h"
#include "buffer/store_lease.h"

namespace rl {

// Groups, since the consumer was made.
struct StoreCounts {
  int64_t acknowledged = 0;  // done, and gone from the store
  int64_t duplicates = 0;    // deliveries of a group that is done, taken or waits here
  int64_t damaged = 0;       // set aside
  int64_t nameless = 0;      // of them, those that the store gave without a key
};

// The samples of a group, from bytes that may be anything. kDataLoss naming place and offset, also
// for what is not exactly one complete group of one instance.
std::vector<SamplePtr> decode_stored_group(std::string_view bytes, const std::string& place,
                                           int64_t group_size);
// The key of a complete group. kInvalidArgument if its samples are of several instances.
GroupKey key_of(std::span<const SamplePtr> group);

class StoreConsumer {
 public:
  // As for ExperienceBuffer. At most capacity samples are claimed and not taken.
  // lease_ns: how long the store stays this one's after it last wrote; 0: until another one begins.
  StoreConsumer(std::shared_ptr<ExperienceStore> store, int64_t group_size, int64_t capacity,
                bool needs_scores, int64_t lease_ns = 0);
  // Ends the lease, if the store can be written to.
  ~StoreConsumer();

  // Begins to take: true, unless another one has a lease. The other calls begin by themselves.
  bool begin();
  // For what else only the one that takes may write, such as its checkpoints. kFailedPrecondition
  // as for take; of one that has not begun yet kBusy while another one has a lease.
  void require_own();

  // ExperienceBuffer::take for a step after the acknowledged one. kFailedPrecondition: an earlier
  // process has taken groups, and nobody has said which of its steps are kept (resume); another
  // process has begun to take; or the lease has lapsed. While another one has a lease nothing is
  // taken. Errors of a damaged group come once it is set aside, and done if its key is known; that
  // of one of another size than group_size names pipeline.samples_per_prompt.
  std::vector<SamplePtr> take(const TakeRule& rule, uint64_t step, int64_t timeout_ns);
  // The weights of this step are durable: groups taken for it and earlier ones are done. kBusy, as
  // for resume, while another one has a lease.
  void acknowledge(uint64_t step);
  // Training goes on after this step: the same, and groups taken for later steps come again.
  // kFailedPrecondition if a later step was acknowledged.
  void resume(uint64_t step);
  // These groups, which were taken and are dropped, are done without their step.
  void finish(std::span<const GroupKey> dropped);
  // Drops groups that are claimed and not taken; they are done.
  int64_t drop(const DropRule& rule);
  void close() { waiting_.close(); }
  bool closed() const { return waiting_.closed(); }

  BufferCounts buffer_counts() const { return waiting_.counts(); }
  StoreCounts counts() const;

 private:
  struct Delivery {
    GroupKey key;
    std::string token;
  };
  // Collects the ordinals of groups that left the buffer untaken.
  class Removals final : public BufferObserver {
   public:
    void changed(int64_t, bool) noexcept override {}
    void removed(const Sample& of, DropReason) noexcept override { ordinals.push_back(of.ordinal); }
    std::vector<uint64_t> ordinals;
  };

  bool open();
  [[noreturn]] void refuse_busy() const;
  bool begin_book(const StoreBook& next, const std::string& before);
  bool has_lapsed() const;
  void require_lease() const;
  void require_open();
  bool is_current() const;
  void require_current() const;
  void renew() noexcept;
  void release() noexcept;
  void write(StoreBook&& next);
  void fetch();
  void give_up_if_fenced();
  void admit(StoredGroup group);
  void set_aside(const StoredGroup& group);
  void drop_duplicate(const GroupKey& key, const StoredGroup& group);
  void require_settled() const;
  void require_later(uint64_t step) const;
  std::vector<SamplePtr> take_now(const TakeRule& rule, uint64_t step);
  void record(std::span<const SamplePtr> batch, uint64_t step);
  void forget(std::span<const GroupKey> done);
  void finish_removed();
  void settle();

  const std::shared_ptr<ExperienceStore> store_;
  const int64_t group_size_;
  Removals removals_;  // outlives what tells it; under the lock of waiting_
  ExperienceBuffer waiting_;
  mutable std::mutex mutex_;
  const int64_t lease_ns_;
  LeaseWatch others_;
  int64_t renewed_ns_ = 0;      // with a lease: before the last write
  std::exception_ptr failure_;  // of the last renewal
  bool open_ = false;
  bool in_doubt_ = false;  // the book has groups that an earlier process took
  StoreBook book_;
  std::map<uint64_t, Delivery> deliveries_;  // of groups in waiting_, by ordinal
  std::map<GroupKey, std::string> taken_;    // tokens
  std::vector<StoredGroup> deferred_;        // their ordinal waits, of another instance
  std::vector<std::string> owed_;            // tokens to be acknowledged
  StoreCounts counts_;
  std::unique_ptr<LeaseKeeper> keeper_;  // the last member: it uses the others
};

}  // namespace rl
