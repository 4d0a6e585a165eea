#include "runtime/resolver.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <tuple>
#include <unordered_set>

#include "runtime/counters.h"
#include "runtime/timeline.h"

namespace habana {

// A resolution under way, and then its outcome.
struct Flight {
  std::mutex mutex;
  std::condition_variable cv;
  bool done = false;
  int64_t generation = 0;
  Status status;
  ProgramPtr program;
};

namespace {

// Programs that one kernel object keeps. At the bound the least recently used quarter is dropped; Python
// binds their recipes again when their shapes come back.
constexpr size_t kMostPrograms = 1024;

// Linked code of a recipe takes some 100 KiB and three or four mappings, of which a process may have 65,530.
// Its programs share it, so recipes are counted, including those that only Python keeps.
std::atomic<int64_t> g_most_recipes{2048};

// Of all kernels: a clock for the least recently used of their programs.
std::atomic<int64_t> g_misses{0};

struct Kernels {
  std::mutex mutex;  // taken before the mutex of a kernel, never after
  std::unordered_set<ClusterKernel*> all;
};

Kernels& g_kernels = *new Kernels;

void Enter(ClusterKernel* kernel) {
  std::lock_guard<std::mutex> lock(g_kernels.mutex);
  g_kernels.all.insert(kernel);
}

struct Flights {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Flight>> by_key;
};

Flights& g_flights = *new Flights;

void BuildKey(const std::vector<InputView>& inputs, const std::vector<char>& fixed,
              std::vector<int64_t>* key) {
  key->clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputView& in = inputs[i];
    const bool with_value = i < fixed.size() && fixed[i];
    key->push_back((static_cast<int64_t>(in.dtype) << 32) | (with_value ? 1 << 16 : 0) | in.rank);
    for (int d = 0; d < in.rank; ++d) key->push_back(in.dims[d]);
    if (with_value) {
      const size_t words = (in.nbytes + 7) / 8;
      const size_t at = key->size();
      key->resize(at + words, 0);
      if (in.nbytes > 0) std::memcpy(key->data() + at, in.data, in.nbytes);
    }
  }
}

// How often ForgetPrograms was called.
std::atomic<int64_t> g_generation{0};

size_t Hash(const std::vector<int64_t>& key) {
  uint64_t h = 0x9e3779b97f4a7c15ull ^ key.size();
  for (int64_t word : key) {
    h ^= static_cast<uint64_t>(word);
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  }
  return static_cast<size_t>(h);
}

// The resolution of a key; `mine` if this thread has to make it.
std::shared_ptr<Flight> FlightOf(const std::string& key, bool* mine) {
  std::lock_guard<std::mutex> lock(g_flights.mutex);
  std::shared_ptr<Flight>& flight = g_flights.by_key[key];
  *mine = flight == nullptr;
  if (*mine) {
    flight = std::make_shared<Flight>();
    flight->generation = g_generation.load(std::memory_order_acquire);
  }
  return flight;
}

// Waits until a resolution is done. The thread that makes it takes the GIL, so this one lets go of it.
Status Await(Flight* flight) {
  CallbackScope python;
  HABANA_RETURN_IF_ERROR(python.status());
  void* gil = python->release_gil();
  {
    std::unique_lock<std::mutex> lock(flight->mutex);
    flight->cv.wait(lock, [&] { return flight->done; });
  }
  python->restore_gil(gil);
  return {};
}

}  // namespace

void ForgetPrograms() { g_generation.fetch_add(1, std::memory_order_release); }

void SetMostRecipes(int64_t count) { g_most_recipes.store(count, std::memory_order_relaxed); }

ClusterKernel::ClusterKernel(std::string text, bool is_node, std::vector<int> order)
    : text_(std::move(text)), is_node_(is_node), order_(std::move(order)) {
  Enter(this);
}

ClusterKernel::ClusterKernel(const ClusterInfo& info) : is_node_(false) {
  Adopt(info);
  Enter(this);
}

ClusterKernel::~ClusterKernel() {
  std::lock_guard<std::mutex> lock(g_kernels.mutex);
  g_kernels.all.erase(this);
}

