#include "runtime/exchange.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/sums.h"

namespace habana {
namespace {

constexpr uint64_t kMagic = 0x48505545'58434803;  // with the version of the layout in the last byte
constexpr auto kLookEvery = std::chrono::milliseconds(200);
constexpr int kSpins = 2000;
// Nobody can cut the memory short: a process that reads behind its end would get a bus error.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// What a rank tells the others. On a cache line of its own; counters only grow.
struct alignas(128) Peer {
  std::atomic<int64_t> pid{0};
  std::atomic<uint64_t> started{0};  // clock ticks since boot, so that a pid used again is not mistaken
  std::atomic<uint32_t> copied{0};   // pieces in its slots
  std::atomic<uint32_t> summed{0};   // pieces of which it has summed its share
  uint64_t count = 0;                // of the sum under way, written before `copied` grows
  int element = 0;
  int task = 0;  // with `job` how TensorFlow calls it; written before the group is complete
  char job[32] = "";
};

struct Header {
  std::atomic<uint64_t> magic{0};
  int size = 0;
  std::atomic<uint32_t> turn{0};  // sums begun by rank 0
  uint64_t key = 0;               // of the latest, written before `turn` grows
  std::atomic<int> missed{0};     // 1 + the first rank that another gave up on
  Peer peers[kMostRanks];
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "the header is shared between processes");

size_t SegmentBytes(int size) {
  return ((sizeof(Header) + 4095) & ~size_t{4095}) + static_cast<size_t>(size) * 2 * kPieceBytes;
}

// When a process started (field 22 of its stat), 0 if there is none or it is a zombie.
uint64_t StartOf(int64_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(pid));
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return 0;
  char text[1024];
  const size_t length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[length] = 0;
  const char* at = std::strrchr(text, ')');  // the name before it may hold anything
  if (at == nullptr || at[1] == 0 || at[2] == 'Z' || at[2] == 'X') return 0;
  at += 2;
  for (int field = 3; field < 22 && at != nullptr; ++field) {
    at = std::strchr(at, ' ');
    if (at != nullptr) ++at;
  }
  return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

void Wake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool Reached(uint32_t now, uint32_t wanted) { return static_cast<int32_t>(now - wanted) >= 0; }

class Exchange {
 public:
  Exchange(char* memory, int rank, int size)
      : header_(reinterpret_cast<Header*>(memory)),
        slots_(memory + (SegmentBytes(size) - static_cast<size_t>(size) * 2 * kPieceBytes)),
        rank_(rank),
        size_(size) {
    std::thread([this] { Serve(); }).detach();  // never destroyed: nothing with threads in it is
  }

  void Enqueue(Sum sum) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(std::move(sum));
    }
    changed_.notify_one();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Serve() {
    for (uint32_t turn = 1;; ++turn) {
      Sum sum;
      Status status = Next(turn, &sum);
      if (status.ok()) status = Run(sum);
      if (!status.ok()) failed_ = status;  // the ranks are no longer in step: nothing can follow
      sum.done(status);
    }
  }

