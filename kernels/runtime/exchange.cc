#include "runtime/exchange.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/counters.h"
#include "runtime/exchange_segment.h"
#include "runtime/processor.h"
#include "runtime/program.h"
#include "runtime/sums.h"
#include "runtime/timeline.h"

namespace habana {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(200);
constexpr int kSpins = 2000;

void Wake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool Reached(uint32_t now, uint32_t wanted) { return static_cast<int32_t>(now - wanted) >= 0; }

class Exchange {
 public:
  Exchange(char* memory, int rank, int size, std::string longer)
      : header_(reinterpret_cast<Header*>(memory)),
        slots_(memory + (SegmentBytes(size) - static_cast<size_t>(size) * 2 * kPieceBytes)),
        rank_(rank),
        size_(size),
        longer_(std::move(longer)) {
    std::thread([this] {  // which takes it away when it is left
      Serve();
      delete this;
    })
        .detach();
  }

  std::future<Status> Enqueue(const Sum& sum) {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back({sum, {}});
    changed_.notify_one();
    return waiting_.back().ended.get_future();
  }

  void Leave() {
    std::lock_guard<std::mutex> lock(mutex_);
    left_ = true;
    changed_.notify_one();  // under the lock: once it is free there may be nothing to notify
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting : Sum {
    std::promise<Status> ended;
  };

  ~Exchange() { UnmapSegment(reinterpret_cast<char*>(header_), size_); }

  void Serve() {
    for (uint32_t turn = 1;; ++turn) {
      Waiting sum;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return left_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
      }
      Status status = Next(turn, &sum);
      if (status.ok()) status = Run(sum);
      if (!status.ok()) failed_ = status;  // the ranks are no longer in step: nothing can follow
      sum.ended.set_value(status);
    }
  }

  // The sum whose turn it is. Always gives one; with an error, any. Only this thread takes from waiting_.
  Status Next(uint32_t turn, Waiting* sum) {
    std::unique_lock<std::mutex> lock(mutex_);
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
    const size_t bytes = DataTypeSize(static_cast<int>(sum.element));
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
      HABANA_RETURN_IF_ERROR(AwaitAll(&Peer::copied, sum.timeout_seconds));
      if (at == 0) HABANA_RETURN_IF_ERROR(Compare(sum));
      std::vector<char*> slots;
      for (int r = 0; r < size_; ++r) slots.push_back(Slot(r, turn));
      const auto ranks = static_cast<size_t>(size_);
      const size_t begin = n * static_cast<size_t>(rank_) / ranks;
      const size_t end = n * (static_cast<size_t>(rank_) + 1) / ranks;
      SumSlots(sum.element, slots, begin, end);
      Post(&me.summed);
      HABANA_RETURN_IF_ERROR(AwaitAll(&Peer::summed, sum.timeout_seconds));
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
      HABANA_RETURN_IF_ERROR(Await(&(header_->peers[r].*word), pieces_, r, timeout));
    }
    return {};
  }

  // Waits until another rank has counted so far.
  Status Await(std::atomic<uint32_t>* word, uint32_t wanted, int rank, double timeout) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (Reached(word->load(std::memory_order_acquire), wanted)) return {};
      Pause();
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
      HABANA_RETURN_IF_ERROR(Usable(rank, lives));
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (timeout > 0 && waited.count() > timeout) return Missed(rank, timeout);
    }
  }

  // Whether a rank may still come: it lives, and none of the others has given up.
  Status Usable(int rank, bool lives) {
    if (!lives) GiveUpOn(rank);
    const int missed = header_->missed.load() - 1;
    if (missed < 0) return {};
    const std::string rank_missed = "all-reduce: " + Describe(missed);
    // Not UNAVAILABLE: TensorFlow turns that into INTERNAL for all ops but its own.
    if (!Lives(missed)) {
      return Status(Code::kAborted,
                    rank_missed + " has ended. Look at its output for the reason, and start the job again");
    }
    return Status(Code::kAborted, rank_missed +
                                      " was given up by another worker. Look for the first error in the "
                                      "output of all workers, and start the job again");
  }

  Status Missed(int rank, double timeout) {
    GiveUpOn(rank);
    return Status(Code::kDeadlineExceeded,
                  "all-reduce: " + Describe(rank) + " did not take part within " + std::to_string(timeout) +
                      " s. All workers must run the same steps; a longer time is " + longer_);
  }

  void GiveUpOn(int rank) {
    int none = 0;
    header_->missed.compare_exchange_strong(none, rank + 1);
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
    const std::string process = "process " + std::to_string(peer.pid.load()) + ")";
    if (std::strcmp(peer.job, "rank") == 0) return Name(rank) + " (" + process;
    return Name(rank) + " (/job:" + peer.job + "/task:" + std::to_string(peer.task) + ", " + process;
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
  const std::string longer_;
  bool left_ = false;
  uint32_t pieces_ = 0;
  Status failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
};

