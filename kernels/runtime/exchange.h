// Sums between the processes of one host, through shared memory.
//
// One thread per process does the exchanges of a group, one after the other, in the order in which rank 0 has
// them: a rank that meets them in another order keeps them until it is their turn, so no order can block.
// A tensor goes through in pieces. Each rank copies its piece into its own slot, sums its share of the piece
// over all slots in the order of the ranks, and copies out what all have summed: every rank gets the same
// bits. Two slots per rank take turns, so that a rank is never more than one piece ahead.
//
// A rank that ends, however, is noticed by the others within kLookEvery, and named in their error. A rank
// that gives up on another says so to all: none waits for one that takes part in nothing any more.
//
// The memory has no name: it is gone with the processes that have mapped it, however and whenever they end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/export.h"
#include "runtime/status.h"

namespace habana {

// Numbers of TensorFlow's element types, here to need no header of it.
enum class Element : int { kFloat = 1, kDouble = 2, kInt64 = 9, kBfloat16 = 14 };

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int kMostRanks = 64;

// One sum. `in` and `out` may be the same memory.
struct Sum {
  uint64_t key = 0;  // the same on all ranks; those of one key are done in the order of asking
  Element element = Element::kFloat;
  size_t count = 0;
  const char* in = nullptr;
  char* out = nullptr;
  double timeout_seconds = 0;  // waits no longer than this for the others; 0: as long as they live
};

// How errors call a rank: "<job> <index>". TensorFlow's devices have the names /job:<job>/task:<index>, where
// the index is the rank unless the cluster has a chief, which is rank 0 and no worker.
struct Task {
  std::string job;
  int index = 0;
  std::string longer = "CommunicationOptions(timeout_seconds=...)";  // with what the user sets a timeout
};

// Makes the shared memory of a group, for rank 0, which is `task`. The others join it as
// /proc/<pid>/fd/<descriptor> of this process; the descriptor is the caller's to close once they have.
// `exchange` is what RunSum takes.
HABANA_EXPORT Status MakeExchange(int size, const Task& task, int* exchange, int* descriptor);

// Joins the group whose memory rank 0 has made.
HABANA_EXPORT Status JoinExchange(const std::string& path, int rank, int size, const Task& task,
                                  int* exchange);

// Has the thread of the exchange do a sum, and waits for it. Counted, and in the timeline.
HABANA_EXPORT Status RunSum(int exchange, const Sum& sum);

// Leaves a group whose sums have all ended: its memory is unmapped, and its number stands for nothing from
// now on.
HABANA_EXPORT void LeaveExchange(int exchange);

}  // namespace habana
