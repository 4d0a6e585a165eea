// What the runtime counted, for reports and tests. Relaxed atomics: exact once the process is quiet.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/export.h"

namespace habana {

struct Counters {
  std::atomic<int64_t> launches{0};              // programs run
  std::atomic<int64_t> interpreted_launches{0};  // of these, interpreted
  std::atomic<int64_t> misses{0};                // launches that met new shapes in their kernel
  std::atomic<int64_t> resolutions{0};           // misses that asked Python
  std::atomic<int64_t> callback_errors{0};       // Python callbacks that raised
  std::atomic<int64_t> optimize_calls{0};        // graphs handed to the graph pass
  std::atomic<int64_t> optimize_errors{0};      // of these, failed; TensorFlow then keeps the graph as it was
  std::atomic<int64_t> registration_errors{0};  // kernels TensorFlow did not take
  std::atomic<int64_t> unaligned_copies{0};     // tensors copied because they were not 64-byte aligned
  std::atomic<int64_t> copies_spared{0};        // inputs taken over as outputs instead of copied
  std::atomic<int64_t> variable_ops{0};         // resource ops run through nested reads and assigns
  std::atomic<int64_t> stock_ops{0};            // ops on HPU that TensorFlow's CPU kernels ran
  std::atomic<int64_t> host_memory_refusals{0};  // allocations refused because the host ran short
  std::atomic<int64_t> hbm_refusals{0};          // allocations refused because the card is full
  std::atomic<int64_t> device_bytes{0};          // simulated HBM handed to TensorFlow's allocator
};

HABANA_EXPORT Counters& GetCounters();

}  // namespace habana
