// runtime.cpus: where the threads of the library run, and what is refused.
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <string>

#include "abi/host.h"

namespace abi_test {
namespace {

cpu_set_t cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(pthread_getaffinity_np(pthread_self(), sizeof set, &set), 0);
  return set;
}

int last_usable() {
  const cpu_set_t set = cpus_of_this_thread();
  int cpu = CPU_SETSIZE - 1;
  while (cpu > 0 && !CPU_ISSET(cpu, &set)) --cpu;
  return cpu;
}

std::atomic<int> count_inside{0}, bound_to{-1};

// The advantage function of a pipeline runs on a thread of the library.
int32_t note_cpus(void*, const rl_algo_tokens*, double*) {
  const cpu_set_t set = cpus_of_this_thread();
  count_inside = CPU_COUNT(&set);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) bound_to = cpu;
  }
  return 0;
}

TEST(HostThreads, ThePipelineRunsOnTheCpusListed) {
  Host host;
  rl_pipeline_destroy(host.pipeline);
  host.pipeline = nullptr;
  const cpu_set_t usable = cpus_of_this_thread();
  rl_options* options = nullptr;
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_pipeline* pipeline = nullptr;
  EXPECT_RL_OK(rl_options_clone(host.options, &options, &err));
  set(options, "runtime.threads", "0");
  set(options, "runtime.cpus", std::to_string(last_usable()));
  set(options, "algo.advantage", "custom");
  set(options, "pipeline.total_steps", "1");
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  EXPECT_EQ(info_of(runtime).threads, 1) << "as many as CPUs listed";
  EXPECT_RL_OK(rl_model_open(runtime, nullptr, RL_USE_PIPELINE, &model, &err));
  EXPECT_RL_OK(rl_pipeline_create(model, nullptr, &pipeline, &err));
  EXPECT_RL_OK(rl_pipeline_set_advantage(pipeline, note_cpus, nullptr, nullptr, &err));
  const int32_t ids[] = {1, 2};
  EXPECT_RL_OK(feed(pipeline, ids, 2, &err));
  EXPECT_RL_OK(rl_pipeline_finish_feed(pipeline, &err));
  EXPECT_RL_OK(rl_pipeline_start(pipeline, &err));
  rl_event* event = nullptr;
  while (rl_pipeline_next(pipeline, 60'000'000'000, &event, nullptr) == RL_OK) {
    if (rl_event_kind(event) == RL_EVENT_SCORE) {
      rl_sample_view sample;
      rl_sample_view_init(&sample, sizeof sample);
      EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
      EXPECT_RL_OK(score(pipeline, sample.sample_id, sample.slot, &err));
    }
    rl_event_release(event);
  }
  rl_pipeline_destroy(pipeline);
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  EXPECT_EQ(count_inside, 1);
  EXPECT_EQ(bound_to, last_usable());
  const cpu_set_t after = cpus_of_this_thread();
  EXPECT_EQ(CPU_COUNT(&after), CPU_COUNT(&usable)) << "the host's thread is its own";
}

// The key that creating a runtime with these options is refused for.
std::string refused_for(const char* cpus, const char* threads) {
  rl_options* options = nullptr;
  rl_runtime* runtime = nullptr;
  rl_error* err = nullptr;
  EXPECT_EQ(rl_options_create(&options, nullptr), RL_OK);
  set(options, "runtime.cpus", cpus);
  set(options, "runtime.threads", threads);
  EXPECT_EQ(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err), RL_OUT_OF_RANGE);
  const std::string key = text_of(err, RL_ERROR_KEY);
  rl_error_release(err);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  return key;
}

TEST(HostThreads, CpusThatCannotBeUsedAreRefusedByName) {
  const std::string cpu = std::to_string(last_usable());
  EXPECT_EQ(refused_for("8191", "1"), "runtime.cpus");
  EXPECT_EQ(refused_for((cpu + "," + cpu).c_str(), "1"), "runtime.cpus");
  EXPECT_EQ(refused_for(cpu.c_str(), "2"), "runtime.threads");
}

}  // namespace
}  // namespace abi_test
