// Copies between host and card, and within the card: all are memory of this process.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/counters.h"
#include "runtime/timeline.h"

namespace habana {

// Copies, counts and records. kind: kToCard, kFromCard or kOnCard.
inline void RecordedCopy(EventKind kind, void* to, const void* from, uint64_t size) {
  if (size == 0) return;
  const auto bytes = static_cast<int64_t>(size);
  RecordedScope recorded(kind, bytes, CountCopy(kind == EventKind::kOnCard, bytes));
  std::memcpy(to, from, size);
}

}  // namespace habana
