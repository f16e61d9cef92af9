// Random workloads against samples made alone. One to three engines on one model get requests at
// random times, with pools small enough to preempt, aborts that go on later, conversations and
// publications of other weights in between, with one compute copy and with two, which may keep KV
// over a publication. Then every sample is made again, alone, token run by token run under the
// versions it names, and must have the same bits; tokens generated from mixed KV are left out and
// counted.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "rollout/engine_fixture.h"
#include "rollout/sample_edit.h"
#include "support/compute_dtypes.h"

namespace rl::testing {
namespace {

constexpr uint64_t kVersions = 4;

// The weights of a version, from those of version 0: every parameter moves a little.
void write_version(const std::vector<float>& base, uint64_t version, float* master) {
  for (size_t i = 0; i < base.size(); ++i) {
    const auto wave = static_cast<float>((i * 37 + version * 11) % 17) - 8.0f;
    master[i] = base[i] * (1.0f + 0.004f * wave * static_cast<float>(version));
  }
}

struct WorkloadModel {
  WorkloadModel(const char* name, Dtype dtype)
      : one_copy(TinyModel::fixture(name), dtype, 2),
        two_copies(TinyModel::fixture(name), dtype, 2, 16, 2),
        alone(TinyModel::fixture(name), dtype, 1) {
    const float* master = alone.model->master();
    base.assign(master, master + alone.model->layout().total());
  }
  // The masters are those of the version before; nothing reads meanwhile.
  void publish(TinyModel& tiny, uint64_t version) const {
    write_version(base, version, tiny.model->master());
    tiny.model->publish_as(version);
  }
  TinyModel one_copy, two_copies, alone;
  std::vector<float> base;
};

struct Tally {
  int64_t samples = 0, tokens = 0, preemptions = 0, swapped = 0, cached = 0, resumed = 0;
  int64_t mixed_versions = 0, publications = 0, mixed_kv = 0;
};

class Workload {
 public:
  Workload(WorkloadModel& models, unsigned seed, Tally& tally)
      : models_(models),
        live_(seed % 2 == 0 ? models.one_copy : models.two_copies),
        tally_(tally),
        keeps_(seed % 4 == 3),
        rng_(seed) {
    models_.publish(live_, 0);
    const auto count = 1 + below(3);
    for (int32_t i = 0; i < count; ++i) add_engine();
    for (int i = 0; i < 5; ++i) prompts_.push_back(random_ids(1 + below(60)));
  }

  void run() {
    const int32_t requests = 6 + below(10);
    int32_t submitted = 0;
    while (submitted < requests || !idle()) {
      if (submitted < requests && below(3) == 0) submit(fresh_request(submitted++));
      for (const auto& engine : engines_) engine->engine.step();
      collect();
      if (below(25) == 0) abort_one();
      if (version_ + 1 < kVersions && below(60) == 0) train();
      if (trained_ > version_ && (!apart() || below(10) == 0)) publish();
    }
    for (const auto& engine : engines_) {
      expect_idle(engine->engine);
      const EngineStats stats = engine->engine.stats();
      tally_.preemptions += stats.preemptions;
      tally_.swapped += stats.swapped_blocks;
      tally_.cached += stats.cached_tokens;
      mixed_kv_ += stats.mixed_kv_tokens;
    }
    check_mixed();
    check_alone();
  }

 private:
  int32_t below(int32_t limit) {
    return static_cast<int32_t>(rng_() % static_cast<unsigned>(limit));
  }
  std::vector<int32_t> random_ids(int32_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = below(static_cast<int32_t>(live_.model->config().vocab));
    return ids;
  }

  void add_engine() {
    EngineOptions o;
    o.max_num_seqs = 2 + below(9);
    o.max_num_batched_tokens = o.max_num_seqs + below(60);
    const int32_t chunks[] = {0, 1, 7, 24};
    o.prefill_chunk = chunks[below(4)];
    o.prefix_caching = below(3) != 0;
    o.swap_blocks = below(2) * 10;
    o.keep_kv = keeps_;
    if (keeps_) o.swap_blocks += 4;
    o.kv_watermark = below(2) * 0.1;
    o.policy = SchedulingPolicy::kPriority;
    engines_.push_back(std::make_unique<TestEngine>(live_, o, 8 + below(12)));
  }

