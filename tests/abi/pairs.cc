// Every two functions of rl.h that take one kind of handle, on one object, from two threads at
// once: "any" says that they may. Destroying is one of them. What is wrong shows as a report of
// ThreadSanitizer, as a crash or a hang, or as an answer that no order of the two calls gives.
//
// The pairs follow from the rows of calls.inc, so no function can be left out. RL_PAIR_MS is the
// time of a pair; RL_PAIR="rl_a rl_b", in either order, runs one alone.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "abi/valid_arguments.h"

// Of the sanitizers, where the program has one.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace abi_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kHangSeconds = 120;
constexpr int kLeastCalls =
    8;                        // of each function of a pair, on one object; in up to kLongest times
constexpr int kLongest = 10;  // the time of a pair
constexpr int kMostCalls = 1000;  // the quicker one goes on until the other has its least
constexpr int kMostRounds = 40;   // of a pair that ends the object, each on its own

std::atomic<const char*> first_called{""}, second_called{""};

void tell_pair() {
  for (const char* const part :
       {"the pair is ", first_called.load(), " ", second_called.load(), "\n"}) {
    if (write(STDERR_FILENO, part, strlen(part)) < 0) return;
  }
}

void on_hang(int) {
  tell_pair();
  _exit(1);
}

std::chrono::milliseconds time_of_pair() {
  const char* const text = std::getenv("RL_PAIR_MS");
  return std::chrono::milliseconds(text != nullptr ? std::atoi(text) : 1);
}

bool is_wanted(const std::string& a, const std::string& b) {
  const char* const only = std::getenv("RL_PAIR");
  return only == nullptr || only == a + " " + b || only == b + " " + a;
}

bool takes(const Row& row, const std::string& kind) {
  for (const Parameter& p : row.parameters) {
    if (handle_kind(p) == kind) return true;
  }
  return false;
}

// The pairs to run on an object of the kind.
std::vector<std::pair<const Row*, const Row*>> pairs_of(const std::string& kind) {
  std::vector<const Row*> takers;
  for (const Row& row : rows()) {
    if (takes(row, kind)) takers.push_back(&row);
  }
  std::vector<std::pair<const Row*, const Row*>> pairs;
  for (size_t i = 0; i < takers.size(); ++i) {
    for (size_t k = i; k < takers.size(); ++k) {
      if (is_wanted(takers[i]->name, takers[k]->name)) pairs.emplace_back(takers[i], takers[k]);
    }
  }
  return pairs;
}

// A new object of the kind beside those of the host, and its end.
class Fresh {
 public:
  Fresh(const std::string& kind, const Host& host) : kind_(kind), host_(host) {
    if (kind == "rl_error") {
      rl_options_unset(host.options, "no", RL_NUL_TERMINATED, as<rl_error>());
    } else if (kind == "rl_batch") {
      generate();
    } else {
      EXPECT_RL_OK(make(&err));
    }
  }
  ~Fresh() {
    Word word;
    word.pointer = handle_;
    for (const Row& row : rows()) {
      if (row.name == kind_ + "_destroy" || row.name == kind_ + "_release") row.call(&word);
    }
  }
  Fresh(const Fresh&) = delete;
  void* handle() const { return handle_; }

 private:
  template <typename T>
  T** as() {
    return reinterpret_cast<T**>(&handle_);
  }

  rl_status make(rl_error** err) {
    static const int32_t prompt[] = {1, 2, 3};
    const Host& h = host_;
    if (kind_ == "rl_bytes") {
      return rl_options_export(h.options, RL_FORMAT_TEXT, 1, as<rl_bytes>(), err);
    }
    if (kind_ == "rl_options") return rl_options_clone(h.options, as<rl_options>(), err);
    if (kind_ == "rl_runtime") {
      return rl_runtime_create(RL_ABI_VERSION, h.options, as<rl_runtime>(), err);
    }
    if (kind_ == "rl_plan") return rl_plan_create(h.options, RL_USE_PIPELINE, as<rl_plan>(), err);
    if (kind_ == "rl_model") {
      return rl_model_open(h.runtime, h.options, RL_USE_PIPELINE, as<rl_model>(), err);
    }
    if (kind_ == "rl_pipeline")
      return rl_pipeline_create(h.model, h.options, as<rl_pipeline>(), err);
    if (kind_ == "rl_event") return train(h.trainer, h.batch, as<rl_event>(), err);
    if (kind_ == "rl_event_queue") return rl_pipeline_queue(h.pipeline, as<rl_event_queue>(), err);
    if (kind_ == "rl_engine") return rl_engine_create(h.model, h.options, as<rl_engine>(), err);
    if (kind_ == "rl_buffer") return rl_buffer_create(h.options, 16, as<rl_buffer>(), err);
    if (kind_ == "rl_trainer") return rl_trainer_create(h.model, h.options, as<rl_trainer>(), err);
    if (kind_ == "rl_profiler") return rl_profiler_create(h.runtime, as<rl_profiler>(), err);
    if (kind_ == "rl_conversation") {
      const rl_content content = content_of(prompt, 3);
      return rl_conversation_create(h.engine, &content, as<rl_conversation>(), err);
    }
    return weight_of(h.model, "model.norm.weight", RL_TENSOR_COPY, as<rl_tensor>(), err);
  }

