// The memory that the ranks of an exchange share: what each tells the others, and two slots of each for
// elements.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/exchange.h"

namespace habana {

// What a rank tells the others. On a cache line of its own; counters only grow.
struct alignas(128) Peer {
  std::atomic<int64_t> pid{0};
  std::atomic<uint64_t> started{0};  // clock ticks since boot, so that a pid used again is not mistaken
  std::atomic<uint32_t> copied{0};   // pieces in its slots
  std::atomic<uint32_t> summed{0};   // pieces of which it has summed its share
  uint64_t count = 0;                // of the sum under way, written before `copied` grows
  int element = 0;
  int task = 0;  // with `job` how TensorFlow calls it; written before the group is complete
  char job[32] = "";
};

struct Header {
  std::atomic<uint64_t> magic{0};
  int size = 0;
  std::atomic<uint32_t> turn{0};  // sums begun by rank 0
  uint64_t key = 0;               // of the latest, written before `turn` grows
  std::atomic<int> missed{0};     // 1 + the first rank that another gave up on
  Peer peers[kMostRanks];
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "the header is shared between processes");

size_t SegmentBytes(int size);

// When a process started (field 22 of its stat), 0 if there is none or it is a zombie.
uint64_t StartOf(int64_t pid);

// New memory for rank 0, and the memory at `path` for the others, as a descriptor that the caller closes.
Status MakeSegment(int size, int* descriptor);
Status OpenSegment(const std::string& path, int size, int* descriptor);

// Maps it and enters `task` in it as `rank`.
Status MapSegment(int descriptor, int rank, int size, const Task& task, char** memory);
void UnmapSegment(char* memory, int size);

}  // namespace habana
