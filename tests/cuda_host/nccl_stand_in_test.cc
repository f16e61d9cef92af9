// The stand-in of NCCL keeps the order of streams: messages and sums wait for all who take part,
// and what is behind them waits for them.
#include "cuda_host/nccl_stand_in.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "cuda_host/emulator.h"
#include "device/cuda/nccl_library.h"

namespace rl::emulated {
namespace {

using cuda::NcclComm;
using cuda::NcclConfig;
using cuda::NcclFunctions;
using cuda::NcclId;
using cuda::NcclReduction;
using cuda::NcclResult;
using cuda::NcclType;

constexpr size_t kBytes = 256, kFloats = kBytes / sizeof(float);

// Two ranks, each with a stream and an array on the one device.
class NcclStandIn : public ::testing::Test {
 protected:
  struct Rank {
    NcclComm* comm = nullptr;
    cudaStream_t stream = nullptr;
    void* data = nullptr;
  };

  NcclStandIn() { begin(0); }
  ~NcclStandIn() override { end(); }
  void begin(uint64_t seed) {
    forget_nccl();
    restart(seed);
    nccl_ = cuda::find_nccl(cuda::nccl_symbols());
    NcclId id;
    EXPECT_EQ(nccl_.GetUniqueId(&id), NcclResult::kSuccess);
    for (int r = 0; r < 2; ++r) {
      NcclConfig config;
      Rank& rank = ranks_[static_cast<size_t>(r)];
      EXPECT_EQ(nccl_.CommInitRankConfig(&rank.comm, 2, id, r, &config), NcclResult::kInProgress);
      EXPECT_EQ(state_of(0), r == 0 ? NcclResult::kInProgress : NcclResult::kSuccess);
      EXPECT_EQ(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking), cudaSuccess);
      EXPECT_EQ(cudaMalloc(&rank.data, kBytes), cudaSuccess);
      EXPECT_EQ(cudaMemsetAsync(rank.data, 1 + r, kBytes, rank.stream), cudaSuccess);
    }
  }
  void end() {
    for (Rank& rank : ranks_)
      if (rank.comm != nullptr) abort(rank);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (const Rank& rank : ranks_) {
      EXPECT_EQ(cudaFree(rank.data), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(rank.stream), cudaSuccess);
    }
    EXPECT_EQ(live_nccl_communicators(), 0);
  }

  NcclResult state_of(int rank) {
    NcclResult state = NcclResult::kInternalError;
    EXPECT_EQ(nccl_.CommGetAsyncError(ranks_[static_cast<size_t>(rank)].comm, &state),
              NcclResult::kSuccess);
    return state;
  }
  void abort(Rank& rank) {
    EXPECT_EQ(nccl_.CommAbort(rank.comm), NcclResult::kSuccess);
    rank.comm = nullptr;
  }
  NcclResult send(const Rank& rank, int to) {
    EXPECT_EQ(nccl_.GroupStart(), NcclResult::kSuccess);
    const NcclResult out =
        nccl_.Send(rank.data, kBytes, NcclType::kUint8, to, rank.comm, rank.stream);
    EXPECT_EQ(nccl_.GroupEnd(), NcclResult::kInProgress);
    return out;
  }
  NcclResult receive(const Rank& rank, int from) {
    EXPECT_EQ(nccl_.GroupStart(), NcclResult::kSuccess);
    const NcclResult out =
        nccl_.Recv(rank.data, kBytes, NcclType::kUint8, from, rank.comm, rank.stream);
    EXPECT_EQ(nccl_.GroupEnd(), NcclResult::kInProgress);
    return out;
  }
  // Adds up on both ranks, or at `root`.
  NcclResult add_up(const Rank& rank, int root = -1) {
    EXPECT_EQ(nccl_.GroupStart(), NcclResult::kSuccess);
    const auto type = NcclType::kFloat32;
    const auto sum = NcclReduction::kSum;
    const NcclResult out =
        root < 0
            ? nccl_.AllReduce(rank.data, rank.data, kFloats, type, sum, rank.comm, rank.stream)
            : nccl_.Reduce(rank.data, rank.data, kFloats, type, sum, root, rank.comm, rank.stream);
    EXPECT_EQ(nccl_.GroupEnd(), NcclResult::kInProgress);
    return out;
  }
  // Whether a stream ends if it is asked often.
  static bool ends(const Rank& rank) {
    for (int i = 0; i < 100; ++i)
      if (cudaStreamQuery(rank.stream) == cudaSuccess) return true;
    return false;
  }
  static std::vector<unsigned char> bytes_of(const Rank& rank) {
    std::vector<unsigned char> out(kBytes);
    EXPECT_EQ(cudaMemcpy(out.data(), rank.data, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return out;
  }

  NcclFunctions nccl_;
  std::array<Rank, 2> ranks_;
};

TEST_F(NcclStandIn, AMessageMovesWhenBothEndsHaveCome) {
  for (const bool sender_first : {true, false}) {
    end();
    begin(1);
    const Rank &first = ranks_[sender_first ? 0 : 1], &second = ranks_[sender_first ? 1 : 0];
    EXPECT_EQ(sender_first ? send(first, 1) : receive(first, 0), NcclResult::kSuccess);
    EXPECT_FALSE(ends(first));
    EXPECT_EQ(sender_first ? receive(second, 0) : send(second, 1), NcclResult::kSuccess);
    EXPECT_TRUE(ends(first));
    EXPECT_TRUE(ends(second));
    EXPECT_EQ(bytes_of(ranks_[1]), std::vector<unsigned char>(kBytes, 1));
  }
}

TEST_F(NcclStandIn, WhatIsSentMayChangeBehindTheMessage) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    end();
    begin(seed);
    EXPECT_EQ(send(ranks_[0], 1), NcclResult::kSuccess);
    EXPECT_EQ(cudaMemsetAsync(ranks_[0].data, 7, kBytes, ranks_[0].stream), cudaSuccess);
    EXPECT_EQ(receive(ranks_[1], 0), NcclResult::kSuccess);
    EXPECT_TRUE(ends(ranks_[1]));
    EXPECT_TRUE(ends(ranks_[0]));
    EXPECT_EQ(bytes_of(ranks_[1]), std::vector<unsigned char>(kBytes, 1)) << seed;
  }
}

// Rank r has bytes 1 + r, which are fp32 numbers too.
std::vector<unsigned char> sum_of_both() {
  std::vector<unsigned char> parts[] = {std::vector<unsigned char>(kBytes, 1),
                                        std::vector<unsigned char>(kBytes, 2)};
  for (size_t i = 0; i < kBytes; i += sizeof(float)) {
    float numbers[2];
    for (size_t r = 0; r < 2; ++r) std::memcpy(&numbers[r], &parts[r][i], sizeof(float));
    numbers[0] += numbers[1];
    std::memcpy(&parts[0][i], &numbers[0], sizeof(float));
  }
  return parts[0];
}

TEST_F(NcclStandIn, ASumIsThereWhenAllHaveCome) {
  for (const int root : {-1, 0, 1}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      end();
      begin(seed);
      EXPECT_EQ(add_up(ranks_[0], root), NcclResult::kSuccess);
      EXPECT_FALSE(ends(ranks_[0]));
      EXPECT_EQ(add_up(ranks_[1], root), NcclResult::kSuccess);
      for (int r = 0; r < 2; ++r) {
        const Rank& rank = ranks_[static_cast<size_t>(r)];
        EXPECT_TRUE(ends(rank));
        const std::vector<unsigned char> own(kBytes, static_cast<unsigned char>(1 + r));
        EXPECT_EQ(bytes_of(rank), root == -1 || root == r ? sum_of_both() : own) << root;
      }
    }
  }
}

