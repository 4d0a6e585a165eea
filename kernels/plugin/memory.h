// Simulated HBM: address space of the host, whose pages are taken when they are first touched.
#pragma once

#include <cstdint>

namespace habana {

// Null when the card is full or when the host cannot back the bytes; the latter is said on stderr.
void* AllocateHbm(uint64_t bytes);

// Whether a tensor of this size could not be even if the card held nothing else, and for want of what.
// TensorFlow's allocator would find out too, but only after waiting ten seconds for memory to come free.
enum class Shortage { kNone, kCard, kHost };
Shortage NeverFits(uint64_t bytes);

void FreeHbm(void* address, uint64_t bytes);

}  // namespace habana