Status ClusterKernel::Prepare() {
  if (prepared_.load(std::memory_order_acquire)) return {};
  // Asked without a lock: two threads may both ask, and the first answer counts.
  ClusterInfo info;
  {
    CallbackScope python;
    HABANA_RETURN_IF_ERROR(python.status());
    HABANA_RETURN_IF_ERROR(is_node_ ? python->node_info(text_, &info) : python->cluster_info(text_, &info));
  }
  return Adopt(info);
}

Status ClusterKernel::Adopt(const ClusterInfo& info) {
  std::lock_guard<std::mutex> lock(prepare_mutex_);
  if (prepared_.load(std::memory_order_relaxed)) return {};
  for (int index : info.fixed) {
    if (index < 0) return Status(Code::kInternal, "a cluster has a fixed input with a negative index");
    if (static_cast<size_t>(index) >= fixed_.size()) fixed_.resize(static_cast<size_t>(index) + 1, 0);
    fixed_[static_cast<size_t>(index)] = 1;
  }
  cluster_ = info.cluster;
  if (!info.order.empty()) order_ = info.order;
  for (const auto& seeds : info.states) {
    streams_.push_back(std::make_unique<RandomStream>(seeds.first, seeds.second));
  }
  prepared_.store(true, std::memory_order_release);
  return {};
}

ProgramPtr ClusterKernel::Lookup(const std::vector<int64_t>& key, size_t hash) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  if (generation_ != g_generation.load(std::memory_order_acquire)) return nullptr;
  auto [at, end] = programs_.equal_range(hash);
  for (; at != end; ++at) {
    Entry& entry = at->second;
    if (entry.key != key) continue;
    // Written once per miss, not per launch: many threads may launch the same program.
    const int64_t misses = g_misses.load(std::memory_order_relaxed);
    if (entry.met.load(std::memory_order_relaxed) != misses)
      entry.met.store(misses, std::memory_order_relaxed);
    return entry.program;
  }
  return nullptr;
}

// generation: when the program was asked for; one that is older than ForgetPrograms is not kept.
void ClusterKernel::Insert(const std::vector<int64_t>& key, size_t hash, const ProgramPtr& program,
                           int64_t generation) {
  std::vector<Entries::node_type> dropped;  // destroyed after the lock is given back
  Entries old;
  std::unique_lock<std::shared_mutex> lock(mutex_);
  if (generation != g_generation.load(std::memory_order_acquire)) return;
  if (generation_ != generation) {
    old.swap(programs_);
    generation_ = generation;
  }
  auto [at, end] = programs_.equal_range(hash);
  for (; at != end; ++at) {
    if (at->second.key == key) return;
  }
  if (programs_.size() >= kMostPrograms) dropped = Oldest();
  programs_.emplace(
      std::piecewise_construct, std::forward_as_tuple(hash),
      std::forward_as_tuple(key, program, g_misses.fetch_add(1, std::memory_order_relaxed) + 1));
}

// Takes out the least recently used quarter. Called with the lock held.
std::vector<ClusterKernel::Entries::node_type> ClusterKernel::Oldest() {
  std::vector<Entries::iterator> order;
  for (auto it = programs_.begin(); it != programs_.end(); ++it) order.push_back(it);
  const auto quarter = order.begin() + static_cast<std::ptrdiff_t>(order.size() / 4);
  std::nth_element(order.begin(), quarter, order.end(), [](Entries::iterator a, Entries::iterator b) {
    return a->second.met.load(std::memory_order_relaxed) < b->second.met.load(std::memory_order_relaxed);
  });
  std::vector<Entries::node_type> out;
  for (auto it = order.begin(); it != quarter; ++it) out.push_back(programs_.extract(*it));
  return out;
}

// Takes out the programs not used since a miss.
std::vector<ClusterKernel::Entries::node_type> ClusterKernel::Before(int64_t miss) {
  std::vector<Entries::node_type> out;
  std::unique_lock<std::shared_mutex> lock(mutex_);
  for (auto it = programs_.begin(); it != programs_.end();) {
    const auto here = it++;
    if (here->second.met.load(std::memory_order_relaxed) < miss) out.push_back(programs_.extract(here));
  }
  return out;
}

