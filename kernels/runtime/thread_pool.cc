#include "runtime/thread_pool.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/callbacks.h"
#include "runtime/processor.h"

namespace habana {

namespace {

// Parts of a grid, per thread, that are not divided further: at the end of a call threads wait for each other
// as long as one of them takes at most.
constexpr int kPartsPerThread = 64;
// Threads that have parts of their own; more than these take some of theirs.
constexpr int kMostShares = 256;
// How long an idle worker looks for work before it sleeps: while a launch holds the pool its next call is
// near, and waking a thread costs more than most calls take. It does not yield meanwhile: Linux then gives
// the processor to any waiting thread, however low its priority, for a whole slice of milliseconds.
// Beside two processes of the lowest priority a launch of 380 ms in 315 calls took 1,400.
constexpr auto kSpinInLaunch = std::chrono::microseconds(200);
constexpr auto kSpinAfterLaunch = std::chrono::microseconds(50);
// How long a caller looks whether the others are done before it sleeps.
constexpr auto kSpinForOthers = std::chrono::microseconds(500);

// Processors that the container's quota pays for (cgroup version 2, then 1); 0 without a quota.
int ProcessorsOfQuota() {
  double quota = 0;
  double period = 0;
  std::ifstream two("/sys/fs/cgroup/cpu.max");  // "max 100000" or "200000 100000"
  if (!(two >> quota >> period)) {
    std::ifstream limit("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    std::ifstream window("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    if (!(limit >> quota) || !(window >> period)) return 0;
  }
  return quota > 0 && period > 0 ? std::max(1, static_cast<int>(std::ceil(quota / period))) : 0;
}

int ProcessorsOfThisProcess() {
  cpu_set_t set;
  int n = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof(set), &set) == 0) n = CPU_COUNT(&set);
  const int quota = ProcessorsOfQuota();
  return std::max(1, quota > 0 ? std::min(n, quota) : n);
}

// The process's pool. It is never destroyed: at exit its threads may still be asleep in it.
class Pool {
 public:
  static Pool& Get() {
    static Pool* pool = new Pool;
    return *pool;
  }

  int threads() {
    int n = threads_.load(std::memory_order_relaxed);
    if (n == 0) {
      n = ProcessorsOfThisProcess();
      threads_.store(n, std::memory_order_relaxed);
    }
    return n;
  }

  void set_threads(int n) { threads_.store(n < 1 ? ProcessorsOfThisProcess() : n); }

  bool TryLease() { return !leased_.exchange(true, std::memory_order_acquire); }
  void EndLease() { leased_.store(false, std::memory_order_release); }

