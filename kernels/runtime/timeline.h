// The record of what this process does with its card: launches, their kernel calls, graph passes, programs
// asked for, copies, sums between processes, ops on the CPU.
//
// Off, it costs one relaxed load per launch and per other event, and nothing per kernel call. On, each thread
// writes to memory of its own without a lock, and a reader copies complete events meanwhile. The memory is
// bounded (kMostChunks); events that do not fit are counted and dropped.
//
// Recordings may overlap (a profiler session within a trace of the whole program). Each has the events since
// its start; events are discarded when the last recording ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/export.h"

namespace habana {

// habana_tf/card/timeline/record.py has the same numbers.
enum class EventKind : int32_t {
  kLaunch = 0,      // subject: number of the program; detail: kernel calls that it made
  kKernelCall = 1,  // subject: number of the program; detail: number of the call in it
  kResolve = 2,     // Python was asked for a program; subject: its number, 0 where there is none
  kGraphPass = 3,   // subject: bytes of the graph
  kToCard = 4,      // subject: bytes
  kFromCard = 5,    // subject: bytes
  kOnCard = 6,      // subject: bytes
  kSum = 7,         // with other processes, waiting for them included; subject: bytes
  kCpuOp = 8        // by TensorFlow's CPU kernel within an op of HPU; subject: number of its name
};

// Times are nanoseconds of CLOCK_MONOTONIC. threads: how many could take part.
struct Event {
  int64_t start;
  int64_t end;
  int64_t subject;
  EventKind kind;
  int32_t detail;
  int32_t threads;
  int32_t hbm;  // of a launch: MiB of simulated HBM that TensorFlow has taken by its end
};
static_assert(sizeof(Event) == 40, "habana_tf/card/timeline/record.py reads this layout");

constexpr int kChunkEvents = 2048;
constexpr int64_t kMostChunks = 512;  // a million events, 42 MB

// Nanoseconds of CLOCK_MONOTONIC, which all processes of this host share.
HABANA_EXPORT int64_t MonotonicNow();

HABANA_EXPORT extern std::atomic<bool> g_recording;
inline bool Recording() { return g_recording.load(std::memory_order_relaxed); }

// Writes an event of the calling thread.
HABANA_EXPORT void Record(const Event& event);

// Keeps the name of a program while a recording lasts. `noted` belongs to the program and begins as 0.
HABANA_EXPORT void NoteProgram(int64_t number, const std::string& name, std::atomic<uint64_t>* noted);

// The number that stands for an op's name in events.
HABANA_EXPORT int64_t OpNumber(const std::string& name);

// An event from here to the end of the scope, if there is a recording when it begins. With `spent`, its
// nanoseconds are added there in any case.
class HABANA_EXPORT RecordedScope {
 public:
  RecordedScope(EventKind kind, int64_t subject, std::atomic<int64_t>* spent = nullptr)
      : kind_(kind), subject_(subject), spent_(spent), recorded_(Recording()) {
    if (recorded_ || spent_ != nullptr) start_ = MonotonicNow();
  }
  ~RecordedScope() {
    if (start_ == 0) return;
    const int64_t end = MonotonicNow();
    if (spent_ != nullptr) spent_->fetch_add(end - start_, std::memory_order_relaxed);
    if (recorded_) Record({start_, end, subject_, kind_, 0, 1, 0});
  }
  RecordedScope(const RecordedScope&) = delete;
  RecordedScope& operator=(const RecordedScope&) = delete;
  bool on() const { return recorded_; }
  void set_subject(int64_t subject) { subject_ = subject; }

 private:
  EventKind kind_;
  int64_t subject_;
  std::atomic<int64_t>* spent_;
  bool recorded_;
  int64_t start_ = 0;
};

// Begins to record and returns the time; each call needs one of StopRecording.
HABANA_EXPORT int64_t StartRecording();
HABANA_EXPORT void StopRecording();

struct RecordedThread {
  int64_t id;    // as the system knows it
  int64_t hash;  // as TensorFlow's profiler numbers threads: the C++ library's hash of the thread's id
  std::string name;
  std::vector<Event> events;
};

struct Recorded {
  std::vector<RecordedThread> threads;
  std::map<int64_t, std::string> programs;  // number, name
  std::map<int64_t, std::string> ops;
  int64_t dropped = 0;  // events that found no memory, since recording was off
};

// A copy of the events that ended at `since` or later.
HABANA_EXPORT Recorded ReadRecord(int64_t since);

}  // namespace habana
