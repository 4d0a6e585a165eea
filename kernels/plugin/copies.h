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
  Counters& c = GetCounters();
  const bool on_card = kind == EventKind::kOnCard;
  (on_card ? c.card_copies : c.host_copies).fetch_add(1, std::memory_order_relaxed);
  (on_card ? c.card_copy_bytes : c.host_copy_bytes)
      .fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  RecordedScope recorded(kind, static_cast<int64_t>(size),
                         on_card ? &c.card_copy_nanoseconds : &c.host_copy_nanoseconds);
  std::memcpy(to, from, size);
}

}  // namespace habana