// Drops the least recently used quarter of the programs of all kernels. Their code is unmapped when its last
// launch has ended and Python has dropped the recipe.
void ClusterKernel::DropOldest() {
  std::vector<std::vector<Entries::node_type>> dropped;  // destroyed after the lock is given back
  std::lock_guard<std::mutex> lock(g_kernels.mutex);
  std::vector<int64_t> met;
  for (ClusterKernel* kernel : g_kernels.all) {
    std::shared_lock<std::shared_mutex> reading(kernel->mutex_);
    for (const auto& [hash, entry] : kernel->programs_)
      met.push_back(entry.met.load(std::memory_order_relaxed));
  }
  if (met.empty()) return;
  const auto quarter = met.begin() + static_cast<std::ptrdiff_t>(met.size() / 4);
  std::nth_element(met.begin(), quarter, met.end());
  for (ClusterKernel* kernel : g_kernels.all) dropped.push_back(kernel->Before(*quarter));
}

Status ClusterKernel::Find(const std::vector<InputView>& inputs, ProgramPtr* program) {
  thread_local std::vector<int64_t> scratch;
  BuildKey(inputs, fixed_, &scratch);
  const size_t hash = Hash(scratch);
  *program = Lookup(scratch, hash);
  if (*program != nullptr) return {};
  const std::vector<int64_t> key = scratch;  // Python may launch on this thread while it resolves
  return FindOrResolve(inputs, key, hash, program);
}

ProgramPtr ClusterKernel::FindKnown(const std::vector<InputView>& inputs) {
  thread_local std::vector<int64_t> scratch;
  BuildKey(inputs, fixed_, &scratch);
  return Lookup(scratch, Hash(scratch));
}

// Asks Python, and hands what it made to those that wait.
Status ClusterKernel::Resolve(const std::vector<InputView>& inputs, const std::vector<int64_t>& key,
                              size_t hash, const std::string& name, Flight* flight) {
  Status status;
  // A resolution by another thread may have ended between the look-up and here.
  ProgramPtr found = Lookup(key, hash);
  if (found == nullptr) {
    RecordedScope recorded(EventKind::kResolve, 0, &GetCounters().resolve_nanoseconds);
    CallbackScope python;
    status = python.status();
    if (status.ok()) {
      GetCounters().resolutions.fetch_add(1, std::memory_order_relaxed);
      status = python->resolve(cluster_, inputs, fixed_, &found);
      if (recorded.on() && found != nullptr) {
        NoteProgram(found->number, found->name, &found->noted);
        recorded.set_subject(found->number);
      }
    }
  }
  if (status.ok()) Insert(key, hash, found, flight->generation);
  if (RecipeData::InMemory() > g_most_recipes.load(std::memory_order_relaxed)) DropOldest();
  {
    std::lock_guard<std::mutex> lock(g_flights.mutex);
    g_flights.by_key.erase(name);
  }
  {
    std::lock_guard<std::mutex> lock(flight->mutex);
    flight->done = true;
    flight->status = status;
    flight->program = found;
  }
  flight->cv.notify_all();
  return status;
}

Status ClusterKernel::FindOrResolve(const std::vector<InputView>& inputs, const std::vector<int64_t>& key,
                                    size_t hash, ProgramPtr* program) {
  GetCounters().misses.fetch_add(1, std::memory_order_relaxed);
  std::string name = cluster_;
  name.append(reinterpret_cast<const char*>(key.data()), key.size() * sizeof(int64_t));
  for (;;) {
    bool mine = false;
    const std::shared_ptr<Flight> flight = FlightOf(name, &mine);
    if (mine) {
      const Status status = Resolve(inputs, key, hash, name, flight.get());
      *program = flight->program;
      return status;
    }
    HABANA_RETURN_IF_ERROR(Await(flight.get()));
    if (flight->status.ok()) {
      Insert(key, hash, flight->program, flight->generation);
      *program = flight->program;
      return {};
    }
    // Interrupting one thread's wait is not a verdict on the cluster: this thread asks for itself.
    if (flight->status.code != static_cast<int>(Code::kCancelled)) return flight->status;
  }
}

void ClusterKernel::ReserveStates(const Program& program, std::vector<RandomState>* states) {
  states->resize(streams_.size());
  for (size_t i = 0; i < streams_.size(); ++i) (*states)[i] = streams_[i]->Reserve(0);
  for (const StateUse& use : program.states) {
    const size_t index = static_cast<size_t>(use.index);
    if (index < streams_.size()) (*states)[index] = streams_[index]->Reserve(use.reserve);
  }
}

}  // namespace habana
