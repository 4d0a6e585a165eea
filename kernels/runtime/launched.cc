#include "runtime/launched.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "runtime/program.h"

namespace habana {

namespace {

struct Known {
  std::mutex mutex;
  std::unordered_set<const Program*> alive;
  std::map<int64_t, Launched> gone;  // by number: the first ones went first, or nearly so
};

// Never destroyed: programs may outlive everything.
Known& g_known = *new Known;

struct CpuOpTimes {
  std::mutex mutex;
  std::map<std::string, std::pair<int64_t, int64_t>> by_op;
};

CpuOpTimes& g_cpu_ops = *new CpuOpTimes;

// Acquired, so that what a launch found in its program, its name among them, is seen here.
Launched Read(const Program& program) {
  const int64_t launches = program.launches.load(std::memory_order_acquire);
  if (launches == 0) return {program.number, {}, 0, 0, 0};
  return {program.number, program.name, launches, program.nanoseconds.load(std::memory_order_relaxed),
          program.ended.load(std::memory_order_relaxed)};
}

void Merge(Launched* into, const Launched& more) {
  into->launches += more.launches;
  into->nanoseconds += more.nanoseconds;
  into->ended = std::max(into->ended, more.ended);
}

}  // namespace

void Enter(const Program* program) {
  std::lock_guard<std::mutex> lock(g_known.mutex);
  g_known.alive.insert(program);
}

void Leave(const Program* program) {
  std::lock_guard<std::mutex> lock(g_known.mutex);
  g_known.alive.erase(program);
  Launched last = Read(*program);
  if (last.launches == 0) return;
  g_known.gone.emplace(last.number, std::move(last));
  if (g_known.gone.size() <= kMostGone) return;
  const auto first = g_known.gone.upper_bound(0);
  Merge(&g_known.gone.emplace(0, Launched{0, {}, 0, 0, 0}).first->second, first->second);
  g_known.gone.erase(first);
}

std::vector<Launched> ReadLaunched() {
  std::vector<Launched> out;
  std::lock_guard<std::mutex> lock(g_known.mutex);
  for (const auto& [number, launched] : g_known.gone) out.push_back(launched);
  for (const Program* program : g_known.alive) {
    Launched now = Read(*program);
    if (now.launches > 0) out.push_back(std::move(now));
  }
  std::sort(out.begin(), out.end(), [](const Launched& a, const Launched& b) { return a.number < b.number; });
  return out;
}

void CountCpuOp(const std::string& op, int64_t nanoseconds) {
  std::lock_guard<std::mutex> lock(g_cpu_ops.mutex);
  auto& [count, total] = g_cpu_ops.by_op[op];
  ++count;
  total += nanoseconds;
}

std::map<std::string, std::pair<int64_t, int64_t>> ReadCpuOps() {
  std::lock_guard<std::mutex> lock(g_cpu_ops.mutex);
  return g_cpu_ops.by_op;
}

}  // namespace habana