std::mutex exchanges_mutex;
std::vector<Exchange*>& g_exchanges = *new std::vector<Exchange*>;

// Takes part in a group as `rank`, which is the first to do so when it is 0.
Status Enter(int descriptor, int rank, int size, const Task& task, int* exchange) {
  char* memory = nullptr;
  HABANA_RETURN_IF_ERROR(MapSegment(descriptor, rank, size, task, &memory));
  std::lock_guard<std::mutex> lock(exchanges_mutex);
  g_exchanges.push_back(new Exchange(memory, rank, size, task.longer));
  *exchange = static_cast<int>(g_exchanges.size()) - 1;
  return {};
}

Status CheckSize(int rank, int size) {
  if (size >= 2 && size <= kMostRanks && rank >= 0 && rank < size) return {};
  return Status(Code::kInvalidArgument, "an exchange has 2 to " + std::to_string(kMostRanks) + " ranks");
}

}  // namespace

Status MakeExchange(int size, const Task& task, int* exchange, int* descriptor) {
  HABANA_RETURN_IF_ERROR(CheckSize(0, size));
  HABANA_RETURN_IF_ERROR(MakeSegment(size, descriptor));
  const Status status = Enter(*descriptor, 0, size, task, exchange);
  if (!status.ok()) close(*descriptor);
  return status;
}

Status JoinExchange(const std::string& path, int rank, int size, const Task& task, int* exchange) {
  int descriptor = -1;
  HABANA_RETURN_IF_ERROR(CheckSize(rank, size));
  HABANA_RETURN_IF_ERROR(OpenSegment(path, size, &descriptor));
  const Status status = Enter(descriptor, rank, size, task, exchange);
  close(descriptor);
  return status;
}

Status RunSum(int exchange, const Sum& sum) {
  const auto bytes = static_cast<int64_t>(sum.count * DataTypeSize(static_cast<int>(sum.element)));
  Counters& counters = GetCounters();
  counters.sums.fetch_add(1, std::memory_order_relaxed);
  counters.sum_bytes.fetch_add(bytes, std::memory_order_relaxed);
  RecordedScope recorded(EventKind::kSum, bytes, &counters.sum_nanoseconds);
  Exchange* found = nullptr;
  {
    std::lock_guard<std::mutex> lock(exchanges_mutex);
    if (exchange >= 0 && static_cast<size_t>(exchange) < g_exchanges.size()) {
      found = g_exchanges[static_cast<size_t>(exchange)];
    }
  }
  if (found != nullptr) return found->Enqueue(sum).get();
  return Status(Code::kFailedPrecondition, "this process has no exchange " + std::to_string(exchange) +
                                               ": make the HPUStrategy before its steps run");
}

void LeaveExchange(int exchange) {
  std::lock_guard<std::mutex> lock(exchanges_mutex);
  if (exchange < 0 || static_cast<size_t>(exchange) >= g_exchanges.size()) return;
  Exchange*& left = g_exchanges[static_cast<size_t>(exchange)];
  if (left != nullptr) left->Leave();
  left = nullptr;
}

}  // namespace habana
