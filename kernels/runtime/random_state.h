// The Philox stream of one random op, as TensorFlow's GuardedPhiloxRandom keeps it.
#pragma once

#include <cstdint>
#include <mutex>

#include "runtime/export.h"

namespace habana {

// Layout fixed: generated kernels read it through a buffer pointer.
struct RandomState {
  uint32_t counter[4];
  uint32_t key[2];
};
static_assert(sizeof(RandomState) == 24, "generated kernels rely on this layout");

class HABANA_EXPORT RandomStream {
 public:
  // TensorFlow's rule: two zero seeds ask for a stream that differs from run to run.
  RandomStream(uint64_t seed, uint64_t seed2);

  // The state now; the stream itself skips `samples` blocks of 128 bits.
  RandomState Reserve(uint64_t samples);

 private:
  std::mutex mutex_;
  RandomState state_;
};

}  // namespace habana
