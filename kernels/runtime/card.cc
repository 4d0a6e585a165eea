#include "runtime/card.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "runtime/counters.h"

namespace habana {

namespace {

enum State { kNotNeeded, kHeld, kNeeded, kDamaged };  // the first two are fine

std::atomic<int> g_state{kNotNeeded};
std::atomic<int> g_held{-1};
std::atomic<bool> g_gave_up{false};
CardRecord g_own;
std::atomic<CardRecord*> g_published{&g_own};

std::mutex& g_claim_mutex = *new std::mutex;

CardPlan& g_plan = *new CardPlan;

bool Lock(int descriptor, int module) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = module;
  lock.l_len = 1;
  return fcntl(descriptor, F_SETLK, &lock) == 0;
}

// The file of the simulated machine as it is mapped, up to the card's page; null before.
std::atomic<char*> g_file{nullptr};
std::atomic<size_t> g_file_bytes{0};
struct sigaction g_before;

// A file that is cut short takes its pages with it, and the next access to one is a SIGBUS. Empty memory
// takes their place, so that the launch goes on, and the next one is an error. Async-signal-safe.
void OnBusError(int signal, siginfo_t* info, void* /*context*/) {
  char* file = g_file.load();
  const size_t bytes = g_file_bytes.load();
  const char* at = static_cast<char*>(info->si_addr);
  const bool ours = info->si_code > 0 && file != nullptr && at >= file && at < file + bytes;
  if (ours &&
      mmap(file, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == file) {
    g_state.store(kDamaged);
    return;
  }
  sigaction(signal, &g_before, nullptr);  // the instruction runs again, as if this were not here
  if (info->si_code <= 0) raise(signal);
}

void WatchBusErrors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &g_before);
  });
}

// The card's page, empty; null when the file system has no room for it. Its blocks are taken before it is
// mapped: writing to a mapped hole of a full file system would kill the process. Never unmapped.
CardRecord* MapRecord(int descriptor, int module) {
  const off_t offset = kRecordBytes * (1 + module);
  if (posix_fallocate(descriptor, offset, kRecordBytes) != 0) return nullptr;
  const size_t length = static_cast<size_t>(offset + kRecordBytes);
  void* file = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (file == MAP_FAILED) return nullptr;
  g_file_bytes.store(length);
  g_file.store(static_cast<char*>(file));
  WatchBusErrors();
  return new (static_cast<char*>(file) + offset) CardRecord;
}

void Copy(const std::string& text, char* to, size_t size) {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

void Publish(const CardPlan& plan, CardRecord* record) {
  record->pid = getpid();
  record->claimed_at = std::chrono::duration_cast<std::chrono::nanoseconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  record->hbm_bytes = plan.hbm_bytes;
  Copy(plan.chip, record->chip, sizeof(record->chip));
  Copy(plan.command, record->command, sizeof(record->command));
  record->memory.store(GetCounters().device_bytes.load());
  record->memory_peak.store(g_own.memory_peak.load());
  record->launches.store(g_own.launches.load());
  record->steps.store(g_own.steps.load());
  record->recipes.store(g_own.recipes.load());
  record->recompiled.store(g_own.recompiled.load());
  record->hits.store(g_own.hits.load());
  record->version.store(kRecordVersion, std::memory_order_release);
  g_published.store(record, std::memory_order_release);
}

// A forked child has no card, and must not write into its parent's page.
void InChild() {
  g_published.store(&g_own);
  g_held.store(-1);
  if (const int state = g_state.load(); state == kHeld || state == kDamaged) g_state.store(kNeeded);
}

void AddToWindow(CardRecord& record, int64_t number, int64_t nanoseconds) {
  std::atomic<uint64_t>& window = record.windows[number % kWindows];
  const uint64_t tag = static_cast<uint64_t>(number) << 32;
  uint64_t seen = window.load(std::memory_order_relaxed);
  uint64_t wanted = 0;
  do {
    const uint64_t before = (seen ^ tag) >> 32 == 0 ? seen & 0xffffffffu : 0;
    wanted = tag | (before + static_cast<uint64_t>(nanoseconds));
  } while (!window.compare_exchange_weak(seen, wanted, std::memory_order_relaxed));
}

}  // namespace

