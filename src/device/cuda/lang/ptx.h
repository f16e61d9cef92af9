// Instructions that C++ cannot name: one wrapper each, and all the PTX of the library. The emulated
// build has a header of the same name with the same wrappers in C++; on a GPU a test compares the
// two. All need sm_80. Warp-wide ones are called by all 32 lanes together.
//
// Fragments of mma.m16n8k16 in lane l, with g = l / 4 and t = l % 4, two bf16 in each register, the
// one of the lower index in the lower half:
//   a[0]: row g,     columns 2t, 2t+1       a[2]: row g,     columns 2t+8, 2t+9
//   a[1]: row g + 8, columns 2t, 2t+1       a[3]: row g + 8, columns 2t+8, 2t+9
//   b[0]: column g,  rows 2t, 2t+1          b[1]: column g,  rows 2t+8, 2t+9
//   d[0], d[1]: row g, columns 2t, 2t+1     d[2], d[3]: row g + 8, columns 2t, 2t+1
#pragma once
#include <cstdint>

#include "device/cuda/lang/kernel.h"

namespace rl::cuda {

// d += a b for a 16 x 16 tile a and a 16 x 8 tile b of bf16, in fp32.
RL_DEVICE void mma_bf16_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

RL_DEVICE uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// Four 8 x 8 tiles of 2-byte elements from shared memory. Lane l passes the address of row l % 8 of
// tile l / 8, 16 bytes aligned to 16. to[i] of lane l holds elements 2 (l % 4) and 2 (l % 4) + 1 of
// row l / 4 of tile i; transposed, of column l / 4.
RL_DEVICE void load_tiles(uint32_t (&to)[4], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(shared_row))
               : "memory");
}
RL_DEVICE void load_tiles_transposed(uint32_t (&to)[4], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(shared_row))
               : "memory");
}

// Starts a copy of 16 bytes from global to shared memory, both aligned to 16. It is complete for
// the calling thread after a wait_copies() that covers its group, and for the block after the
// sync_block() that follows.
RL_DEVICE void copy_async_16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(shared_address(shared)),
               "l"(global)
               : "memory");
}
// Closes the thread's group of copies.
RL_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
// Waits until at most `pending` of the newest groups are not complete.
template <int pending>
RL_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(pending) : "memory");
}

}  // namespace rl::cuda
