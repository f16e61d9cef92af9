// Queues that a host makes, and one that an engine shares with a pipeline.
#include <map>
#include <thread>
#include <vector>

#include "abi/queues.h"

namespace abi_test {
namespace {

uint64_t submit(rl_engine* engine, uint64_t samples) {
  static const int32_t prompt[] = {1, 2, 3};
  rl_request request;
  rl_request_init(&request, sizeof request);
  request.prompt = prompt;
  request.num_prompt = 3;
  request.num_samples = samples;
  uint64_t first = 0;
  EXPECT_RL_OK(rl_engine_submit(engine, &request, &first, &err));
  return first;
}

// An engine of its own, with options in addition to those of the host.
struct OwnEngine {
  explicit OwnEngine(Host& host, const std::map<const char*, const char*>& more) {
    for (const auto& [key, value] : more) set(host.options, key, value);
    EXPECT_RL_OK(rl_engine_create(host.model, host.options, &engine, &err));
  }
  ~OwnEngine() { rl_engine_destroy(engine); }
  rl_engine* engine = nullptr;
};

TEST(Queue, ItHasTheEventsOfEveryEngineThatWasGivenIt) {
  Host host;
  OwnEngine other(host, {{"engine.stream_tokens", "2"}});
  rl_event_queue* queue = nullptr;
  rl_event* event = nullptr;
  EXPECT_RL_OK(rl_event_queue_create(&queue, &err));
  EXPECT_RL_OK(rl_engine_set_queue(host.engine, queue, 1, &err));
  EXPECT_RL_OK(rl_engine_set_queue(other.engine, queue, 2, &err));
  EXPECT_EQ(rl_event_queue_next(queue, 0, &event, nullptr), RL_TIMEOUT);
  EXPECT_FALSE(readable(queue));
  const uint64_t first = submit(host.engine, 1), second = submit(other.engine, 1);
  EXPECT_RL_OK(rl_engine_run(host.engine, &err));
  EXPECT_RL_OK(rl_engine_run(other.engine, &err));
  EXPECT_TRUE(readable(queue));
  EXPECT_EQ(rl_event_queue_size(queue), 4u);
  const std::vector<std::pair<uint64_t, int32_t>> expected = {
      {1, RL_EVENT_FINISHED}, {2, RL_EVENT_TOKENS}, {2, RL_EVENT_TOKENS}, {2, RL_EVENT_FINISHED}};
  for (const auto& [source, kind] : expected) {
    ASSERT_EQ(rl_event_queue_next(queue, -1, &event, nullptr), RL_OK);
    const rl_event_view view = view_of(event);
    EXPECT_EQ(view.source, source);
    EXPECT_EQ(view.kind, kind);
    rl_sample_view sample;
    rl_sample_view_init(&sample, sizeof sample);
    EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
    EXPECT_EQ(sample.sample_id, source == 1 ? first : second);
    EXPECT_EQ(sample.num_prompt, kind == RL_EVENT_TOKENS ? 0u : 3u);
    EXPECT_EQ(sample.num_ids, kind == RL_EVENT_TOKENS ? 2u : 7u);
    EXPECT_EQ(sample.finish, kind == RL_EVENT_TOKENS ? RL_FINISH_NONE : RL_FINISH_LENGTH);
    rl_event_release(event);
  }
  EXPECT_EQ(rl_event_queue_next(queue, 0, &event, nullptr), RL_TIMEOUT);
  EXPECT_RL_OK(rl_engine_set_queue(host.engine, nullptr, 0, &err));
  submit(host.engine, 1);
  EXPECT_RL_OK(rl_engine_run(host.engine, &err));
  EXPECT_EQ(rl_event_queue_size(queue), 0u);
  rl_event_queue_release(queue);
}

TEST(Queue, AnInterruptEndsOneWait) {
  rl_event_queue* queue = nullptr;
  rl_event* event = nullptr;
  EXPECT_RL_OK(rl_event_queue_create(&queue, &err));
  EXPECT_RL_OK(rl_event_queue_interrupt(queue, &err));
  EXPECT_EQ(rl_event_queue_next(queue, -1, &event, nullptr), RL_INTERRUPTED);
  EXPECT_EQ(rl_event_queue_next(queue, 0, &event, nullptr), RL_TIMEOUT);
  rl_event_queue_release(queue);
  EXPECT_EQ(rl_event_queue_next(queue, 0, &event, nullptr), RL_STALE_HANDLE);
}

// With a thread of its own an engine tells of what nobody waits for otherwise.
TEST(Queue, AnEngineWithAThreadTellsWhenASampleHasFinished) {
  Host host;
  OwnEngine own(host, {{"engine.thread", "true"}});
  rl_event_queue* queue = nullptr;
  rl_event* event = nullptr;
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(rl_event_queue_create(&queue, &err));
  EXPECT_RL_OK(rl_engine_set_queue(own.engine, queue, 7, &err));
  EXPECT_EQ(rl_engine_step(own.engine, nullptr), RL_FAILED_PRECONDITION);
  const uint64_t first = submit(own.engine, 1);
  ASSERT_EQ(rl_event_queue_next(queue, 60'000'000'000, &event, nullptr), RL_OK);
  EXPECT_EQ(view_of(event).kind, RL_EVENT_FINISHED);
  EXPECT_RL_OK(rl_engine_take(own.engine, &batch, &err));
  rl_sample_view sample;
  rl_sample_view_init(&sample, sizeof sample);
  EXPECT_RL_OK(rl_batch_sample(batch, 0, &sample, &err));
  EXPECT_EQ(sample.sample_id, first);
  rl_batch_release(batch);
  rl_event_release(event);
  rl_event_queue_release(queue);
  submit(own.engine, 4);  // it is destroyed with requests
}

// The queue of a pipeline serves an engine too, until the pipeline ends.
TEST(Queue, OneOfAPipelineServesAnEngineToo) {
  Host host;
  EXPECT_RL_OK(rl_engine_set_queue(host.engine, host.queue, 5, &err));
  submit(host.engine, 1);
  EXPECT_RL_OK(rl_engine_run(host.engine, &err));
  const int32_t ids[] = {1, 2};
  EXPECT_RL_OK(feed(host.pipeline, ids, 2, &err));
  EXPECT_RL_OK(rl_pipeline_finish_feed(host.pipeline, &err));
  EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
  int of_engine = 0, steps = 0;
  rl_event* event = nullptr;
  rl_status status;
  while ((status = rl_event_queue_next(host.queue, 60'000'000'000, &event, nullptr)) == RL_OK) {
    const rl_event_view view = view_of(event);
    of_engine += view.kind == RL_EVENT_FINISHED && view.source == 5;
    steps += view.kind == RL_EVENT_STEP && view.source == 0;
    if (view.kind == RL_EVENT_SCORE) {
      rl_sample_view sample;
      rl_sample_view_init(&sample, sizeof sample);
      EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
      EXPECT_RL_OK(score(host.pipeline, sample.sample_id, sample.slot, &err));
    }
    rl_event_release(event);
  }
  EXPECT_EQ(status, RL_DONE);
  EXPECT_EQ(of_engine, 1);
  EXPECT_EQ(steps, 1);
  submit(host.engine, 1);
  EXPECT_RL_OK(rl_engine_run(host.engine, &err));
  EXPECT_EQ(rl_event_queue_size(host.queue), 0u) << "it is closed";
}

// The version of a training process, for example.
TEST(Weights, AHostNamesTheVersionOfThoseThatItSets) {
  Host host;
  uint64_t version = 0;
  rl_error* err = nullptr;
  const std::vector<const char*> names = {"model.norm.weight"};
  EXPECT_RL_OK(set_weights(host.model, names, {host.tensor}, &version, &err, 90));
  EXPECT_EQ(version, 90u);
  EXPECT_EQ(set_weights(host.model, names, {host.tensor}, &version, &err, 90), RL_OUT_OF_RANGE);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "as_version");
  EXPECT_EQ(version, 0u);
  rl_error_release(err);
  EXPECT_RL_OK(set_weights(host.model, names, {host.tensor}, &version, &err));
  EXPECT_EQ(version, 91u);
}

}  // namespace
}  // namespace abi_test