void ArmCard(CardPlan plan) {
  std::lock_guard<std::mutex> lock(g_claim_mutex);
  if (const int state = g_state.load(); state == kHeld || state == kDamaged) return;
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, InChild); });
  g_plan = std::move(plan);
  g_gave_up.store(false);
  g_state.store(kNeeded, std::memory_order_release);
}

bool CardReady() { return g_state.load(std::memory_order_acquire) <= kHeld; }

bool ClaimCard() {
  std::lock_guard<std::mutex> lock(g_claim_mutex);
  if (g_state.load() != kNeeded) return CardReady();
  const CardPlan& plan = g_plan;
  for (int module : plan.modules) {
    if (!Lock(plan.descriptor, module)) continue;
    if (CardRecord* record = MapRecord(plan.descriptor, module)) Publish(plan, record);
    g_held.store(module);
    g_state.store(kHeld, std::memory_order_release);
    return true;
  }
  return false;
}

void ClaimCardQuietly() {
  if (g_gave_up.load(std::memory_order_relaxed)) return;
  if (!ClaimCard()) g_gave_up.store(true);
}

std::string DamagedFile() {
  if (g_state.load() != kDamaged) return "";
  char name[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(g_plan.descriptor);
  const ssize_t length = readlink(link.c_str(), name, sizeof(name));
  return length > 0 ? std::string(name, static_cast<size_t>(length)) : link;
}

int HeldCard() { return g_held.load(); }

CardRecord& Published() { return *g_published.load(std::memory_order_acquire); }

void PublishMemory(int64_t bytes) {
  CardRecord& record = Published();
  record.memory.store(bytes, std::memory_order_relaxed);
  if (bytes > record.memory_peak.load(std::memory_order_relaxed)) {
    record.memory_peak.store(bytes, std::memory_order_relaxed);
  }
}

void PublishStart(CardRecord& record, int64_t now) {
  if (record.active.fetch_add(1, std::memory_order_acq_rel) == 0) {
    record.busy_since.store(now, std::memory_order_release);
  }
}

// The start is read before this launch leaves: until then no other can begin a new busy time.
void PublishEnd(CardRecord& record, int64_t now) {
  record.launches.fetch_add(1, std::memory_order_relaxed);
  const int64_t since = record.busy_since.load(std::memory_order_acquire);
  if (record.active.fetch_sub(1, std::memory_order_acq_rel) != 1 || now <= since) return;
  record.busy.fetch_add(now - since, std::memory_order_relaxed);
  // Only windows that a reader can still ask for are written.
  int64_t at = std::max(since, now - (kWindows - 1) * kWindowNanoseconds);
  while (at < now) {
    const int64_t number = at / kWindowNanoseconds;
    const int64_t end = std::min(now, (number + 1) * kWindowNanoseconds);
    AddToWindow(record, number, end - at);
    at = end;
  }
}

// Under a mutex: launches of one card only, a few in a step.
void CountUpdate(uint64_t by) {
  static std::mutex& mutex = *new std::mutex;
  static uint64_t counted = 0;
  static std::vector<uint64_t>& others = *new std::vector<uint64_t>;  // came since the last time of that
  constexpr size_t kMostOthers = 64;
  std::lock_guard<std::mutex> lock(mutex);
  if (counted != 0 && by != counted && std::find(others.begin(), others.end(), by) == others.end()) {
    if (others.size() == kMostOthers) others.erase(others.begin());
    others.push_back(by);
    return;
  }
  counted = by;
  others.clear();
  Published().steps.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace habana
