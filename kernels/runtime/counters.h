// Counters for reports and tests. Relaxed atomics: exact once no launch is under way.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/export.h"

namespace habana {

// X(name): the counters, as native code and Python name them.
#define HABANA_COUNTERS(X)                                                                  \
  X(launches)             /* programs run */                                                \
  X(interpreted_launches) /* of these, interpreted */                                       \
  X(misses)               /* launches that met new shapes in their kernel */                \
  X(resolutions)          /* misses that asked Python */                                    \
  X(callback_errors)      /* Python callbacks that raised */                                \
  X(optimize_calls)       /* graphs handed to the graph pass */                             \
  X(optimize_errors)      /* of these, failed; TensorFlow then keeps the graph as it was */ \
  X(registration_errors)  /* kernels TensorFlow did not take */                             \
  X(unaligned_copies)     /* tensors copied because they were not 64-byte aligned */        \
  X(copies_spared)        /* inputs taken over as outputs instead of copied */              \
  X(variable_ops)         /* resource ops run through nested reads and assigns */           \
  X(stock_ops)            /* ops on HPU that TensorFlow's CPU kernels ran */                \
  X(host_memory_refusals) /* allocations refused because the host ran short */              \
  X(hbm_refusals)         /* allocations refused because the card is full */                \
  X(device_bytes)         /* simulated HBM handed to TensorFlow's allocator */              \
  X(resolve_nanoseconds)  /* of the resolutions */                                          \
  X(optimize_nanoseconds) /* of the graph passes */                                         \
  X(host_copies)          /* copies between host and card */                                \
  X(host_copy_bytes)                                                                        \
  X(host_copy_nanoseconds)                                                                  \
  X(card_copies) /* copies on the card, outside launches */                                 \
  X(card_copy_bytes)                                                                        \
  X(card_copy_nanoseconds)                                                                  \
  X(sums) /* between processes of this host */                                              \
  X(sum_bytes)                                                                              \
  X(sum_nanoseconds) /* waiting for the others included */

struct Counters {
#define HABANA_COUNTER(name) std::atomic<int64_t> name{0};
  HABANA_COUNTERS(HABANA_COUNTER)
#undef HABANA_COUNTER
};

HABANA_EXPORT Counters& GetCounters();

// Counts a copy on the card, or between host and card; gives where its nanoseconds are to be added.
inline std::atomic<int64_t>* CountCopy(bool on_card, int64_t bytes) {
  Counters& c = GetCounters();
  (on_card ? c.card_copies : c.host_copies).fetch_add(1, std::memory_order_relaxed);
  (on_card ? c.card_copy_bytes : c.host_copy_bytes).fetch_add(bytes, std::memory_order_relaxed);
  return on_card ? &c.card_copy_nanoseconds : &c.host_copy_nanoseconds;
}

}  // namespace habana