TEST_F(NcclStandIn, ASumThatIsAbortedChangesNothing) {
  EXPECT_EQ(add_up(ranks_[0]), NcclResult::kSuccess);
  EXPECT_EQ(add_up(ranks_[1]), NcclResult::kSuccess);
  abort(ranks_[1]);
  abort(ranks_[0]);
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(ends(ranks_[static_cast<size_t>(r)]));
    EXPECT_EQ(bytes_of(ranks_[static_cast<size_t>(r)]),
              std::vector<unsigned char>(kBytes, static_cast<unsigned char>(1 + r)));
  }
}

TEST_F(NcclStandIn, AbortedWorkEndsWithoutEffect) {
  EXPECT_EQ(send(ranks_[0], 1), NcclResult::kSuccess);
  EXPECT_FALSE(ends(ranks_[0]));
  abort(ranks_[0]);
  EXPECT_TRUE(ends(ranks_[0]));
  EXPECT_EQ(receive(ranks_[1], 0), NcclResult::kSuccess);
  EXPECT_FALSE(ends(ranks_[1]));
  abort(ranks_[1]);
  EXPECT_TRUE(ends(ranks_[1]));
  EXPECT_EQ(bytes_of(ranks_[1]), std::vector<unsigned char>(kBytes, 2));
}

TEST_F(NcclStandIn, AllRanksMayAbortBeforeAMessageHasMoved) {
  for (const size_t first : {size_t{0}, size_t{1}}) {
    end();
    begin(0);
    EXPECT_EQ(send(ranks_[0], 1), NcclResult::kSuccess);
    EXPECT_EQ(receive(ranks_[1], 0), NcclResult::kSuccess);
    abort(ranks_[first]);
    abort(ranks_[1 - first]);
    EXPECT_TRUE(ends(ranks_[0]));
    EXPECT_TRUE(ends(ranks_[1]));
    EXPECT_EQ(bytes_of(ranks_[1]), std::vector<unsigned char>(kBytes, 2));
  }
}

TEST_F(NcclStandIn, RefusesRanksThatThereAreNot) {
  EXPECT_EQ(send(ranks_[0], 0), NcclResult::kInvalidArgument);
  EXPECT_EQ(send(ranks_[0], 2), NcclResult::kInvalidArgument);
  EXPECT_EQ(receive(ranks_[1], -1), NcclResult::kInvalidArgument);
  EXPECT_EQ(add_up(ranks_[0], 2), NcclResult::kInvalidArgument);
  EXPECT_EQ(
      nccl_.Send(ranks_[0].data, kBytes, NcclType::kUint8, 1, ranks_[0].comm, ranks_[0].stream),
      NcclResult::kInvalidArgument)
      << "outside a group";
}

}  // namespace
}  // namespace rl::emulated
