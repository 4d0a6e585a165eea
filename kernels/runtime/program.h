// A program: a recipe bound to numbers, and what runs it.
//
// Invariants: immutable once made, but for its counters; held by shared_ptr, so that a program that Python
// frees while a launch runs it lives until that launch is over.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/export.h"
#include "runtime/random_state.h"
#include "runtime/status.h"
#include "runtime/thread_pool.h"

namespace habana {

constexpr size_t kAlignment = 64;

// Bytes of one element of a TensorFlow data type, or 0 for types that are not plain numbers.
HABANA_EXPORT size_t DataTypeSize(int tf_dtype);

enum class BufferKind : int { kInput = 0, kOutput = 1, kWorkspace = 2, kConstants = 3, kState = 4 };

struct Buffer {
  BufferKind kind;
  int index;       // of the input, output or random state
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

struct Output {
  int dtype;
  std::vector<int64_t> dims;
  size_t nbytes;
};

// A call that does nothing but copy an input, which no other call reads, to an output. An output that takes
// over the input's memory is spared it.
struct Copy {
  size_t call;
  int input;
  size_t output;
};

struct StateUse {
  int index;
  uint64_t reserve;
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
};

class Program;
using InterpretedBody = std::function<Status(const Program&, const LaunchArgs&)>;

class HABANA_EXPORT Program {
 public:
  Program() = default;
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string name;
  std::vector<Call> calls;
  std::vector<Buffer> buffers;
  std::vector<Output> outputs;
  std::vector<StateUse> states;
  std::vector<Copy> copies;
  size_t workspace = 0;
  InterpretedBody body;             // set for interpreted programs only
  std::shared_ptr<void> keepalive;  // what the code belongs to

  mutable std::atomic<int64_t> launches{0};
  mutable std::atomic<int64_t> nanoseconds{0};

  void SetConstants(const void* data, size_t nbytes);
  const char* constants() const { return constants_; }
  size_t constant_bytes() const { return constant_bytes_; }

  // Checks indices and extents once, so that the executor need not; with `inputs`, theirs too.
  Status Validate(const std::vector<InputView>* inputs) const;
  Status Run(const LaunchArgs& args) const;

 private:
  char* constants_ = nullptr;
  size_t constant_bytes_ = 0;
};

using ProgramPtr = std::shared_ptr<const Program>;

// Programs by handle, as Python names them. Handles are never used twice.
HABANA_EXPORT int64_t RegisterProgram(std::shared_ptr<Program> program);
HABANA_EXPORT ProgramPtr FindProgram(int64_t handle);
HABANA_EXPORT bool FreeProgram(int64_t handle);

}  // namespace habana
