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
Known& TheKnown() {
  static auto* known = new Known;
  return *known;
}

struct CpuOpTimes {
  std::mutex mutex;
  std::map<std::string, std::pair<int64_t, int64_t>> by_op;
};

CpuOpTimes& TheCpuOps() {
  static auto* times = new CpuOpTimes;
  return *times;
}

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
  Known& known = TheKnown();
  std::lock_guard<std::mutex> lock(known.mutex);
  known.alive.insert(program);
}

void Leave(const Program* program) {
  Known& known = TheKnown();
  std::lock_guard<std::mutex> lock(known.mutex);
  known.alive.erase(program);
  Launched last = Read(*program);
  if (last.launches == 0) return;
  known.gone.emplace(last.number, std::move(last));
  if (known.gone.size() <= kMostGone) return;
  const auto first = known.gone.upper_bound(0);
  Merge(&known.gone.emplace(0, Launched{0, {}, 0, 0, 0}).first->second, first->second);
  known.gone.erase(first);
}

std::vector<Launched> ReadLaunched() {
  Known& known = TheKnown();
  std::vector<Launched> out;
  std::lock_guard<std::mutex> lock(known.mutex);
  for (const auto& [number, launched] : known.gone) out.push_back(launched);
  for (const Program* program : known.alive) {
    Launched now = Read(*program);
    if (now.launches > 0) out.push_back(std::move(now));
  }
  std::sort(out.begin(), out.end(), [](const Launched& a, const Launched& b) { return a.number < b.number; });
  return out;
}

void CountCpuOp(const std::string& op, int64_t nanoseconds) {
  CpuOpTimes& times = TheCpuOps();
  std::lock_guard<std::mutex> lock(times.mutex);
  auto& [count, total] = times.by_op[op];
  ++count;
  total += nanoseconds;
}

std::map<std::string, std::pair<int64_t, int64_t>> ReadCpuOps() {
  CpuOpTimes& times = TheCpuOps();
  std::lock_guard<std::mutex> lock(times.mutex);
  return times.by_op;
}

}  // namespace habana