  // The sum whose turn it is. Always gives one; with an error, any. Nobody else takes from waiting_.
  Status Next(uint32_t turn, Sum* sum) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    if (rank_ == 0 || !failed_.ok()) {
      *sum = std::move(waiting_.front());
      waiting_.pop_front();
      if (!failed_.ok()) return failed_;
      header_->key = sum->key;
      header_->turn.store(turn, std::memory_order_release);
      Wake(&header_->turn);
      return {};
    }
    const double timeout = waiting_.front().timeout_seconds;
    lock.unlock();
    Status status = Await(&header_->turn, turn, 0, timeout);
    const auto begin = Clock::now();
    lock.lock();
    for (;;) {
      const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Sum& each) {
        return !status.ok() || each.key == header_->key;
      });
      if (found != waiting_.end()) {
        *sum = std::move(*found);
        waiting_.erase(found);
        return status;
      }
      changed_.wait_for(lock, kLookEvery);
      status = Usable(0, Lives(0));
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (status.ok() && timeout > 0 && waited.count() > timeout) status = Missed(rank_, timeout);
    }
  }

  Status Run(const Sum& sum) {
    Peer& me = header_->peers[rank_];
    const size_t bytes = SizeOf(sum.element);
    const size_t piece = kPieceBytes / bytes;
    me.count = sum.count;
    me.element = static_cast<int>(sum.element);
    size_t at = 0;
    do {  // at least one piece, so that the sizes are compared
      const size_t n = std::min(piece, sum.count - at);
      const size_t turn = pieces_ % 2;
      ++pieces_;
      std::memcpy(Slot(rank_, turn), sum.in + at * bytes, n * bytes);
      Post(&me.copied);
      Status status = AwaitAll(&Peer::copied, sum.timeout_seconds);
      if (!status.ok()) return status;
      if (at == 0) status = Compare(sum);
      if (!status.ok()) return status;
      std::vector<char*> slots;
      for (int r = 0; r < size_; ++r) slots.push_back(Slot(r, turn));
      const auto ranks = static_cast<size_t>(size_);
      const size_t begin = n * static_cast<size_t>(rank_) / ranks;
      const size_t end = n * (static_cast<size_t>(rank_) + 1) / ranks;
      SumSlots(sum.element, slots, begin, end);
      Post(&me.summed);
      status = AwaitAll(&Peer::summed, sum.timeout_seconds);
      if (!status.ok()) return status;
      std::memcpy(sum.out + at * bytes, slots[0], n * bytes);
      at += n;
    } while (at < sum.count);
    return {};
  }

  char* Slot(int rank, size_t turn) const {
    return slots_ + (static_cast<size_t>(rank) * 2 + turn) * kPieceBytes;
  }

  void Post(std::atomic<uint32_t>* word) {
    word->store(pieces_, std::memory_order_release);
    Wake(word);
  }

  Status AwaitAll(std::atomic<uint32_t> Peer::* word, double timeout) {
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const Status status = Await(&(header_->peers[r].*word), pieces_, r, timeout);
      if (!status.ok()) return status;
    }
    return {};
  }

  // Waits until another rank has counted so far.
  Status Await(std::atomic<uint32_t>* word, uint32_t wanted, int rank, double timeout) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (Reached(word->load(std::memory_order_acquire), wanted)) return {};
      __builtin_ia32_pause();
    }
    const auto begin = Clock::now();
    for (;;) {
      const uint32_t now = word->load(std::memory_order_acquire);
      if (Reached(now, wanted)) return {};
      const timespec look = {0, std::chrono::nanoseconds(kLookEvery).count()};
      syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, now, &look, nullptr, 0);
      if (Reached(word->load(std::memory_order_acquire), wanted)) return {};
      // Read again after the look at the process: a rank may do its last share and end between the two.
      const bool lives = Lives(rank);
      if (Reached(word->load(std::memory_order_acquire), wanted)) return {};
      const Status usable = Usable(rank, lives);
      if (!usable.ok()) return usable;
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (timeout > 0 && waited.count() > timeout) return Missed(rank, timeout);
    }
  }

  // Whether a rank may still come: it lives, and none of the others has given up.
  Status Usable(int rank, bool lives) {
    if (!lives) GiveUpOn(rank);
    const int missed = header_->missed.load() - 1;
    if (missed < 0) return {};
    const std::string who = "all-reduce: " + Describe(missed);
    // Not UNAVAILABLE: TensorFlow turns that into INTERNAL for all ops but its own.
    if (!Lives(missed)) {
      return Status(Code::kAborted,
                    who + " has ended. Look at its output for the reason, and start the job again");
    }
    return Status(Code::kAborted, who +
                                      " was given up by another worker. Look for the first error in the "
                                      "output of all workers, and start the job again");
  }

  Status Missed(int rank, double timeout) {
    GiveUpOn(rank);
    return Status(Code::kDeadlineExceeded, "all-reduce: " + Describe(rank) + " did not take part within " +
                                               std::to_string(timeout) +
                                               " s. All workers must run the same steps; a longer time is "
                                               "CommunicationOptions(timeout_seconds=...)");
  }

  void GiveUpOn(int rank) {
    int nobody = 0;
    header_->missed.compare_exchange_strong(nobody, rank + 1);
  }

  bool Lives(int rank) const {
    const Peer& peer = header_->peers[rank];
    return StartOf(peer.pid.load()) == peer.started.load();
  }

  std::string Name(int rank) const {
    return header_->peers[rank].job + (" " + std::to_string(header_->peers[rank].task));
  }

  std::string Describe(int rank) const {
    const Peer& peer = header_->peers[rank];
    return Name(rank) + " (/job:" + peer.job + "/task:" + std::to_string(peer.task) + ", process " +
           std::to_string(peer.pid.load()) + ")";
  }

  Status Compare(const Sum& sum) const {
    for (int r = 0; r < size_; ++r) {
      const Peer& peer = header_->peers[r];
      if (peer.count == sum.count && peer.element == static_cast<int>(sum.element)) continue;
      return Status(Code::kInvalidArgument, "all-reduce: " + Name(r) + " has " + std::to_string(peer.count) +
                                                " elements of type " + std::to_string(peer.element) + ", " +
                                                Name(rank_) + " has " + std::to_string(sum.count) +
                                                " of type " + std::to_string(static_cast<int>(sum.element)) +
                                                ": all must train the same model");
    }
    return {};
  }

  Header* header_;
  char* slots_;
  int rank_;
  int size_;
  uint32_t pieces_ = 0;
  Status failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Sum> waiting_;
};

