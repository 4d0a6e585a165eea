// The arithmetic of an exchange: elements summed over the ranks, in the order of the ranks.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/exchange.h"

namespace habana {

// Adds elements begin to end of all slots into those of the first. bfloat16 is summed in fp32 and rounded
// once.
void SumSlots(Element element, const std::vector<char*>& slots, size_t begin, size_t end);

}  // namespace habana
