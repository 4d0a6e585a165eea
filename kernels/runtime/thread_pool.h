// The pool that runs the work items of a launch.
//
// The caller takes part. Each thread has a share of the work items, in an atomic word of its own, of which it
// takes many at first and few in the end; then it takes what others have left. Workers spin for a short time
// after a job and then sleep, so that the calls of one launch follow each other without a system call. A
// launch that finds the pool taken by another one runs its own items itself: it never waits.
#pragma once

#include <cstdint>

#include "runtime/export.h"

namespace habana {

// One generated kernel: does work items [begin, end).
using KernelFn = void (*)(char** buffers, const int64_t* dims, int64_t begin, int64_t end);

// Threads that may run work items, the caller included. `n` < 1 means one per processor of this process.
HABANA_EXPORT void SetThreads(int n);
HABANA_EXPORT int GetThreads();

// Holds the pool for the calls of one launch, if it is free.
class PoolLease {
 public:
  PoolLease() = default;
  ~PoolLease();
  PoolLease(const PoolLease&) = delete;
  PoolLease& operator=(const PoolLease&) = delete;

  // Returns when all of [0, grid) is done: how many threads could take part. `grain` is the least number of
  // items worth a thread.
  int Run(KernelFn fn, char** buffers, const int64_t* dims, int64_t grid, int64_t grain);

  // How many threads may take part in a call.
  int threads() const { return owned_ ? GetThreads() : 1; }

 private:
  bool tried_ = false;
  bool owned_ = false;
};

// Denormals to zero and round to nearest while in scope, as TensorFlow sets it for its own kernels.
class FloatMode {
 public:
  FloatMode();
  ~FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace habana
