// A program: a recipe bound to numbers, and what runs it.
//
// Invariants: immutable once made, but for its counters. Shared by its users (a TensorFlow kernel, a Python
// object, a launch under way) and freed with the last of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/custom_kernel.h"
#include "runtime/export.h"
#include "runtime/random_state.h"
#include "runtime/status.h"
#include "runtime/thread_pool.h"

namespace habana {

constexpr size_t kAlignment = 64;

// Memory at an address that is a multiple of kAlignment, for std::free; null where there is none.
HABANA_EXPORT void* AlignedMemory(size_t nbytes);

// Bytes of one element of a TensorFlow data type, or 0 for types that are not plain numbers.
HABANA_EXPORT size_t DataTypeSize(int tf_dtype);

// A window is a part of another buffer that a loop moves on in each iteration (see Loop).
enum class BufferKind : int {
  kInput = 0,
  kOutput = 1,
  kWorkspace = 2,
  kConstants = 3,
  kState = 4,
  kWindow = 5,
  kCustom = 6,  // what a kernel in C is called with: number `index` of the program's
  kErrors = 7   // where the kernels in C of a launch report
};

struct Buffer {
  BufferKind kind;
  int index;       // of the input, output or random state; of a window the buffer it is a part of
  int64_t offset;  // bytes from its base
  int64_t nbytes;
};

struct Call {
  KernelFn fn;
  std::vector<int> buffers;
  std::vector<int64_t> dims;
  int64_t grid;
  int64_t grain;
};

// A window is at byte `start` + t * `step` + k * `block` of its buffer in iteration t of block k. One without
// a step is placed once, when its block begins.
struct Window {
  int buffer;
  int64_t start;
  int64_t step;
  int64_t block;
};

// A loop-carried value. An iteration reads it from `now` and writes it to `next`, and the two are swapped. It
// is initialized from `from`, and copied to `to` at the end, if that is not -1.
struct Carried {
  int now;
  int next;
  int from;
  int to;
};

// Runs `calls` calls from `first` on `trips` times for each of its blocks. Blocks work on different parts of
// memory; one thread runs all iterations of a block. Inner loops follow the loop they are in.
struct Loop {
  size_t first;
  size_t calls;
  int64_t trips;
  std::vector<Window> windows;
  std::vector<Carried> carried;
  int64_t blocks = 1;
};

struct Output {
  int dtype;
  std::vector<int64_t> dims;
  size_t nbytes;
  int over = -1;  // the input, a variable's present value, that it may be written over; -1 for none
};

// A call that only copies an input, which no later call reads, to an output. It is skipped where the output
// has taken over the input's memory.
struct Copy {
  size_t call;
  int input;
  size_t output;
};

struct StateUse {
  int index;
  uint64_t reserve;
};

// A bounds check: a launch leaves the largest of some indices in a buffer, as an unsigned number where
// negative ones are out of range too.
struct IndexCheck {
  int buffer;
  bool is_signed;
  uint64_t bound;
  bool is_error;     // of the launch; else a warning
  std::string what;  // op, node and argument
};

// One input of a launch, as the signature and the executor see it.
struct InputView {
  int dtype;
  int rank;
  const int64_t* dims;
  char* data;
  size_t nbytes;
};

// What a launch hands to the executor. `states` is indexed by random state.
struct LaunchArgs {
  const std::vector<InputView>* inputs;
  char* const* outputs;
  char* workspace;
  const RandomState* states;
  size_t num_states;
  std::string* warning = nullptr;  // set to what is to be told when no lock is held
};

class Program;
using ProgramPtr = std::shared_ptr<const Program>;
using InterpretedBody = std::function<Status(const Program&, const LaunchArgs&)>;

// What the programs of one recipe share: constants, 64-byte aligned, and a reference to the code. It finds
// living programs by the numbers they are bound to, so that none is made twice, without keeping them alive.
class HABANA_EXPORT RecipeData {
 public:
  RecipeData(const void* constants, size_t nbytes, std::shared_ptr<void> keepalive);
  ~RecipeData();
  RecipeData(const RecipeData&) = delete;
  RecipeData& operator=(const RecipeData&) = delete;

  char* constants() const { return constants_; }
  size_t constant_bytes() const { return constant_bytes_; }

  // The program bound to these numbers, if it is alive, else null.
  ProgramPtr Find(const std::vector<int64_t>& numbers);
  // Makes it known; of two that were made at the same time the first counts, and both callers get it.
  ProgramPtr Add(const std::vector<int64_t>& numbers, ProgramPtr program);
  // How many are alive.
  size_t Alive();
  // How many recipes of this process have code or constants in memory.
  static int64_t InMemory();

 private:
  void DropDead();

  char* constants_ = nullptr;
  const size_t constant_bytes_;
  const std::shared_ptr<void> keepalive_;
  std::mutex mutex_;
  std::map<std::vector<int64_t>, std::weak_ptr<const Program>> programs_;
  size_t look_again_ = 64;  // at how many it is worth looking for dead ones
};

class HABANA_EXPORT Program {
 public:
  Program();
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const int64_t number;  // no other program of this process has it
  std::string name;
  std::vector<Call> calls;
  std::vector<Buffer> buffers;
  std::vector<Output> outputs;
  std::vector<StateUse> states;
  std::vector<Copy> copies;
  std::vector<Loop> loops;  // by `first`, outer ones before inner ones
  std::vector<CustomKernel> customs;
  std::vector<IndexCheck> index_checks;
  size_t workspace = 0;
  InterpretedBody body;              // set for interpreted programs only
  std::shared_ptr<RecipeData> data;  // null where there are neither constants nor code to be kept

  mutable std::atomic<int64_t> launches{0};  // counted last, and released: see launched.h
  mutable std::atomic<int64_t> nanoseconds{0};
  mutable std::atomic<int64_t> ended{0};    // the last launch, by CLOCK_MONOTONIC
  mutable std::atomic<uint64_t> noted{0};   // see NoteProgram
  mutable std::atomic<bool> warned{false};  // of an index out of range

  size_t constant_bytes() const { return data == nullptr ? 0 : data->constant_bytes(); }

  // Checks indices and extents once, so that the executor need not; with `inputs`, theirs too.
  Status Validate(const std::vector<InputView>* inputs) const;
  Status Run(const LaunchArgs& args) const;

 private:
  Status Place(const LaunchArgs& args, const std::vector<RandomState>& states, CustomErrors* errors,
               std::vector<char*>* bases) const;
  Status RunCalls(const LaunchArgs& args, bool recorded, int32_t* made, int* threads) const;
  // What is wrong with the indices of a launch, by the addresses of its buffers; empty if nothing is. errors:
  // looks at the checks that fail the launch, else at those that warn.
  std::string BadIndex(const std::vector<char*>& bases, bool errors) const;
};

}  // namespace habana
