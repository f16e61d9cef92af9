// Buffers and trainers that tell of what they do through a queue of the host.
#include <thread>
#include <vector>

#include "abi/queues.h"
#include "support/temp_dir.h"

namespace abi_test {
namespace {

// A queue of its own, and what comes out of it.
class Events {
 public:
  Events() { EXPECT_RL_OK(rl_event_queue_create(&queue, &err)); }
  ~Events() {
    rl_event_release(event);
    rl_event_queue_release(queue);
  }
  Events(const Events&) = delete;
  // The next event, which lives until the one after it; of kind 0 if there is none.
  rl_event_view next() {
    rl_event_release(event);
    event = nullptr;
    const rl_status status = rl_event_queue_next(queue, 0, &event, nullptr);
    if (status == RL_OK) return view_of(event);
    EXPECT_EQ(status, RL_TIMEOUT);
    return {};
  }

  rl_event_queue* queue = nullptr;
  rl_event* event = nullptr;
};

void put(rl_buffer* buffer, uint64_t ordinal, uint32_t slot, uint64_t version = 5) {
  static const int32_t ids[] = {1, 2, 3};
  rl_sample_view sample;
  rl_sample_view_init(&sample, sizeof sample);
  sample.ordinal = ordinal;
  sample.slot = slot;
  sample.data_row = 70;
  sample.ids = ids;
  sample.num_ids = 3;
  sample.num_prompt = 2;
  sample.versions = &version;
  sample.scored = 1;
  EXPECT_RL_OK(rl_buffer_put(buffer, &sample, &err));
}

void put_group(rl_buffer* buffer, uint64_t ordinal, uint64_t version = 5) {
  for (uint32_t slot = 0; slot < 2; ++slot) put(buffer, ordinal, slot, version);
}

// One descriptor says that there is something to train on, however much comes before it is read.
TEST(Senders, ABufferTellsOnceThatCompleteGroupsWait) {
  const Host host;
  Events events;
  put_group(host.buffer, 1);
  EXPECT_RL_OK(rl_buffer_set_queue(host.buffer, events.queue, 9, &err));
  EXPECT_TRUE(readable(events.queue)) << "one was complete before";
  put(host.buffer, 2, 0);
  put_group(host.buffer, 3);
  EXPECT_EQ(rl_event_queue_size(events.queue), 1u);
  const rl_event_view view = events.next();
  EXPECT_EQ(view.kind, RL_EVENT_GROUPS);
  EXPECT_EQ(view.source, 9u);
  EXPECT_EQ(view.count, 2u) << "as it is read, not as it was sent";
  EXPECT_EQ(events.next().kind, 0);
  EXPECT_FALSE(readable(events.queue));
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(take_groups(host.buffer, 99, &batch, &err));
  EXPECT_EQ(rl_batch_count(batch), 4u);
  EXPECT_EQ(rl_event_queue_size(events.queue), 0u) << "taking is no news";
  put(host.buffer, 2, 1);
  EXPECT_EQ(events.next().count, 1u);
  EXPECT_RL_OK(rl_buffer_put_batch(host.buffer, batch, &err));
  EXPECT_EQ(rl_event_queue_size(events.queue), 1u) << "a batch is one change";
  EXPECT_EQ(events.next().count, 3u);
  rl_batch_release(batch);
  EXPECT_RL_OK(rl_buffer_set_queue(host.buffer, nullptr, 0, &err));
  put_group(host.buffer, 8);
  EXPECT_EQ(rl_event_queue_size(events.queue), 0u);
}

TEST(Senders, ABufferTellsWhichGroupsWereRemovedAndWhy) {
  const Host host;
  set(host.options, "buffer.max_staleness", "1");
  rl_buffer* buffer = nullptr;
  EXPECT_RL_OK(rl_buffer_create(host.options, 16, &buffer, &err));
  Events events;
  EXPECT_RL_OK(rl_buffer_set_queue(buffer, events.queue, 4, &err));
  put_group(buffer, 1, 2);
  put_group(buffer, 2, 7);
  put(buffer, 3, 0);
  EXPECT_EQ(events.next().kind, RL_EVENT_GROUPS);
  rl_take take;
  rl_take_init(&take, sizeof take);
  take.version = 8;
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(rl_buffer_take(buffer, &take, 0, &batch, &err));
  EXPECT_EQ(rl_batch_count(batch), 2u);
  rl_batch_release(batch);
  EXPECT_RL_OK(rl_buffer_drop(buffer, nullptr, nullptr, &err));
  const std::vector<std::pair<uint64_t, int32_t>> expected = {{1, RL_DROP_STALE},
                                                              {3, RL_DROP_CANCELLED}};
  for (const auto& [ordinal, reason] : expected) {
    const rl_event_view view = events.next();
    EXPECT_EQ(view.kind, RL_EVENT_GROUP_DROPPED);
    EXPECT_EQ(view.ordinal, ordinal);
    EXPECT_EQ(view.reason, reason);
    EXPECT_EQ(view.source, 4u);
    EXPECT_EQ(view.data_row, 70);
    EXPECT_EQ(view.purpose, RL_PURPOSE_TRAIN);
    EXPECT_GT(view.text_len, 0u);
    EXPECT_EQ(view.count, 0u);
  }
  EXPECT_EQ(events.next().kind, 0);
  rl_buffer_destroy(buffer);
}

// Nothing grows without bound if nobody reads, and nothing is lost without a word.
TEST(Senders, ABufferLeavesOutEventsWhileTooManyAreUnread) {
  const Host host;
  Events events;
  EXPECT_RL_OK(rl_buffer_set_queue(host.buffer, events.queue, 1, &err));
  for (uint64_t i = 0; i < 1030; ++i) {
    put(host.buffer, i, 0);
    EXPECT_RL_OK(rl_buffer_drop(host.buffer, nullptr, nullptr, &err));
  }
  EXPECT_EQ(rl_event_queue_size(events.queue), 1024u);
  EXPECT_EQ(events.next().ordinal, 0u);
  EXPECT_EQ(events.next().ordinal, 1u);
  for (uint64_t i = 0; i < 2; ++i) {
    put(host.buffer, 2000 + i, 0);
    EXPECT_RL_OK(rl_buffer_drop(host.buffer, nullptr, nullptr, &err));
  }
  while (rl_event_queue_size(events.queue) > 2) events.next();
  rl_event_view view = events.next();
  EXPECT_EQ(view.ordinal, 2000u);
  EXPECT_EQ(view.count, 6u);
  view = events.next();
  EXPECT_EQ(view.ordinal, 2001u);
  EXPECT_EQ(view.count, 0u);
}

// Readers that poll and takers beside a thread that puts: no group stays without an event.
TEST(Senders, NoGroupOfABufferIsMissedByWhoWaitsForItsEvents) {
  const Host host;
  rl_buffer* buffer = nullptr;
  EXPECT_RL_OK(rl_buffer_create(host.options, 4096, &buffer, &err));
  Events events;
  EXPECT_RL_OK(rl_buffer_set_queue(buffer, events.queue, 1, &err));
  constexpr uint64_t kGroups = 1000;
  std::thread producer([&] {
    for (uint64_t i = 0; i < kGroups; ++i) put_group(buffer, i);
  });
  uint64_t taken = 0;
  while (taken < 2 * kGroups) {
    rl_event* event = nullptr;
    const rl_status status = rl_event_queue_next(events.queue, 60'000'000'000, &event, nullptr);
    EXPECT_EQ(status, RL_OK) << taken << " samples came";
    if (status != RL_OK) break;
    rl_event_release(event);
    rl_batch* batch = nullptr;
    while (take_groups(buffer, 99, &batch, nullptr) == RL_OK) {
      taken += rl_batch_count(batch);
      rl_batch_release(batch);
    }
  }
  producer.join();
  EXPECT_EQ(taken, 2 * kGroups);
  rl_buffer_destroy(buffer);
}

TEST(Senders, ATrainerTellsOfStepsAndOfWhatItPublished) {
  Host host;
  Events events;
  EXPECT_RL_OK(rl_trainer_set_queue(host.trainer, events.queue, 3, &err));
  rl_event* returned = nullptr;
  EXPECT_RL_OK(train(host.trainer, host.batch, &returned, &err));
  const rl_event_view mine = view_of(returned);
  rl_event_view view = events.next();
  EXPECT_EQ(view.kind, RL_EVENT_STEP);
  EXPECT_EQ(view.source, 3u);
  EXPECT_EQ(mine.source, 0u) << "it is the caller's";
  EXPECT_EQ(view.step, 2u);
  EXPECT_EQ(view.step, mine.step);
  EXPECT_EQ(view.version, mine.version);
  EXPECT_EQ(view.num_metrics, mine.num_metrics);
  double told = 0, given = 0;
  EXPECT_RL_OK(rl_event_metric_named(events.event, "actor/loss", RL_NUL_TERMINATED, &told, &err));
  EXPECT_RL_OK(rl_event_metric_named(returned, "actor/loss", RL_NUL_TERMINATED, &given, &err));
  EXPECT_EQ(told, given);
  rl_event_release(returned);
  view = events.next();
  EXPECT_EQ(view.kind, RL_EVENT_PUBLISHED);
  EXPECT_EQ(view.step, 2u);
  EXPECT_EQ(view.version, mine.version);
  uint64_t version = 0;
  EXPECT_RL_OK(rl_trainer_publish(host.trainer, &version, &err));
  EXPECT_EQ(events.next().kind, 0) << "the step had published";
  EXPECT_RL_OK(rl_trainer_set_queue(host.trainer, nullptr, 0, &err));
  EXPECT_RL_OK(train(host.trainer, host.batch, &returned, &err));
  rl_event_release(returned);
  EXPECT_EQ(events.next().kind, 0);
}

TEST(Senders, ATrainerTellsOfItsHalvesItsCheckpointsAndLoads) {
  Host host;
  const rl::TempDir dir;
  Events events;
  EXPECT_RL_OK(rl_trainer_set_queue(host.trainer, events.queue, 3, &err));
  rl_step step;
  rl_step_init(&step, sizeof step);
  step.batch = host.batch;
  EXPECT_RL_OK(rl_trainer_backward(host.trainer, &step, &err));
  EXPECT_EQ(events.next().kind, 0);
  rl_event* returned = nullptr;
  EXPECT_RL_OK(rl_trainer_apply(host.trainer, &returned, &err));
  rl_event_release(returned);
  EXPECT_EQ(events.next().kind, RL_EVENT_STEP);
  EXPECT_EQ(events.next().kind, RL_EVENT_PUBLISHED);
  const std::string path = dir.path();
  rl_checkpoint checkpoint;
  rl_checkpoint_init(&checkpoint, sizeof checkpoint);
  checkpoint.dir = path.c_str();
  rl_bytes* saved = nullptr;
  EXPECT_RL_OK(rl_trainer_save(host.trainer, &checkpoint, &saved, &err));
  rl_event_view view = events.next();
  EXPECT_EQ(view.kind, RL_EVENT_CHECKPOINT);
  EXPECT_EQ(view.step, 2u);
  EXPECT_STREQ(view.text, static_cast<const char*>(rl_bytes_data(saved)));
  rl_bytes* state = nullptr;
  EXPECT_RL_OK(rl_trainer_load(host.trainer, path.c_str(), path.size(), &state, &err));
  view = events.next();
  EXPECT_EQ(view.kind, RL_EVENT_PUBLISHED) << "also under the version that was there";
  EXPECT_EQ(view.step, 2u);
  EXPECT_EQ(events.next().kind, 0);
  rl_bytes_release(saved);
  rl_bytes_release(state);
}

}  // namespace
}  // namespace abi_test