  Request fresh_request(int32_t ordinal) {
    std::vector<int32_t> prompt = prompts_[static_cast<size_t>(below(5))];
    const float temperatures[] = {1.0f, 0.7f, 1.0f, 0.0f};
    Request r = make_request(std::move(prompt), 1 + below(40), temperatures[below(4)],
                             static_cast<uint64_t>(ordinal));
    r.num_samples = 1 + below(5);
    r.priority = below(3) == 0 ? below(3) : 0;
    r.ignore_eos = below(2) == 0;
    if (below(4) == 0) r.sampling.top_k = 1 + below(40);
    if (below(4) == 0) r.sampling.top_p = 0.8f;
    if (below(6) == 0) r.sampling.repetition_penalty = 1.2f;
    if (below(2) == 0) add_rules(r, below(360), live_.model->config().vocab);
    return r;
  }

  // Requests of one ordinal share what a fresh request says; a resumed one differs in its start.
  void submit(const Request& request) {
    if (!request.resume) requests_.push_back(request);
    const auto engine = static_cast<size_t>(below(static_cast<int32_t>(engines_.size())));
    numbers_.emplace_back(engine, engines_[engine]->engine.submit(request));
  }

  void collect() {
    for (const auto& engine : engines_) {
      for (const SamplePtr& s : engine->engine.take_finished()) finish(s);
    }
  }

  void finish(const SamplePtr& s) {
    const Request& origin = requests_.at(s->ordinal);
    const SampleKey key{s->ordinal, s->slot};
    const int64_t left = origin.max_new_tokens + appended_[key] - s->generated();
    if (s->finish == FinishReason::kAborted) {
      ASSERT_GT(left, 0);
      resume(origin, s, left);
    } else if (s->finish == FinishReason::kLength && turns_[key] < 2 && below(4) == 0) {
      ++turns_[key];
      next_turn(origin, s);
    } else {
      ASSERT_TRUE(done_.emplace(key, s).second);
    }
  }

  void resume(const Request& origin, const SamplePtr& s, int64_t tokens) {
    Request r = origin;
    r.prompt.clear();
    r.resume = s;
    r.num_samples = 1;
    r.max_new_tokens = tokens;
    ++tally_.resumed;
    submit(r);
  }

  // The environment answers, and the model goes on for a few tokens.
  void next_turn(const Request& origin, const SamplePtr& s) {
    const std::vector<int32_t> answer = random_ids(1 + below(12));
    const int32_t tokens = 1 + below(10);
    if (s->ids.size() + answer.size() + static_cast<size_t>(tokens) > 120) {
      ASSERT_TRUE(done_.emplace(SampleKey{s->ordinal, s->slot}, s).second);
      return;
    }
    const auto more = std::make_shared<Sample>(*s);
    for (const int32_t id : answer) append_given(*more, id);
    appended_[{s->ordinal, s->slot}] += static_cast<int64_t>(answer.size()) + tokens;
    resume(origin, more, tokens);
  }

  void abort_one() {
    if (numbers_.empty()) return;
    const auto& [engine, number] =
        numbers_[static_cast<size_t>(below(static_cast<int32_t>(numbers_.size())))];
    engines_[engine]->engine.abort(number);
    collect();
  }

  bool apart() const { return live_.model->num_compute_copies() > 1; }

  // With one copy the engines read the masters, so that publication follows at once. With two they
  // go on under the old version, and further training does not change that.
  void train() {
    trained_ = version_ + 1;
    write_version(models_.base, trained_, live_.model->master());
    if (apart()) live_.model->repack();
  }

  void publish() {
    if (!apart()) live_.model->repack();
    live_.model->release();
    version_ = trained_;
    ASSERT_EQ(live_.model->version(), version_);
    ++tally_.publications;
  }

  bool idle() const {
    return std::all_of(engines_.begin(), engines_.end(),
                       [](const auto& e) { return e->engine.idle(); });
  }

  // What the engines counted is what the samples say, and only a kept KV is mixed.
  void check_mixed() {
    int64_t flagged = 0;
    for (const auto& [key, s] : done_) {
      ASSERT_TRUE(s->mixed_kv.empty() || s->mixed_kv.size() == s->versions.size());
      flagged += std::count(s->mixed_kv.begin(), s->mixed_kv.end(), 1);
    }
    ASSERT_EQ(flagged, mixed_kv_);
    if (!keeps_) {
      ASSERT_EQ(mixed_kv_, 0);
    }
    tally_.mixed_kv += mixed_kv_;
  }

  // Every run of tokens with one version is generated again by an engine that has nothing else to
  // do.
  void check_alone() {
    int64_t expected = 0;
    for (const Request& r : requests_) expected += r.num_samples;
    ASSERT_EQ(static_cast<int64_t>(done_.size()), expected);
    for (uint64_t version = 0; version <= version_; ++version) {
      models_.publish(models_.alone, version);
      const EngineOptions options = {
          .max_num_seqs = 1, .prefix_caching = false, .policy = SchedulingPolicy::kPriority};
      TestEngine alone(models_.alone, options, 64);
      for (const auto& [key, sample] : done_) check_runs(alone, *sample, version);
    }
    for (const auto& [key, s] : done_) {
      ++tally_.samples;
      tally_.tokens += s->generated();
      tally_.mixed_versions += s->versions.front() != s->versions.back() ? 1 : 0;
    }
  }

