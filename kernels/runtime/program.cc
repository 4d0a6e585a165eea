#include "runtime/program.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/calls.h"
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

std::string Program::BadIndex(const std::vector<char*>& bases, bool errors) const {
  for (const IndexCheck& check : index_checks) {
    if (check.is_error != errors) continue;
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

// The addresses of the buffers. A window has none: its loop places it.
Status Program::Place(const LaunchArgs& args, const std::vector<RandomState>& states, CustomErrors* errors,
                      std::vector<char*>* bases) const {
  bases->resize(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& b = buffers[i];
    const auto index = static_cast<size_t>(b.index);
    const void* base = nullptr;
    switch (b.kind) {
      case BufferKind::kInput:
        base = (*args.inputs)[index].data;
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
        if (index >= states.size()) {
          return Status(Code::kInternal,
                        "program '" + name + "': no random state " + std::to_string(b.index));
        }
        base = &states[index];
        break;
      case BufferKind::kCustom:
        base = &customs[index];
        break;
      case BufferKind::kErrors:
        base = errors;
        break;
      case BufferKind::kWindow:
        break;
    }
    (*bases)[i] = base == nullptr ? nullptr : static_cast<char*>(const_cast<void*>(base)) + b.offset;
  }
  return {};
}

// Makes the calls; `made` and `threads` are for the record of the launch.
Status Program::RunCalls(const LaunchArgs& args, bool recorded, int32_t* made, int* threads) const {
  // Base addresses live until the last call is done.
  thread_local std::vector<char*> bases;
  thread_local std::vector<RandomState> states;
  thread_local std::vector<size_t> spared;
  states.assign(args.states, args.states + args.num_states);
  CustomErrors errors;
  HABANA_RETURN_IF_ERROR(Place(args, states, &errors, &bases));
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
    *made = run.made();
    *threads = pool.threads();
  } else {
    Calls<false>(*this, &bases, spared, &pool).Run(0, calls.size(), 0);
  }
  if (!customs.empty()) HABANA_RETURN_IF_ERROR(errors.status());
  if (index_checks.empty()) return {};
  std::string bad = BadIndex(bases, true);
  if (!bad.empty()) return Status(Code::kInvalidArgument, bad);
  bad = BadIndex(bases, false);
  if (!bad.empty() && args.warning != nullptr && !warned.exchange(true)) *args.warning = bad;
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
    status = RunCalls(args, recorded, &made, &threads);
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
