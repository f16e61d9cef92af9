// Ranks that exchange by a transport of the host (comm.backend = host): the bits are those of ranks
// that are threads, and a host that fails, or provides what the options do not ask for, is named.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>

#include "abi/host.h"
#include "abi/rank_runs.h"

namespace abi_test {
namespace {

constexpr int32_t kLost = 71, kLate = 72;

// Where the ranks of a process leave messages for one another.
class PostOffice {
 public:
  int32_t exchange(uint32_t rank, rl_exchange& e) {
    std::unique_lock lock(mutex_);
    for (size_t i = 0; i < e.num_out; ++i) {
      const auto* const bytes = static_cast<const char*>(e.out_data[i]);
      mail_[{e.channel, rank, e.out_ranks[i]}].emplace_back(bytes, e.out_sizes[i]);
    }
    changed_.notify_all();
    for (size_t i = 0; i < e.num_in; ++i) {
      const auto ready = [&] { return lost_ >= 0 || has_mail({e.channel, e.in_ranks[i], rank}); };
      const auto wait = std::chrono::nanoseconds(e.timeout_ns < 0 ? 60'000'000'000 : e.timeout_ns);
      const bool came = changed_.wait_for(lock, wait, ready);
      e.lost_rank = came ? lost_ : static_cast<int32_t>(e.in_ranks[i]);
      if (!came) return kLate;
      if (lost_ >= 0) return kLost;
      std::deque<std::string>& box = mail_[{e.channel, e.in_ranks[i], rank}];
      e.received[i] = box.front().size() - shorten;
      std::memcpy(e.in_data[i], box.front().data(), std::min(e.in_sizes[i], box.front().size()));
      box.pop_front();
    }
    return 0;
  }

  void lose(uint32_t rank) {
    const std::lock_guard lock(mutex_);
    if (lost_ < 0) lost_ = static_cast<int32_t>(rank);
    changed_.notify_all();
  }
  int32_t lost() const { return lost_; }

  uint64_t shorten = 0;  // bytes by which a message is said to be shorter

 private:
  using Box = std::tuple<uint64_t, uint32_t, uint32_t>;
  bool has_mail(const Box& box) {
    const auto found = mail_.find(box);
    return found != mail_.end() && !found->second.empty();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Box, std::deque<std::string>> mail_;
  int32_t lost_ = -1;
};

struct Member {
  std::shared_ptr<PostOffice> office;
  uint32_t rank;
  int* ended;
};

class TransportAbi : public ::testing::Test {
 protected:
  TransportAbi() : options_(rank_options("2")) { set(options_, "comm.backend", "host"); }
  ~TransportAbi() override {
    rl_error_release(error_);
    rl_options_destroy(options_);
  }

  rl_transport table(uint32_t rank) {
    rl_transport t;
    rl_transport_init(&t, sizeof t);
    t.user_data = new Member{office_, rank, &ended_};
    t.destroy = [](void* data) {
      const std::unique_ptr<Member> member(static_cast<Member*>(data));
      member->office->lose(member->rank);
      ++*member->ended;
    };
    t.rank = rank;
    t.num_ranks = 2;
    t.exchange = [](void* data, rl_exchange* e) -> int32_t {
      const Member& member = *static_cast<Member*>(data);
      return member.office->exchange(member.rank, *e);
    };
    t.abandon = [](void* data, uint32_t rank, const char* why, size_t why_len) {
      EXPECT_GT(why_len, 0u);
      EXPECT_EQ(std::strlen(why), why_len);
      static_cast<Member*>(data)->office->lose(rank);
    };
    t.describe = [](void*, int32_t code, char* text, size_t size) {
      std::snprintf(text, size, "the post is gone, %d", code);
    };
    return t;
  }

  rl_status make(const rl_transport* transport, rl_runtime** out) {
    rl_error_release(error_);
    error_ = nullptr;
    rl_host host;
    rl_host_init(&host, sizeof host);
    host.transport = transport;
    return rl_runtime_create_hosted(RL_ABI_VERSION, options_, &host, out, &error_);
  }
  rl_runtime* made(uint32_t rank) {
    const rl_transport transport = table(rank);
    rl_runtime* runtime = nullptr;
    EXPECT_EQ(make(&transport, &runtime), RL_OK);
    return runtime;
  }
  // Of a table that is refused, whose user_data is consumed.
  void refuse(const rl_transport& table, rl_status status, const char* key) {
    const int before = ended_;
    rl_runtime* runtime = nullptr;
    EXPECT_EQ(make(&table, &runtime), status) << key;
    EXPECT_STREQ(text(RL_ERROR_KEY), key);
    EXPECT_EQ(runtime, nullptr);
    EXPECT_EQ(ended_, before + 1);
  }
  const char* text(int32_t field) const { return rl_error_text(error_, field, nullptr); }
  // Of two pipelines whose messages the host moves, and two whose ranks are threads.
  void expect_weights_of_threads();

  int ended_ = 0;
  const std::shared_ptr<PostOffice> office_ = std::make_shared<PostOffice>();
  rl_options* options_;
  rl_error* error_ = nullptr;
};

void TransportAbi::expect_weights_of_threads() {
  set_two_steps(options_);
  std::vector<Rank> hosted(2), threads(2);
  for (uint32_t i = 0; i < 2; ++i) {
    hosted[i].runtime = made(i);
    EXPECT_EQ(info_of(hosted[i].runtime).rank, i);
    EXPECT_EQ(info_of(hosted[i].runtime).num_ranks, 2u);
  }
  rl_runtime* none = nullptr;
  EXPECT_EQ(rl_runtime_create_rank(hosted[0].runtime, 1, &none, &error_), RL_FAILED_PRECONDITION);
  EXPECT_STREQ(text(RL_ERROR_KEY), "comm.backend");
  run_pipelines(hosted, options_);
  EXPECT_EQ(ended_, 2);
  set(options_, "comm.backend", "local");
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options_, &threads[0].runtime, &err));
  EXPECT_RL_OK(rl_runtime_create_rank(threads[0].runtime, 1, &threads[1].runtime, &err));
  run_pipelines(threads, options_);
  EXPECT_EQ(hosted[0].digest, threads[0].digest);
  EXPECT_EQ(hosted[1].digest, threads[1].digest);
  EXPECT_GT(hosted[1].scored, 0);
}

TEST_F(TransportAbi, RanksTrainToTheWeightsOfThreads) { expect_weights_of_threads(); }

// Each sends its keys and values to the next, and their gradients behind them.
TEST_F(TransportAbi, RanksOfARingTrainToTheWeightsOfThreads) {
  set(options_, "parallel.data", "1");
  set(options_, "parallel.context", "2");
  set(options_, "parallel.context_kind", "ring");
  expect_weights_of_threads();
}

// The pipeline of one rank alone, and the error that ends it.
rl_status run_alone(rl_runtime* runtime, const rl_options* options, rl_error** error) {
  Rank rank{.runtime = runtime};
  EXPECT_RL_OK(rl_model_open(runtime, options, RL_USE_PIPELINE, &rank.model, &err));
  EXPECT_RL_OK(rl_pipeline_create(rank.model, options, &rank.pipeline, &err));
  EXPECT_RL_OK(rl_pipeline_start(rank.pipeline, &err));
  rl_status status = RL_OK;
  while (status == RL_OK || status == RL_TIMEOUT) {
    rl_error_release(*error);
    *error = nullptr;
    rl_event* event = nullptr;
    status = rl_pipeline_next(rank.pipeline, 1000000, &event, error);
    if (status == RL_OK) take(rank, event);
    rl_event_release(event);
  }
  rl_pipeline_destroy(rank.pipeline);
  rl_model_destroy(rank.model);
  rl_runtime_destroy(runtime);
  return status;
}

TEST_F(TransportAbi, ARankThatHasLeftIsNamedWithTheHostsCode) {
  set_two_steps(options_);
  rl_runtime* const stays = made(0);
  rl_runtime_destroy(made(1));
  EXPECT_EQ(office_->lost(), 1);
  rl_error* error = nullptr;
  EXPECT_EQ(run_alone(stays, options_, &error), RL_RANK_LOST);
  EXPECT_STREQ(rl_error_text(error, RL_ERROR_LOCATION, nullptr), "rank 1");
  EXPECT_EQ(rl_error_system_code(error), kLost);
  const std::string message = rl_error_text(error, RL_ERROR_MESSAGE, nullptr);
  EXPECT_NE(message.find("the post is gone, 71"), std::string::npos) << message;
  rl_error_release(error);
  EXPECT_EQ(ended_, 2);
}

TEST_F(TransportAbi, ARankThatDoesNotComeIsNamed) {
  set_two_steps(options_);
  set(options_, "comm.timeout_ns", "100ms");
  rl_runtime *const waits = made(0), *const late = made(1);
  rl_error* error = nullptr;
  EXPECT_EQ(run_alone(waits, options_, &error), RL_RANK_LOST);
  EXPECT_STREQ(rl_error_text(error, RL_ERROR_LOCATION, nullptr), "rank 1");
  EXPECT_EQ(rl_error_system_code(error), kLate);
  EXPECT_EQ(office_->lost(), 1) << "all ranks hear of it";
  rl_error_release(error);
  rl_runtime_destroy(late);
}

TEST_F(TransportAbi, MessagesOfAnotherSizeEndTheRun) {
  set_two_steps(options_);
  office_->shorten = 1;
  rl_runtime* const runtimes[] = {made(0), made(1)};
  rl_error* errors[2] = {};
  rl_status statuses[2] = {};
  std::thread other([&] { statuses[1] = run_alone(runtimes[1], options_, &errors[1]); });
  statuses[0] = run_alone(runtimes[0], options_, &errors[0]);
  other.join();
  int told = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(statuses[i] == RL_INCOMPATIBLE || statuses[i] == RL_RANK_LOST) << statuses[i];
    const std::string message = rl_error_text(errors[i], RL_ERROR_MESSAGE, nullptr);
    told += static_cast<int>(message.find("the host received") != std::string::npos);
    rl_error_release(errors[i]);
  }
  EXPECT_GE(told, 1);
}

TEST_F(TransportAbi, RefusesWhatCannotBe) {
  rl_transport t = table(0);
  t.exchange = nullptr;
  refuse(t, RL_INVALID_ARGUMENT, "host.transport.exchange");
  t = table(0);
  t.abandon = nullptr;
  refuse(t, RL_INVALID_ARGUMENT, "host.transport.abandon");
  t = table(2);
  refuse(t, RL_INVALID_ARGUMENT, "host.transport.rank");
  t = table(0);
  t.num_ranks = 0;
  refuse(t, RL_INVALID_ARGUMENT, "host.transport.num_ranks");
  t = table(0);
  t.num_ranks = 3;
  refuse(t, RL_INVALID_ARGUMENT, "host.transport");
  EXPECT_STREQ(text(RL_ERROR_EXPECTED), "2");
  rl_runtime* runtime = nullptr;
  EXPECT_EQ(make(nullptr, &runtime), RL_FAILED_PRECONDITION);
  EXPECT_STREQ(text(RL_ERROR_KEY), "comm.backend");
  rl_error_release(error_);
  EXPECT_EQ(rl_runtime_create(RL_ABI_VERSION, options_, &runtime, &error_), RL_FAILED_PRECONDITION);
  EXPECT_STREQ(text(RL_ERROR_KEY), "comm.backend");
  set(options_, "comm.backend", "local");
  refuse(table(0), RL_CONFLICT, "comm.backend");
  set(options_, "parallel.data", "1");
  refuse(table(0), RL_CONFLICT, "comm.backend");
  EXPECT_EQ(runtime, nullptr);
}

}  // namespace
}  // namespace abi_test