  // Two scored samples, by way of a buffer of their own, so that they have parts of rewards.
  void generate() {
    static const double part = 1;
    rl_request request;
    rl_request_init(&request, sizeof request);
    static const int32_t prompt[] = {1, 2, 3};
    request.prompt = prompt;
    request.num_prompt = 3;
    request.num_samples = 2;
    uint64_t first_id = 0;
    EXPECT_RL_OK(rl_engine_submit(host_.engine, &request, &first_id, &err));
    EXPECT_RL_OK(rl_engine_run(host_.engine, &err));
    EXPECT_RL_OK(rl_engine_take(host_.engine, as<rl_batch>(), &err));
    auto* const batch = static_cast<rl_batch*>(handle_);
    for (size_t i = 0; i < rl_batch_count(batch); ++i) {
      EXPECT_RL_OK(set_reward(batch, i, double(i), &err));
      EXPECT_RL_OK(set_parts(batch, i, &part, 1, &err));
    }
  }

  const std::string kind_;
  const Host& host_;
  void* handle_ = nullptr;
};

// Answers that no order of the two calls explains.
bool is_wrong(rl_status status, bool ends) {
  const bool other = status == RL_INTERNAL || status == RL_WRONG_HANDLE || status == RL_FORKED;
  return other || (!ends && status == RL_STALE_HANDLE);
}

struct Side {
  const Row& row;
  int64_t calls = 0;
  std::string wrong;  // what it said

  void call(const std::string& kind, const Host& host, void* shared, bool ends) {
    Arguments arguments(row, host);
    for (size_t i = 0; i < row.parameters.size(); ++i) {
      const Parameter& p = row.parameters[i];
      if (handle_kind(p) == kind) arguments.set_handle(i, shared);
    }
    const uint64_t result = arguments.call();
    if (row.has_status && is_wrong(static_cast<rl_status>(result), ends)) {
      wrong = arguments.complaint();
    }
    arguments.release_results();
    ++calls;
  }
};

// Both sides on one object until the time is over and each has its least calls, or, when one ends
// the object, until it has.
void run_round(Side& a, Side& b, const std::string& kind, const Host& host, Clock::time_point end) {
  const bool ends = a.row.ends_a_handle() || b.row.ends_a_handle();
  const Fresh object(kind, host);
  std::atomic<int> ready{0}, ended{0}, satisfied{0};
  const auto latest = end + (kLongest - 1) * time_of_pair();
  const auto is_over = [&] { return Clock::now() >= (satisfied == 2 ? end : latest); };
  const auto work = [&](Side& side) {
    ++ready;
    while (ready < 2) std::this_thread::yield();
    for (int i = 1; i <= kMostCalls; ++i) {
      const bool last = ended > 0;
      side.call(kind, host, object.handle(), ends);
      if (side.row.ends_a_handle()) ++ended;
      if (i == kLeastCalls) ++satisfied;
      if (ends ? last || side.row.ends_a_handle() : is_over()) return;
    }
  };
  std::thread other([&] { work(b); });
  work(a);
  other.join();
}

void run_pair(const Row& first, const Row& second, const std::string& kind, const Host& host) {
  SCOPED_TRACE(std::string(first.name) + " " + second.name);
  first_called = first.name;
  second_called = second.name;
  alarm(kHangSeconds);
  Side a{first, 0, {}}, b{second, 0, {}};
  const bool ends = first.ends_a_handle() || second.ends_a_handle();
  const auto end = Clock::now() + time_of_pair();
  int rounds = 0;
  do {
    run_round(a, b, kind, host, end);
  } while (ends && ++rounds < kMostRounds && Clock::now() < end);
  EXPECT_GT(a.calls, 0);
  EXPECT_GT(b.calls, 0);
  EXPECT_EQ(a.wrong, "");
  EXPECT_EQ(b.wrong, "");
}

std::vector<std::string> kinds() {
  std::set<std::string> all;
  for (const Row& row : rows()) {
    for (const Parameter& p : row.parameters) {
      if (p.is == Is::kHandle) all.insert(p.type);
    }
  }
  return {all.begin(), all.end()};
}

class Pairs : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::create_directories(RL_TEST_OUTPUT);
    signal(SIGALRM, on_hang);
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(tell_pair);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(RL_TEST_OUTPUT); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, Pairs, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param; });

TEST_P(Pairs, OfFunctionsOnOneObject) {
  const std::string& kind = GetParam();
  const auto pairs = pairs_of(kind);
  std::printf("%zu pairs\n", pairs.size());
  if (std::getenv("RL_PAIR") != nullptr && pairs.empty()) return;  // it is of another kind
  EXPECT_FALSE(pairs.empty());
  const Host host;
  for (const auto& [first, second] : pairs) run_pair(*first, *second, kind, host);
  alarm(0);
}

TEST(PairsWanted, AreThere) {
  const char* const only = std::getenv("RL_PAIR");
  size_t pairs = 0;
  for (const std::string& kind : kinds()) pairs += pairs_of(kind).size();
  EXPECT_GT(pairs, 0u) << "RL_PAIR=\"" << (only != nullptr ? only : "")
                       << "\" does not name two functions of rl.h that take one kind of handle";
}

}  // namespace
}  // namespace abi_test
