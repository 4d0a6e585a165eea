// Simulated HBM: address space of the host, whose pages are taken when they are first touched.
#pragma once

#include <cstdint>

namespace habana {

// Null when the card is full or when the host cannot back the bytes; the latter is said on stderr.
void* AllocateHbm(uint64_t bytes);

// Whether a tensor of this size fits neither an empty card nor its host, and which of the two is too small.
// TensorFlow's allocator would wait ten seconds before it fails.
enum class Shortage { kNone, kCard, kHost };
Shortage NeverFits(uint64_t bytes);

void FreeHbm(void* address);

}  // namespace habana
