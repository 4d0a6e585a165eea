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
TheRecord& g_record = *new TheRecord;

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
  g_record.chunks.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard<std::mutex> lock(g_record.mutex);
  g_record.logs.push_back(std::move(log));
  return g_record.logs.back().get();
}

// Frees what precedes the chunk that the thread writes, and skips what that has. With the lock held.
void Empty(Log* log) {
  while (Chunk* next = log->head->next.load(std::memory_order_acquire)) {
    delete log->head;
    g_record.chunks.fetch_sub(1, std::memory_order_relaxed);
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
    if (g_record.chunks.load(std::memory_order_relaxed) >= kMostChunks) {
      g_record.dropped.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    g_record.chunks.fetch_add(1, std::memory_order_relaxed);
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
  const uint64_t now = g_record.generation.load(std::memory_order_relaxed);
  if (noted->load(std::memory_order_relaxed) == now) return;
  std::lock_guard<std::mutex> lock(g_record.mutex);
  g_record.programs.emplace(number, name);
  noted->store(g_record.generation.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

int64_t OpNumber(const std::string& name) {
  std::lock_guard<std::mutex> lock(g_record.mutex);
  const auto [at, added] =
      g_record.op_numbers.emplace(name, static_cast<int64_t>(g_record.op_numbers.size()));
  if (added) g_record.ops.emplace(at->second, name);
  return at->second;
}

int64_t StartRecording() {
  std::lock_guard<std::mutex> lock(g_record.mutex);
  if (g_record.readers++ == 0) g_recording.store(true, std::memory_order_relaxed);
  return MonotonicNow();
}

void StopRecording() {
  std::lock_guard<std::mutex> lock(g_record.mutex);
  if (g_record.readers == 0 || --g_record.readers > 0) return;
  g_recording.store(false, std::memory_order_relaxed);
  for (const auto& log : g_record.logs) Empty(log.get());
  const auto ended = [](const std::unique_ptr<Log>& log) {
    if (!log->abandoned.load(std::memory_order_acquire)) return false;
    Empty(log.get());
    delete log->head;
    g_record.chunks.fetch_sub(1, std::memory_order_relaxed);
    return true;
  };
  g_record.logs.erase(std::remove_if(g_record.logs.begin(), g_record.logs.end(), ended), g_record.logs.end());
  g_record.programs.clear();
  g_record.generation.fetch_add(1, std::memory_order_relaxed);
  g_record.dropped.store(0, std::memory_order_relaxed);
}

Recorded ReadRecord(int64_t since) {
  std::lock_guard<std::mutex> lock(g_record.mutex);
  Recorded out;
  out.programs = g_record.programs;
  out.ops = g_record.ops;
  out.dropped = g_record.dropped.load(std::memory_order_relaxed);
  for (const auto& log : g_record.logs) {
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