std::mutex exchanges_mutex;
std::vector<Exchange*>& Exchanges() {
  static auto* exchanges = new std::vector<Exchange*>;
  return *exchanges;
}

Status SystemError(const std::string& what) {
  return Status(Code::kFailedPrecondition, "cannot " + what + ": " + std::strerror(errno));
}

// Maps the group's memory and enters it as `rank`, which is the first to do so when it is 0.
Status Enter(int descriptor, int rank, int size, const Task& task, int* exchange) {
  const size_t bytes = SegmentBytes(size);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return SystemError("map the workers' shared memory");
  auto* header = static_cast<Header*>(memory);
  if (rank == 0) {
    header = new (memory) Header;
    header->size = size;
    header->magic.store(kMagic, std::memory_order_release);
  }
  if (header->magic.load(std::memory_order_acquire) != kMagic || header->size != size) {
    munmap(memory, bytes);
    return Status(Code::kFailedPrecondition,
                  "the first worker runs another version of habana_tf: use the same one");
  }
  Peer& me = header->peers[rank];
  me.task = task.index;
  std::snprintf(me.job, sizeof me.job, "%s", task.job.c_str());
  me.started.store(StartOf(getpid()));
  me.pid.store(getpid());
  std::lock_guard<std::mutex> lock(exchanges_mutex);
  Exchanges().push_back(new Exchange(static_cast<char*>(memory), rank, size));
  *exchange = static_cast<int>(Exchanges().size()) - 1;
  return {};
}

Status CheckSize(int rank, int size) {
  if (size >= 2 && size <= kMostRanks && rank >= 0 && rank < size) return {};
  return Status(Code::kInvalidArgument, "an exchange has 2 to " + std::to_string(kMostRanks) + " ranks");
}

}  // namespace

Status MakeExchange(int size, const Task& task, int* exchange, int* descriptor) {
  Status status = CheckSize(0, size);
  if (!status.ok()) return status;
  const int made = memfd_create("habana_tf-exchange", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0) return SystemError("make shared memory for the workers");
  // Taken now: later, missing memory would be a bus error.
  errno = posix_fallocate(made, 0, static_cast<off_t>(SegmentBytes(size)));
  if (errno == 0 && fcntl(made, F_ADD_SEALS, kSeals) == 0) {
    status = Enter(made, 0, size, task, exchange);
  } else {
    status = SystemError("take shared memory for the workers");
  }
  if (status.ok()) {
    *descriptor = made;
  } else {
    close(made);
  }
  return status;
}

Status JoinExchange(const std::string& path, int rank, int size, const Task& task, int* exchange) {
  Status status = CheckSize(rank, size);
  if (!status.ok()) return status;
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open the shared memory " + path + " of the first worker");
  struct stat known;
  if (fstat(descriptor, &known) != 0 || known.st_uid != geteuid() ||
      static_cast<size_t>(known.st_size) != SegmentBytes(size) || fcntl(descriptor, F_GET_SEALS) != kSeals) {
    status = Status(Code::kFailedPrecondition, path + " is not the shared memory of this job's first worker");
  } else {
    status = Enter(descriptor, rank, size, task, exchange);
  }
  close(descriptor);
  return status;
}

void EnqueueSum(int exchange, Sum sum) {
  Exchange* found = nullptr;
  {
    std::lock_guard<std::mutex> lock(exchanges_mutex);
    if (exchange >= 0 && static_cast<size_t>(exchange) < Exchanges().size()) {
      found = Exchanges()[static_cast<size_t>(exchange)];
    }
  }
  if (found == nullptr) {
    sum.done(Status(Code::kFailedPrecondition, "this process has no exchange " + std::to_string(exchange) +
                                                   ": make the HPUStrategy before its steps run"));
    return;
  }
  found->Enqueue(std::move(sum));
}

}  // namespace habana
