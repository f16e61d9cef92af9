// The functions of kernels that all lanes of a warp call together, and the products of tiles.
#include <bit>
#include <cstring>
#include <string>

#include "core/dtype.h"
#include "cuda_host/block_run.h"
#include "cuda_host/emulator.h"
#include "cuda_host/reports.h"
#include "cuda_host/shadow.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/ptx.h"

namespace rl::emulated {
namespace {

constexpr int kLanes = 32;

struct ExchangeOperand {
  Exchange how;
  int argument;
  uint64_t value, result;
};
void exchange_lanes(void* const* operands) {
  for (int lane = 0; lane < kLanes; ++lane) {
    ExchangeOperand& own = *static_cast<ExchangeOperand*>(operands[lane]);
    int from = own.argument;
    if (own.how == Exchange::kXor) from = lane ^ own.argument;
    if (own.how == Exchange::kDown) from = lane + own.argument;
    if (from >= kLanes) from = lane;
    own.result = static_cast<ExchangeOperand*>(operands[from])->value;
  }
}

struct BallotOperand {
  bool predicate;
  uint32_t result;
};
void gather_ballot(void* const* operands) {
  uint32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    bits |= static_cast<uint32_t>(static_cast<BallotOperand*>(operands[lane])->predicate) << lane;
  for (int lane = 0; lane < kLanes; ++lane)
    static_cast<BallotOperand*>(operands[lane])->result = bits;
}

float low_of(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float high_of(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

struct ProductOperand {
  float* d;
  const uint32_t* a;
  const uint32_t* b;
};
// a[row][k] and b[k][column] are gathered from the lanes' fragments.
void multiply(void* const* operands) {
  float a[16][16], b[16][8], d[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const ProductOperand& own = *static_cast<ProductOperand*>(operands[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
      a[row][k] = low_of(own.a[i]);
      a[row][k + 1] = high_of(own.a[i]);
      d[g + i / 2 * 8][2 * t + i % 2] = own.d[i];
    }
    for (int i = 0; i < 2; ++i) {
      b[2 * t + 8 * i][g] = low_of(own.b[i]);
      b[2 * t + 8 * i + 1][g] = high_of(own.b[i]);
    }
  }
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < 16; ++k)
      for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
  for (int lane = 0; lane < kLanes; ++lane) {
    const ProductOperand& own = *static_cast<ProductOperand*>(operands[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) own.d[i] = d[g + i / 2 * 8][2 * t + i % 2];
  }
}

struct TilesOperand {
  uint32_t* to;
  const uint16_t* row;
};
template <bool transposed>
void exchange_tiles(void* const* operands) {
  const auto row_of = [&](int tile, int row) {
    return static_cast<TilesOperand*>(operands[tile * 8 + row])->row;
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int tile = 0; tile < 4; ++tile) {
      const uint32_t low = transposed ? row_of(tile, 2 * t)[g] : row_of(tile, g)[2 * t];
      const uint32_t high = transposed ? row_of(tile, 2 * t + 1)[g] : row_of(tile, g)[2 * t + 1];
      static_cast<TilesOperand*>(operands[lane])->to[tile] = high << 16 | low;
    }
  }
}

}  // namespace

void sync_warp(Site site) { wait_for_warp(nullptr, nullptr, site); }

uint64_t exchange(Exchange how, uint64_t value, int argument, Site site) {
  if (argument < 0 || argument >= kLanes) {
    report(Fault::kBadLane, 0,
           "a lane, mask or distance of " + std::to_string(argument) + " at " + site.file_name() +
               ":" + std::to_string(site.line()));
    end_kernel();
  }
  ExchangeOperand operand{how, argument, value, 0};
  wait_for_warp(&exchange_lanes, &operand, site);
  return operand.result;
}

uint32_t ballot(bool predicate, Site site) {
  BallotOperand operand{predicate, 0};
  wait_for_warp(&gather_ballot, &operand, site);
  return operand.result;
}

void multiply_tiles(float* d, const uint32_t* a, const uint32_t* b, Site site) {
  ProductOperand operand{d, a, b};
  wait_for_warp(&multiply, &operand, site);
}

void load_tiles(uint32_t* to, const void* shared_row, bool transposed, Site site) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(shared_row);
  if (address - kSharedBase >= kSharedBytes) {
    report(Fault::kOutOfBounds, address,
           "ldmatrix of " + describe_address(address) + ", which is not shared memory");
    end_kernel();
  }
  check_read(address, 16);
  TilesOperand operand{to, static_cast<const uint16_t*>(shared_row)};
  wait_for_warp(transposed ? &exchange_tiles<true> : &exchange_tiles<false>, &operand, site);
}

uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(shared) - kSharedBase);
}

}  // namespace rl::emulated
