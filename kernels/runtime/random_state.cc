#include "runtime/random_state.h"

#include <random>

namespace habana {

namespace {

uint64_t FreshSeed() {
  static std::mutex mutex;
  static std::random_device device;
  std::lock_guard<std::mutex> lock(mutex);
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

RandomStream::RandomStream(uint64_t seed, uint64_t seed2) {
  if (seed == 0 && seed2 == 0) {
    seed = FreshSeed();
    seed2 = FreshSeed();
  }
  state_.counter[0] = 0;
  state_.counter[1] = 0;
  state_.counter[2] = static_cast<uint32_t>(seed2);
  state_.counter[3] = static_cast<uint32_t>(seed2 >> 32);
  state_.key[0] = static_cast<uint32_t>(seed);
  state_.key[1] = static_cast<uint32_t>(seed >> 32);
}

RandomState RandomStream::Reserve(uint64_t samples) {
  std::lock_guard<std::mutex> lock(mutex_);
  const RandomState before = state_;
  uint64_t carry = samples;
  for (int i = 0; i < 4 && carry != 0; ++i) {
    const uint64_t sum = static_cast<uint64_t>(state_.counter[i]) + (carry & 0xffffffffu);
    state_.counter[i] = static_cast<uint32_t>(sum);
    carry = (carry >> 32) + (sum >> 32);
  }
  return before;
}

}  // namespace habana
