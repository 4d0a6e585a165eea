#include "runtime/program.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/card.h"
#include "runtime/counters.h"
#include "runtime/launched.h"
#include "runtime/timeline.h"

namespace habana {

namespace {

// The time of one launch, published from its start to its end.
class Stopwatch {
 public:
  Stopwatch() : record_(Published()), start_(MonotonicNow()) { PublishStart(record_, start_); }
  ~Stopwatch() { PublishEnd(record_, end_ == 0 ? MonotonicNow() : end_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  int64_t Stop() {
    end_ = MonotonicNow();
    return end_ - start_;
  }
  int64_t start() const { return start_; }

 private:
  CardRecord& record_;
  int64_t start_;
  int64_t end_ = 0;
};

// The calls of one launch, on the addresses of its buffers. Without a pool the thread that asks makes them. A
// launch that is recorded has code of its own, so that the others ask nothing per call.
template <bool kRecorded>
class Calls {
 public:
  Calls(const Program& program, std::vector<char*>* bases, const std::vector<size_t>& spared, PoolLease* pool)
      : program_(program), bases_(*bases), spared_(spared), pool_(pool) {
    if constexpr (kRecorded) last_ = MonotonicNow();
  }

  // Makes the calls [first, end) with the loops among them from number `loop` on; returns the loop behind.
  size_t Run(size_t first, size_t end, size_t loop) {
    const std::vector<Loop>& loops = program_.loops;
    for (size_t c = first;;) {
      if (loop < loops.size() && loops[loop].first == c && c + loops[loop].calls <= end) {
        const size_t behind = c + loops[loop].calls;
        loop = Repeat(loop);
        c = behind;
        continue;
      }
      if (c >= end) return loop;
      One(c++);
    }
  }

  int32_t made() const { return made_; }

 private:
  char*& At(int buffer) { return bases_[static_cast<size_t>(buffer)]; }

  size_t Behind(size_t loop) const {
    const std::vector<Loop>& loops = program_.loops;
    const size_t end = loops[loop].first + loops[loop].calls;
    size_t next = loop + 1;
    while (next < loops.size() && loops[next].first < end) ++next;
    return next;
  }

  size_t Repeat(size_t number) {
    const int64_t blocks = program_.loops[number].calls == 0 ? 0 : program_.loops[number].blocks;
    if (blocks <= 1 || pool_ == nullptr) {
      for (int64_t block = 0; block < blocks; ++block) Iterate(number, block);
    } else {
      BlocksOf job{this, number, {}};
      char* pointer = reinterpret_cast<char*>(&job);
      pool_->Run(RunBlocks, &pointer, nullptr, blocks, 1);
      if constexpr (kRecorded) {
        made_ += job.made.load();
        last_ = MonotonicNow();
      }
    }
    return Behind(number);
  }

  // The blocks of a loop as the work items of one call. Each thread has addresses of its own.
  struct BlocksOf {
    const Calls* calls;
    size_t loop;
    std::atomic<int32_t> made;
  };

  static void RunBlocks(char** buffers, const int64_t* /*dims*/, int64_t begin, int64_t end) {
    BlocksOf& job = *reinterpret_cast<BlocksOf*>(buffers[0]);
    thread_local std::vector<char*> bases;
    bases = job.calls->bases_;
    Calls own(job.calls->program_, &bases, job.calls->spared_, nullptr);
    for (int64_t block = begin; block < end; ++block) own.Iterate(job.loop, block);
    if constexpr (kRecorded) job.made.fetch_add(own.made_);
  }

  // All iterations of one block.
  void Iterate(size_t number, int64_t block) {
    const Loop& loop = program_.loops[number];
    for (const Window& w : loop.windows) {
      if (loop.trips > 0 || w.step == 0) Place(w, 0, block);
    }
    for (const Carried& value : loop.carried) Move(value.now, value.from);
    for (int64_t t = 0; t < loop.trips; ++t) {
      if (t > 0) {
        for (const Window& w : loop.windows) {
          if (w.step != 0) Place(w, t, block);
        }
      }
      Run(loop.first, loop.first + loop.calls, number + 1);
      for (const Carried& value : loop.carried) std::swap(At(value.now), At(value.next));
    }
    for (const Carried& value : loop.carried) {
      if (value.to >= 0) Move(value.to, value.now);
    }
  }

  void Place(const Window& w, int64_t t, int64_t block) {
    const Buffer& part = program_.buffers[static_cast<size_t>(w.buffer)];
    At(w.buffer) = At(part.index) + w.start + t * w.step + block * w.block;
  }

  void Move(int to, int from) {
    const int64_t nbytes = program_.buffers[static_cast<size_t>(to)].nbytes;
    if (nbytes > 0) std::memmove(At(to), At(from), static_cast<size_t>(nbytes));
  }

  void One(size_t number) {
    const Call& call = program_.calls[number];
    if (!spared_.empty() && std::find(spared_.begin(), spared_.end(), number) != spared_.end()) {
      GetCounters().copies_spared.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    thread_local std::vector<char*> pointers;
    pointers.resize(call.buffers.size());
    for (size_t i = 0; i < call.buffers.size(); ++i) pointers[i] = At(call.buffers[i]);
    const int64_t* dims = call.dims.empty() ? nullptr : call.dims.data();
    int threads = 1;
    if (pool_ != nullptr) {
      threads = pool_->Run(call.fn, pointers.data(), dims, call.grid, call.grain);
    } else if (call.grid > 0) {
      call.fn(pointers.data(), dims, 0, call.grid);
    }
    if constexpr (kRecorded) {
      const int64_t now = MonotonicNow();
      Record({last_, now, program_.number, EventKind::kKernelCall, static_cast<int32_t>(number), threads, 0});
      last_ = now;
      ++made_;
    } else {
      static_cast<void>(threads);
    }
  }

  const Program& program_;
  std::vector<char*>& bases_;
  const std::vector<size_t>& spared_;
  PoolLease* const pool_;
  int64_t last_ = 0;  // when the last call ended
  int32_t made_ = 0;
};

// Recipes whose code and constants are in memory.
std::atomic<int64_t> g_recipes{0};

}  // namespace

size_t DataTypeSize(int tf_dtype) {
  switch (tf_dtype) {
    case 4:   // uint8
    case 6:   // int8
    case 10:  // bool
    case 11:  // qint8
    case 12:  // quint8
    case 24:  // float8_e5m2
    case 25:  // float8_e4m3fn
      return 1;
    case 5:   // int16
    case 14:  // bfloat16
    case 15:  // qint16
    case 16:  // quint16
    case 17:  // uint16
    case 19:  // half
      return 2;
    case 1:   // float
    case 3:   // int32
    case 13:  // qint32
    case 22:  // uint32
      return 4;
    case 2:   // double
    case 8:   // complex64
    case 9:   // int64
    case 23:  // uint64
      return 8;
    case 18:  // complex128
      return 16;
    default:
      return 0;
  }
}

void* AlignedMemory(size_t nbytes) {
  size_t room;
  if (__builtin_add_overflow(std::max<size_t>(nbytes, 1), kAlignment - 1, &room)) return nullptr;
  return std::aligned_alloc(kAlignment, room / kAlignment * kAlignment);
}

RecipeData::RecipeData(const void* constants, size_t nbytes, std::shared_ptr<void> keepalive)
    : constant_bytes_(nbytes), keepalive_(std::move(keepalive)) {
  if (nbytes > 0) {
    constants_ = static_cast<char*>(AlignedMemory(nbytes));
    if (constants_ == nullptr) throw std::bad_alloc();
    std::memcpy(constants_, constants, nbytes);
  }
  g_recipes.fetch_add(1, std::memory_order_relaxed);
}

RecipeData::~RecipeData() {
  std::free(constants_);
  g_recipes.fetch_sub(1, std::memory_order_relaxed);
}

int64_t RecipeData::InMemory() { return g_recipes.load(std::memory_order_relaxed); }

ProgramPtr RecipeData::Find(const std::vector<int64_t>& numbers) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = programs_.find(numbers);
  return it == programs_.end() ? nullptr : it->second.lock();
}

ProgramPtr RecipeData::Add(const std::vector<int64_t>& numbers, ProgramPtr program) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (programs_.size() >= look_again_) {
    DropDead();
    look_again_ = std::max<size_t>(64, 2 * programs_.size());
  }
  std::weak_ptr<const Program>& slot = programs_[numbers];
  if (ProgramPtr first = slot.lock()) return first;
  slot = program;
  return program;
}

size_t RecipeData::Alive() {
  std::lock_guard<std::mutex> lock(mutex_);
  DropDead();
  return programs_.size();
}

void RecipeData::DropDead() {
  for (auto it = programs_.begin(); it != programs_.end();) {
    it = it->second.expired() ? programs_.erase(it) : std::next(it);
  }
}

Program::Program()
    : number([] {
        static std::atomic<int64_t> last{0};
        return last.fetch_add(1, std::memory_order_relaxed) + 1;
      }()) {
  Enter(this);
}

Program::~Program() { Leave(this); }

std::string Program::BadIndex(const std::vector<char*>& bases) const {
  for (const IndexCheck& check : index_checks) {
    const auto at = static_cast<size_t>(check.buffer);
    const bool wide = buffers[at].nbytes == 8;
    uint32_t low = 0;
    uint64_t value = 0;
    std::memcpy(wide ? static_cast<void*>(&value) : &low, bases[at], wide ? sizeof(value) : sizeof(low));
    const int64_t index =
        wide ? static_cast<int64_t>(value) : static_cast<int64_t>(static_cast<int32_t>(low));
    if (!wide) value = low;
    if (value < check.bound || (check.is_signed && index < 0)) continue;
    return check.what + " = " + std::to_string(index) + " is not in [0, " + std::to_string(check.bound) + ")";
  }
  return {};
}

Status Program::Run(const LaunchArgs& args) const {
  Stopwatch watch;
  const bool recorded = Recording();
  int32_t made = 0;
  int threads = 1;
  Counters& counters = GetCounters();
  Status status;
  if (body) {
    status = body(*this, args);
    counters.interpreted_launches.fetch_add(1, std::memory_order_relaxed);
  } else {
    // Base addresses live until the last call is done.
    thread_local std::vector<char*> bases;
    thread_local std::vector<RandomState> states;
    states.assign(args.states, args.states + args.num_states);
    bases.resize(buffers.size());
    CustomErrors errors;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& b = buffers[i];
      char* base = nullptr;
      switch (b.kind) {
        case BufferKind::kInput:
          base = (*args.inputs)[static_cast<size_t>(b.index)].data;
          break;
        case BufferKind::kOutput:
          base = args.outputs[b.index];
          break;
        case BufferKind::kWorkspace:
          base = args.workspace;
          break;
        case BufferKind::kConstants:
          base = data == nullptr ? nullptr : data->constants();
          break;
        case BufferKind::kState:
          if (static_cast<size_t>(b.index) >= states.size()) {
            return Status(Code::kInternal,
                          "program '" + name + "': no random state " + std::to_string(b.index));
          }
          base = reinterpret_cast<char*>(&states[static_cast<size_t>(b.index)]);
          break;
        case BufferKind::kCustom:
          base = reinterpret_cast<char*>(const_cast<CustomKernel*>(&customs[static_cast<size_t>(b.index)]));
          break;
        case BufferKind::kErrors:
          base = reinterpret_cast<char*>(&errors);
          break;
        case BufferKind::kWindow:  // where it is, its loop says
          break;
      }
      bases[i] = base == nullptr ? nullptr : base + b.offset;
    }
    thread_local std::vector<size_t> spared;
    spared.clear();
    for (const Copy& copy : copies) {
      const InputView& in = (*args.inputs)[static_cast<size_t>(copy.input)];
      if (in.data == args.outputs[copy.output]) spared.push_back(copy.call);
    }
    FloatMode mode;
    PoolLease pool;
    if (recorded) {
      Calls<true> run(*this, &bases, spared, &pool);
      run.Run(0, calls.size(), 0);
      made = run.made();
      threads = pool.threads();
    } else {
      Calls<false>(*this, &bases, spared, &pool).Run(0, calls.size(), 0);
    }
    if (!customs.empty()) status = errors.status();
    if (!index_checks.empty() && status.ok()) {
      const std::string bad = BadIndex(bases);
      if (!bad.empty() && bad_index_is_error) {
        status = Status(Code::kInvalidArgument, bad);
      } else if (!bad.empty() && args.warning != nullptr && !warned.exchange(true)) {
        *args.warning = bad;
      }
    }
  }
  const int64_t took = watch.Stop();
  nanoseconds.fetch_add(took, std::memory_order_relaxed);
  ended.store(watch.start() + took, std::memory_order_relaxed);
  launches.fetch_add(1, std::memory_order_release);
  counters.launches.fetch_add(1, std::memory_order_relaxed);
  if (recorded) {
    NoteProgram(number, name, &noted);
    Record({watch.start(), watch.start() + took, number, EventKind::kLaunch, made, threads,
            static_cast<int32_t>(counters.device_bytes.load(std::memory_order_relaxed) >> 20)});
  }
  return status;
}

}  // namespace habana
