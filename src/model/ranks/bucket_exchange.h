// How ranks give each other all bytes that each of them has, through a buffer of bounded size: in
// rounds, of which each moves the next bytes of every rank.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/values.h"
#include "core/function_ref.h"

namespace rl {

class Compute;

// The bytes of a rank, in pieces that follow one another.
using BytePieces = std::vector<std::span<std::byte>>;
uint64_t bytes_of(const BytePieces& pieces);

// What the buffer needs for buckets of so many bytes, if a rank has `most` at most: a piece for
// each rank, of whole cache lines. No more than a bucket, unless that has less than one line for
// each.
uint64_t bucket_buffer_bytes(uint64_t bucket_bytes, int ranks, uint64_t most);

// Gathers a buffer of which each rank has a piece (comm::Group::all_gather).
using GatherPieces = FunctionRef<void(std::span<std::byte> all, const Pieces& pieces)>;

// Where a rank has, or is to have, the bytes of each rank, its own included.
struct BucketExchange {
  Compute& compute;
  const std::vector<BytePieces>& of_ranks;
  int rank;                     // this one
  std::span<std::byte> buffer;  // bucket_buffer_bytes()
};
// Afterwards this rank has the bytes of all.
void exchange_in_buckets(const BucketExchange& exchange, GatherPieces gather);

}  // namespace rl
