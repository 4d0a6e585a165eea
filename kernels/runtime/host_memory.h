// How much memory the host can still give, so that a simulated card larger than its host ends in an error
// and not in the kernel's out-of-memory killer.
#pragma once

#include <cstdint>

#include "runtime/export.h"

namespace habana {

struct HostMemory {
  int64_t total;      // the least of the machine's memory and the limits of cgroup and process, bytes
  int64_t available;  // what can be taken without swapping or reaching the cgroup's limit, bytes
};

// Reads /proc/meminfo and the limits of this process and its cgroup (versions 1 and 2). Costs about 50 us.
HABANA_EXPORT HostMemory ReadHostMemory();

// Bytes always left to the host: 5 % of its memory, at most 1 GiB.
HABANA_EXPORT int64_t HostMemoryReserve(const HostMemory& host);

}  // namespace habana