  // Only the holder of the lease calls this.
  void Run(KernelFn fn, char** buffers, const int64_t* dims, int64_t grid, int64_t part, int64_t parts) {
    StartWorkers();
    fn_ = fn;
    buffers_ = buffers;
    dims_ = dims;
    grid_ = grid;
    part_ = part;
    parts_ = parts;
    const int64_t shares = std::min<int64_t>({parts, threads(), kMostShares});
    num_shares_.store(static_cast<int>(shares), std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    const uint64_t job = job_.load(std::memory_order_relaxed) + 1;
    for (int64_t i = 0; i < shares; ++i) {
      const Range whole{parts * i / shares, parts * (i + 1) / shares};
      shares_[i].word.store(Packed(job, whole), std::memory_order_release);
    }
    job_.store(job, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) Wake(parts - 1);
    while (TakeParts(0)) {
    }
    AwaitOthers(parts);
  }

 private:
  struct Worker {
    pid_t id;
    cpu_set_t home;   // processors that it may run on
    int avoids = -1;  // the one of these that it was last kept off
  };

  // The parts that a thread has still to begin, and the job they are of. A worker that comes late either
  // takes parts of the newest job or nothing: the word of a job that is over never comes back.
  struct alignas(64) Share {
    std::atomic<uint64_t> word{0};
  };
  struct Range {
    int64_t begin;
    int64_t end;
  };

  static uint64_t Packed(uint64_t job, Range parts) {
    return job << 32 | static_cast<uint64_t>(parts.begin) << 16 | static_cast<uint64_t>(parts.end);
  }

  // Takes and does parts of the job at hand. Each thread has a share of its own, the same stretch of every
  // grid, so that it finds in its caches what it wrote a call before; of that it takes half of what is left
  // from the front, and then from others half of what they have left from the end.
  bool TakeParts(int thread) {
    const int count = num_shares_.load(std::memory_order_relaxed);
    for (int i = 0; i < count; ++i) {
      std::atomic<uint64_t>& share = shares_[(thread + i) % count].word;
      uint64_t word = share.load(std::memory_order_acquire);
      for (;;) {
        const Range all{static_cast<int64_t>(word >> 16 & 0xffff), static_cast<int64_t>(word & 0xffff)};
        const int64_t some = (all.end - all.begin + 1) / 2;
        if (some == 0) break;
        const bool own = i == 0 && thread < count;
        const Range taken = own ? Range{all.begin, all.begin + some} : Range{all.end - some, all.end};
        const Range left = own ? Range{taken.end, all.end} : Range{all.begin, taken.begin};
        if (!share.compare_exchange_weak(word, Packed(word >> 32, left), std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
          continue;
        }
        Do(taken);
        return true;
      }
    }
    return false;
  }

  void Do(Range parts) {
    const int64_t count = parts.end - parts.begin, all = parts_;
    fn_(buffers_, dims_, parts.begin * part_, std::min(grid_, parts.end * part_));
    if (done_.fetch_add(count, std::memory_order_seq_cst) + count == all &&
        asleep_.load(std::memory_order_seq_cst)) {
      std::lock_guard<std::mutex> lock(mutex_);
      finished_.notify_one();
    }
  }

  void AwaitOthers(int64_t parts) {
    const auto done = [this, parts] { return done_.load(std::memory_order_seq_cst) == parts; };
    if (SpinUntil(done, kSpinForOthers)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    asleep_.store(true, std::memory_order_seq_cst);
    finished_.wait(lock, done);
    asleep_.store(false, std::memory_order_relaxed);
  }

  // Looks again and again, for so long at most; whether it came true.
  template <class Condition>
  static bool SpinUntil(Condition condition, std::chrono::nanoseconds most) {
    const auto start = std::chrono::steady_clock::now();
    do {
      for (int i = 0; i < 16; ++i) {
        if (condition()) return true;
        Pause();
      }
    } while (std::chrono::steady_clock::now() - start < most);
    return false;
  }

  void StartWorkers() {
    const int wanted = threads() - 1;
    while (started_ < wanted) {
      const int index = started_++;
      std::thread([this, index] { Work(index); }).detach();
    }
  }

  void Wake(int64_t wanted) {
    std::lock_guard<std::mutex> lock(mutex_);
    KeepOffThisProcessor();
    // Of a pool that was made smaller, one that is woken may be one too many.
    if (wanted >= sleepers_.load(std::memory_order_relaxed) || started_ >= threads()) {
      wake_.notify_all();
    } else {
      for (int64_t i = 0; i < wanted; ++i) wake_.notify_one();
    }
  }

  // Has the workers wake on other processors than the caller's, where they would wait for it to finish: Linux
  // may put a thread back where it ran last although another processor is idle, and leaves it there for
  // milliseconds. On two processors a launch of 4 ms ran without its worker one time in four.
  void KeepOffThisProcessor() {
    const int here = sched_getcpu();
    if (here < 0) return;
    for (Worker& worker : workers_) {
      if (worker.avoids == here || CPU_COUNT(&worker.home) < 2) continue;
      cpu_set_t others = worker.home;
      CPU_CLR(here, &others);
      sched_setaffinity(worker.id, sizeof(others), &others);  // where that is forbidden: as before
      worker.avoids = here;
    }
  }

  bool LookForWork(uint64_t seen) const {
    const auto work = [this, seen] { return HasWork(seen); };
    return SpinUntil(work, kSpinAfterLaunch) ||
           (leased_.load(std::memory_order_relaxed) && SpinUntil(work, kSpinInLaunch));
  }

  // Whether there is a job behind the last one of which a worker has seen the end.
  bool HasWork(uint64_t seen) const { return job_.load(std::memory_order_seq_cst) != seen; }

  void Work(int index) {
    FloatMode mode;
    Worker self;
    self.id = static_cast<pid_t>(syscall(SYS_gettid));
    CPU_ZERO(&self.home);
    sched_getaffinity(0, sizeof(self.home), &self.home);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      workers_.push_back(self);
    }
    for (uint64_t seen = 0;;) {
      // A worker beyond a pool that was made smaller sleeps.
      const bool wanted = index < threads() - 1;
      if (wanted) {
        const uint64_t job = job_.load(std::memory_order_seq_cst);
        while (TakeParts(index + 1)) {
        }
        seen = job;
        if (LookForWork(seen)) continue;
      }
      std::unique_lock<std::mutex> lock(mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      if (!wanted || !HasWork(seen)) wake_.wait(lock);
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  std::atomic<int> threads_{0};
  std::atomic<bool> leased_{false};
  int started_ = 0;
  KernelFn fn_ = nullptr;
  char** buffers_ = nullptr;
  const int64_t* dims_ = nullptr;
  int64_t grid_ = 0;
  int64_t part_ = 0;
  int64_t parts_ = 0;
  std::atomic<int> num_shares_{0};
  Share shares_[kMostShares];
  alignas(64) std::atomic<uint64_t> job_{0};
  alignas(64) std::atomic<int64_t> done_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> asleep_{false};  // the caller
  std::condition_variable finished_;
  std::vector<Worker> workers_;  // under the mutex
};

}  // namespace

void SetThreads(int n) { Pool::Get().set_threads(n); }
int GetThreads() { return Pool::Get().threads(); }

PoolLease::~PoolLease() {
  if (owned_) Pool::Get().EndLease();
}

int PoolLease::Run(KernelFn fn, char** buffers, const int64_t* dims, int64_t grid, int64_t grain) {
  if (grid <= 0) return 1;
  grain = std::max<int64_t>(1, grain);
  Pool& pool = Pool::Get();
  const int64_t threads = pool.threads();
  if (grid > grain && threads > 1 && !tried_) {
    tried_ = true;
    owned_ = !InForkedChild() && pool.TryLease();
  }
  if (grid <= grain || threads <= 1 || !owned_) {
    fn(buffers, dims, 0, grid);
    return 1;
  }
  const int64_t most = std::min<int64_t>(threads, kMostShares) * kPartsPerThread;
  const int64_t part = std::max(grain, (grid + most - 1) / most);
  const int64_t parts = (grid + part - 1) / part;
  pool.Run(fn, buffers, dims, grid, part, parts);
  return static_cast<int>(std::min(threads, parts));
}

FloatMode::FloatMode() : saved_(FloatControl()) { SetFloatControl(WithoutDenormals(saved_)); }
FloatMode::~FloatMode() { SetFloatControl(saved_); }

}  // namespace habana
