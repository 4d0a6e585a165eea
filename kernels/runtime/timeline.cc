#include "runtime/timeline.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace habana {

std::atomic<bool> g_recording{false};

namespace {

// A thread writes its last chunk only; a reader owns those before it.
struct Chunk {
  Event events[kChunkEvents];
  std::atomic<int> count{0};
  std::atomic<Chunk*> next{nullptr};
};

struct Log {
  int64_t id = 0;
  int64_t hash = 0;
  std::string name;
  Chunk* tail = nullptr;               // the writer's
  Chunk* head = nullptr;               // the readers', as is `skip`
  int skip = 0;                        // events of `head` that were thrown away
  std::atomic<bool> abandoned{false};  // its thread has ended
};

struct TheRecord {
  std::mutex mutex;  // taken by readers, by a thread's first event, and by a program's first launch
  std::vector<std::unique_ptr<Log>> logs;
  std::map<int64_t, std::string> programs;
  std::map<int64_t, std::string> ops;
  std::map<std::string, int64_t> op_numbers;
  int readers = 0;
  std::atomic<uint64_t> generation{1};  // of the names above
  std::atomic<int64_t> chunks{0};
  std::atomic<int64_t> dropped{0};
};

// Never destroyed: threads may end after the process has begun to.
TheRecord& Get() {
  static auto* record = new TheRecord;
  return *record;
}

struct ThreadLog {
  Log* log = nullptr;
  ~ThreadLog() {
    if (log != nullptr) log->abandoned.store(true, std::memory_order_release);
  }
};

Log* NewLog() {
  auto log = std::make_unique<Log>();
  log->id = static_cast<int64_t>(syscall(SYS_gettid));
  log->hash = static_cast<int64_t>(std::hash<std::thread::id>()(std::this_thread::get_id()));
  char name[16] = {};
  if (pthread_getname_np(pthread_self(), name, sizeof(name)) == 0) log->name = name;
  log->head = log->tail = new Chunk;
  TheRecord& record = Get();
  record.chunks.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard<std::mutex> lock(record.mutex);
  record.logs.push_back(std::move(log));
  return record.logs.back().get();
}

// Frees what precedes the chunk that the thread writes, and skips what that has. With the lock held.
void Empty(Log* log) {
  TheRecord& record = Get();
  while (Chunk* next = log->head->next.load(std::memory_order_acquire)) {
    delete log->head;
    record.chunks.fetch_sub(1, std::memory_order_relaxed);
    log->head = next;
  }
  log->skip = log->head->count.load(std::memory_order_acquire);
}

}  // namespace

int64_t MonotonicNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Record(const Event& event) {
  thread_local ThreadLog mine;
  if (mine.log == nullptr) mine.log = NewLog();
  Chunk* chunk = mine.log->tail;
  int at = chunk->count.load(std::memory_order_relaxed);
  if (at == kChunkEvents) {
    TheRecord& record = Get();
    if (record.chunks.load(std::memory_order_relaxed) >= kMostChunks) {
      record.dropped.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    record.chunks.fetch_add(1, std::memory_order_relaxed);
    auto* more = new Chunk;
    mine.log->tail = more;
    chunk->next.store(more, std::memory_order_release);
    chunk = more;
    at = 0;
  }
  chunk->events[at] = event;
  chunk->count.store(at + 1, std::memory_order_release);
}

void NoteProgram(int64_t number, const std::string& name, std::atomic<uint64_t>* noted) {
  TheRecord& record = Get();
  const uint64_t now = record.generation.load(std::memory_order_relaxed);
  if (noted->load(std::memory_order_relaxed) == now) return;
  std::lock_guard<std::mutex> lock(record.mutex);
  record.programs.emplace(number, name);
  noted->store(record.generation.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

int64_t OpNumber(const std::string& name) {
  TheRecord& record = Get();
  std::lock_guard<std::mutex> lock(record.mutex);
  const auto [at, added] = record.op_numbers.emplace(name, static_cast<int64_t>(record.op_numbers.size()));
  if (added) record.ops.emplace(at->second, name);
  return at->second;
}

int64_t StartRecording() {
  TheRecord& record = Get();
  std::lock_guard<std::mutex> lock(record.mutex);
  if (record.readers++ == 0) g_recording.store(true, std::memory_order_relaxed);
  return MonotonicNow();
}

void StopRecording() {
  TheRecord& record = Get();
  std::lock_guard<std::mutex> lock(record.mutex);
  if (record.readers == 0 || --record.readers > 0) return;
  g_recording.store(false, std::memory_order_relaxed);
  for (const auto& log : record.logs) Empty(log.get());
  const auto ended = [&record](const std::unique_ptr<Log>& log) {
    if (!log->abandoned.load(std::memory_order_acquire)) return false;
    Empty(log.get());
    delete log->head;
    record.chunks.fetch_sub(1, std::memory_order_relaxed);
    return true;
  };
  record.logs.erase(std::remove_if(record.logs.begin(), record.logs.end(), ended), record.logs.end());
  record.programs.clear();
  record.generation.fetch_add(1, std::memory_order_relaxed);
  record.dropped.store(0, std::memory_order_relaxed);
}

Recorded ReadRecord(int64_t since) {
  TheRecord& record = Get();
  std::lock_guard<std::mutex> lock(record.mutex);
  Recorded out;
  out.programs = record.programs;
  out.ops = record.ops;
  out.dropped = record.dropped.load(std::memory_order_relaxed);
  for (const auto& log : record.logs) {
    RecordedThread thread{log->id, log->hash, log->name, {}};
    int first = log->skip;
    for (const Chunk* chunk = log->head; chunk != nullptr;
         chunk = chunk->next.load(std::memory_order_acquire)) {
      const int count = chunk->count.load(std::memory_order_acquire);
      for (int i = first; i < count; ++i) {
        if (chunk->events[i].end >= since) thread.events.push_back(chunk->events[i]);
      }
      first = 0;
    }
    if (!thread.events.empty()) out.threads.push_back(std::move(thread));
  }
  return out;
}

}  // namespace habana
