// Sums between the processes of one host, through shared memory.
//
// One thread per process does the exchanges of a group, one after the other, in the order in which rank 0 has
// them: a rank that meets them in another order keeps them until it is their turn, so no order can block.
// A tensor goes through in pieces. Each rank copies its piece into its own slot, sums its share of the piece
// over all slots in the order of the ranks, and copies out what all have summed: every rank gets the same
// bits. Two slots per rank take turns, so that a rank is never more than one piece ahead.
//
// A rank that ends, however, is noticed by the others within kLookEvery, and named in their error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/export.h"
#include "runtime/status.h"

namespace habana {

// Numbers of TensorFlow's element types, here to need no header of it.
enum class Element : int { kFloat = 1, kDouble = 2, kInt64 = 9, kBfloat16 = 14 };

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int kMostRanks = 64;

// One sum. `in` and `out` may be the same memory, and must live until `done` was called.
struct Sum {
  uint64_t key = 0;  // the same on all ranks, and never used twice
  Element element = Element::kFloat;
  size_t count = 0;
  const char* in = nullptr;
  char* out = nullptr;
  double timeout_seconds = 0;  // waits no longer than this for the others; 0: as long as they live
  std::function<void(const Status&)> done;
};

// Makes the shared memory of a group (rank 0, before the others) or joins it. Returns the number of the
// exchange, to be given to Enqueue.
HABANA_EXPORT Status OpenExchange(const std::string& name, int rank, int size, int* exchange);

// Takes the name away, once all have joined: the memory lives as long as its processes, and no longer.
HABANA_EXPORT void UnlinkExchange(const std::string& name);

// Hands a sum to the thread of the exchange; `done` is called from there, or from here with an error.
HABANA_EXPORT void EnqueueSum(int exchange, Sum sum);

}  // namespace habana