  void check_runs(TestEngine& alone, const Sample& s, uint64_t version) {
    size_t i = 0;
    const auto of_version = [&](size_t token) {
      return s.loss_mask[token] != 0 && s.versions[token] == version &&
             !s.has_mixed_kv(static_cast<int64_t>(token));
    };
    while (i < s.versions.size()) {
      size_t end = i + 1;
      const bool sampled = of_version(i);
      while (sampled && end < s.versions.size() && of_version(end)) ++end;
      if (sampled) check_run(alone, s, i, end);
      if (::testing::Test::HasFailure()) return;
      i = end;
    }
  }

  void check_run(TestEngine& alone, const Sample& s, size_t begin, size_t end) {
    Request r = requests_.at(s.ordinal);
    const auto start = std::make_shared<Sample>(s);
    cut_back(*start, s.prompt_tokens + static_cast<int64_t>(begin));
    r.prompt.clear();
    r.resume = start;
    r.num_samples = 1;
    r.max_new_tokens = static_cast<int64_t>(end - begin);
    const Sample again = *alone.run({r}).begin()->second;
    const auto tokens = static_cast<int64_t>(s.prompt_tokens) + static_cast<int64_t>(end);
    ASSERT_EQ(again.ids, std::vector<int32_t>(s.ids.begin(), s.ids.begin() + tokens))
        << "ordinal " << s.ordinal << " slot " << s.slot << " tokens " << begin << ".." << end;
    const auto head = [end](const std::vector<float>& v) {
      return std::vector<float>(v.begin(), v.begin() + static_cast<int64_t>(end));
    };
    ASSERT_TRUE(same_bits(again.logprobs, head(s.logprobs)))
        << "ordinal " << s.ordinal << " slot " << s.slot << " tokens " << begin << ".." << end;
    ASSERT_TRUE(same_bits(again.logprobs_sampled, head(s.logprobs_sampled)));
    const size_t top = end * s.num_top;
    ASSERT_EQ(again.top_ids.size(), top);
    ASSERT_TRUE(std::equal(again.top_ids.begin(), again.top_ids.end(), s.top_ids.begin()));
    ASSERT_TRUE(
        same_bits(again.top_logprobs,
                  {s.top_logprobs.begin(), s.top_logprobs.begin() + static_cast<ptrdiff_t>(top)}));
  }

  WorkloadModel& models_;
  TinyModel& live_;
  Tally& tally_;
  const bool keeps_;
  std::mt19937 rng_;
  std::vector<std::unique_ptr<TestEngine>> engines_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<Request> requests_;  // by ordinal
  std::vector<std::pair<size_t, uint64_t>> numbers_;
  std::map<SampleKey, int64_t> appended_, turns_;
  SampleMap done_;
  uint64_t version_ = 0, trained_ = 0;
  int64_t mixed_kv_ = 0;
};

class EngineWorkload : public ::testing::TestWithParam<std::tuple<const char*, Dtype>> {};

TEST_P(EngineWorkload, EverySampleEqualsTheOneMadeAlone) {
  const auto [name, dtype] = GetParam();
  if (dtype == Dtype::kBf16 && !cpu_has_bf16_dot()) {
    GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  WorkloadModel models(name, dtype);
  const unsigned count = std::getenv("RL_LONG") ? 500 : 25;
  Tally tally;
  for (unsigned seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Workload(models, seed, tally).run();
    if (HasFailure()) return;
  }
  EXPECT_GT(tally.samples, 20 * count);
  EXPECT_GT(tally.tokens, 200 * count);
  EXPECT_GT(tally.preemptions, 2 * count);
  EXPECT_GT(tally.swapped, count / 2);
  EXPECT_GT(tally.cached, 20 * count);
  EXPECT_GT(tally.resumed, count / 2);
  EXPECT_GT(tally.mixed_versions, count / 2);
  EXPECT_GT(tally.publications, count / 4);
  EXPECT_GT(tally.mixed_kv, count);
  RecordProperty("samples", static_cast<int>(tally.samples));
}

INSTANTIATE_TEST_SUITE_P(TinyModels, EngineWorkload,
                         ::testing::Combine(::testing::Values("llama", "qwen2"),
                                            ::testing::ValuesIn(compute_dtypes())));

}  // namespace
}  // namespace rl::testing
