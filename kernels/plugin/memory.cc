#include "plugin/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/callbacks.h"
#include "runtime/card.h"
#include "runtime/counters.h"
#include "runtime/host_memory.h"

namespace habana {

namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;

struct Regions {
  std::mutex mutex;
  std::map<char*, uint64_t> sizes;
};

Regions& g_regions = *new Regions;

// Bytes promised to TensorFlow that the host has not had to back yet. Called with the regions locked.
int64_t UntouchedBytes() {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t step = page << 15;
  std::vector<unsigned char> resident;
  int64_t untouched = 0;
  for (const auto& [start, size] : g_regions.sizes) {
    for (uint64_t at = 0; at < size; at += step) {
      const uint64_t length = std::min(step, size - at);
      resident.assign((length + page - 1) / page, 0);
      if (mincore(start + at, length, resident.data()) != 0) continue;
      for (unsigned char flag : resident) untouched += (flag & 1) ? 0 : static_cast<int64_t>(page);
    }
  }
  return untouched;
}

// Address space without pages. Large regions start at a large page and ask for such pages: fewer faults and
// TLB misses in large launches; small ones must not grow by them.
void* Map(uint64_t size) {
  const bool large = size >= 2 * kHugePage;
  const uint64_t room = large ? size + kHugePage : size;
  void* raw = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  if (!large) return raw;
  char* start = static_cast<char*>(raw);
  const uint64_t skip = (kHugePage - reinterpret_cast<uintptr_t>(raw) % kHugePage) % kHugePage;
  if (skip > 0) munmap(start, skip);
  if (room - skip > size) munmap(start + skip + size, room - skip - size);
  madvise(start + skip, size, MADV_HUGEPAGE);
  return start + skip;
}

}  // namespace

void* AllocateHbm(uint64_t bytes) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t size = std::max<uint64_t>(page, (bytes + page - 1) / page * page);
  Counters& counters = GetCounters();
  const HostMemory host = ReadHostMemory();
  std::lock_guard<std::mutex> lock(g_regions.mutex);
  const uint64_t capacity = static_cast<uint64_t>(GetCard().hbm_bytes);
  if (bytes > capacity || static_cast<uint64_t>(counters.device_bytes.load()) > capacity - bytes) {
    counters.hbm_refusals.fetch_add(1);
    return nullptr;
  }
  const int64_t promised = UntouchedBytes() + static_cast<int64_t>(size);
  if (promised > host.available - HostMemoryReserve(host)) {
    if (counters.host_memory_refusals.fetch_add(1) == 0) {
      std::fprintf(
          stderr,
          "habana_tf: HPU:0 asks for %lld MiB, but the host memory that can still be taken is %lld MiB "
          "(%lld MiB kept in reserve); the simulated card is larger than this host\n",
          static_cast<long long>(promised >> 20), static_cast<long long>(host.available >> 20),
          static_cast<long long>(HostMemoryReserve(host) >> 20));
    }
    return nullptr;
  }
  void* address = Map(size);
  if (address == nullptr) {
    counters.host_memory_refusals.fetch_add(1);
    return nullptr;
  }
  g_regions.sizes[static_cast<char*>(address)] = size;
  counters.device_bytes.fetch_add(static_cast<int64_t>(size));
  PublishMemory(counters.device_bytes.load());
  return address;
}

Shortage NeverFits(uint64_t bytes) {
  constexpr uint64_t kLarge = uint64_t{256} << 20;  // below it, the host is not asked
  Counters& counters = GetCounters();
  if (bytes > static_cast<uint64_t>(GetCard().hbm_bytes)) {
    counters.hbm_refusals.fetch_add(1);
    return Shortage::kCard;
  }
  if (bytes < kLarge) return Shortage::kNone;
  const HostMemory host = ReadHostMemory();
  if (static_cast<int64_t>(bytes) <=
      host.available - HostMemoryReserve(host) + counters.device_bytes.load()) {
    return Shortage::kNone;
  }
  counters.host_memory_refusals.fetch_add(1);
  return Shortage::kHost;
}

void FreeHbm(void* address) {
  if (address == nullptr) return;
  std::lock_guard<std::mutex> lock(g_regions.mutex);
  const auto it = g_regions.sizes.find(static_cast<char*>(address));
  if (it == g_regions.sizes.end()) return;
  munmap(address, it->second);
  GetCounters().device_bytes.fetch_sub(static_cast<int64_t>(it->second));
  PublishMemory(GetCounters().device_bytes.load());
  g_regions.sizes.erase(it);
}

}  // namespace habana
