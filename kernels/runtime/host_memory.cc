#include "runtime/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace habana {

namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

// A file that holds one number; kNone for "max", an absent file, or version 1's "no limit" (about 2^63).
int64_t ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t value;
  if (!(file >> value) || value > (int64_t{1} << 60)) return kNone;
  return value;
}

int64_t ReadField(const std::string& path, const std::string& field) {
  std::ifstream file(path);
  std::string name;
  int64_t value;
  std::string rest;
  while (file >> name >> value) {
    if (name == field) return value;
    std::getline(file, rest);
  }
  return kNone;
}

// Lowers `host` to what the cgroup directory `path` allows, and its ancestors up to `root`: inside a
// container `path` may be the host's while `root` shows the container's own group.
void ApplyCgroup(const std::string& root, std::string path, const char* limit_name, const char* usage_name,
                 const char* inactive_name, HostMemory* host) {
  for (;;) {
    const std::string dir = root + path;
    const int64_t limit = ReadNumber(dir + "/" + limit_name);
    const int64_t usage = ReadNumber(dir + "/" + usage_name);
    if (limit != kNone && usage != kNone) {
      // Inactive file pages are counted but given back on demand.
      const int64_t inactive = ReadField(dir + "/memory.stat", inactive_name);
      const int64_t busy = inactive == kNone ? usage : std::max<int64_t>(0, usage - inactive);
      host->total = std::min(host->total, limit);
      host->available = std::min(host->available, std::max<int64_t>(0, limit - busy));
    }
    const size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return;
    path.resize(slash);
  }
}

// Lowers `host` to what this process may still map (ulimit -v).
void ApplyAddressSpace(HostMemory* host) {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(kNone)) return;
  const int64_t pages = ReadNumber("/proc/self/statm");
  if (pages == kNone) return;
  const int64_t mapped = pages * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  const int64_t most = static_cast<int64_t>(limit.rlim_cur);
  host->total = std::min(host->total, most);
  host->available = std::min(host->available, std::max<int64_t>(0, most - mapped));
}

}  // namespace

HostMemory ReadHostMemory() {
  HostMemory host{kNone, kNone};
  const int64_t total = ReadField("/proc/meminfo", "MemTotal:");
  const int64_t available = ReadField("/proc/meminfo", "MemAvailable:");
  if (total != kNone) host.total = total * 1024;
  if (available != kNone) host.available = available * 1024;

  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // "0::/path" in version 2, "4:memory:/path" in version 1.
    std::istringstream fields(line);
    std::string number, controllers, path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      ApplyCgroup("/sys/fs/cgroup", path, "memory.max", "memory.current", "inactive_file", &host);
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      ApplyCgroup("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes",
                  "total_inactive_file", &host);
    }
  }
  ApplyAddressSpace(&host);
  return host;
}

int64_t HostMemoryReserve(const HostMemory& host) {
  return std::min<int64_t>(host.total / 20, int64_t{1} << 30);
}

}  // namespace habana
