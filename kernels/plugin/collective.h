// The op HpuCollectiveReduce: a sum over the workers of one host (runtime/exchange.h).
#pragma once

namespace habana {

// Registers the op and its kernel; reports what TensorFlow does not take.
void RegisterCollective();

}  // namespace habana
