// A fuzzer of Program::Validate: programs are made of bytes, mostly well formed and with a few fields
// changed, and what passes is run. Functions that touch every byte of their buffers stand for generated code,
// so that the sanitizers see each buffer, window and carried value that is not where its program says.
//
// With Clang it is a target of libFuzzer. Otherwise it has a main: programs [inputs [seed [first]]] draws so
// many inputs, from number `first` on, and prints what became of them.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/program.h"

namespace habana {

namespace {

constexpr int kUint8 = 4;
constexpr int64_t kMostCalls = 4096;  // of a launch that is run; programs with more are counted only

struct Counts {
  int64_t inputs = 0, passed = 0, launched = 0, long_ones = 0, failed = 0;
};
Counts g_counts;

// The input as numbers; zeros behind its end.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  int64_t Below(int64_t n) { return n <= 1 ? 0 : static_cast<int64_t>(Word(n > 256 ? 4 : 1) % n); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  template <class T>
  T& Of(std::vector<T>& items) {
    return items[static_cast<size_t>(Below(static_cast<int64_t>(items.size())))];
  }

  // A number in the place of `now`: near it, or one that arithmetic stumbles over.
  int64_t Another(int64_t now) {
    static constexpr int64_t kOdd[] = {-1,        0,         1,         2,         4,         7,
                                       8,         24,        64,        1 << 20,   INT32_MAX, 1ll << 31,
                                       1ll << 32, 1ll << 40, 1ll << 62, INT64_MAX, INT64_MIN};
    constexpr int64_t kCount = sizeof(kOdd) / sizeof(kOdd[0]);
    const int64_t choice = Below(kCount + 4);
    const auto near = static_cast<uint64_t>(now);
    if (choice == 0) return static_cast<int64_t>(near + 1);
    if (choice == 1) return static_cast<int64_t>(near - 1);
    if (choice == 2) return static_cast<int64_t>(near * 2);
    if (choice == 3) return static_cast<int64_t>(0 - near);
    return kOdd[choice - 4];
  }

 private:
  uint64_t Word(int count) {
    uint64_t word = 0;
    for (int i = 0; i < count; ++i) word = word << 8 | (at_ < size_ ? data_[at_++] : 0);
    return word;
  }

  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

bool Writable(BufferKind root) { return root == BufferKind::kOutput || root == BufferKind::kWorkspace; }

BufferKind Root(const Program& program, size_t buffer) {
  const Buffer* b = &program.buffers[buffer];
  while (b->kind == BufferKind::kWindow) b = &program.buffers[static_cast<size_t>(b->index)];
  return b->kind;
}

// Reads all bytes, or writes them.
int64_t TouchBytes(char* data, int64_t nbytes, bool writes) {
  int64_t sum = 0;
  if (writes && nbytes > 0) std::memset(data, 0x5a, static_cast<size_t>(nbytes));
  for (int64_t i = 0; i < nbytes; ++i) sum += data[i];
  return sum;
}

volatile int64_t g_sum;

// In the place of a generated function. dims: bytes of each buffer, and whether it is written.
void Touch(char** buffers, const int64_t* dims, int64_t begin, int64_t /*end*/) {
  if (begin != 0) return;
  for (int64_t k = 0; k < dims[0]; ++k) {
    g_sum = TouchBytes(buffers[k], dims[1 + 2 * k], dims[2 + 2 * k] != 0);
  }
}

int64_t BytesOf(const habana_tensor& tensor) {
  int64_t nbytes = static_cast<int64_t>(DataTypeSize(tensor.dtype));
  for (int32_t k = 0; k < tensor.rank; ++k) nbytes *= tensor.shape[k];
  return nbytes;
}

// In the place of a kernel in C.
int TouchCustom(const habana_call* call, int64_t begin, int64_t /*end*/) {
  if (begin != 0) return 0;
  for (int32_t k = 0; k < call->num_inputs; ++k) {
    g_sum = TouchBytes(static_cast<char*>(call->inputs[k].data), BytesOf(call->inputs[k]), false);
  }
  for (int32_t k = 0; k < call->num_outputs; ++k) {
    g_sum = TouchBytes(static_cast<char*>(call->outputs[k].data), BytesOf(call->outputs[k]), true);
  }
  g_sum = TouchBytes(static_cast<char*>(call->workspace), call->workspace_bytes, true);
  return 0;
}

// A well formed program with its inputs.
class Maker {
 public:
  explicit Maker(Bytes* bytes) : bytes_(*bytes) {}

  std::unique_ptr<Program> Make(std::vector<size_t>* inputs, size_t* num_states) {
    program_ = std::make_unique<Program>();
    program_->name = "fuzz";
    for (int64_t k = bytes_.Below(3); k >= 0; --k) {
      inputs->push_back(Size());
      Add(BufferKind::kInput, static_cast<int>(inputs->size()) - 1, inputs->back());
    }
    for (int64_t k = bytes_.Below(3); k > 0; --k) {
      const size_t nbytes = Size();
      program_->outputs.push_back({kUint8, {static_cast<int64_t>(nbytes)}, nbytes});
      Add(BufferKind::kOutput, static_cast<int>(program_->outputs.size()) - 1, nbytes);
    }
    const std::string constants(Size(), 'c');
    program_->data = std::make_shared<RecipeData>(constants.data(), constants.size(), nullptr);
    Add(BufferKind::kConstants, 0, constants.size());
    *num_states = static_cast<size_t>(bytes_.Below(3));
    for (size_t k = 0; k < *num_states; ++k) {
      program_->states.push_back({static_cast<int>(k), 1});
      Add(BufferKind::kState, static_cast<int>(k), sizeof(RandomState));
    }
    Add(BufferKind::kInput, 0, inputs->front() / 2);
    AddSteps(0);
    if (!inputs->empty() && !program_->outputs.empty() && !program_->calls.empty() && bytes_.OneIn(3)) {
      const auto call = static_cast<size_t>(bytes_.Below(static_cast<int64_t>(program_->calls.size())));
      program_->copies.push_back({call, 0, 0});
    }
    if (bytes_.OneIn(3)) {
      const int number = Work(bytes_.OneIn(2) ? 4 : 8);
      program_->index_checks.push_back({number, bytes_.OneIn(2), 100, "an index"});
    }
    return std::move(program_);
  }

 private:
  size_t Size() { return static_cast<size_t>(bytes_.OneIn(6) ? 0 : bytes_.Below(96)); }

  int Add(BufferKind kind, int index, size_t nbytes, int64_t offset = 0) {
    program_->buffers.push_back({kind, index, offset, static_cast<int64_t>(nbytes)});
    const int number = static_cast<int>(program_->buffers.size()) - 1;
    if (kind != BufferKind::kCustom && kind != BufferKind::kErrors) there_.push_back(number);
    return number;
  }

  // A buffer in the workspace.
  int Work(size_t nbytes) {
    const size_t offset = program_->workspace;
    program_->workspace += nbytes;
    return Add(BufferKind::kWorkspace, 0, nbytes, static_cast<int64_t>(offset));
  }

  int64_t BytesOf(int buffer) const { return program_->buffers[static_cast<size_t>(buffer)].nbytes; }

  // A buffer that is there and may be written, or a new one.
  int Target(int64_t nbytes, bool exactly) {
    for (int tries = 0; tries < 4; ++tries) {
      const int found = bytes_.Of(there_);
      const bool fits = exactly ? BytesOf(found) == nbytes : BytesOf(found) >= nbytes;
      if (fits && Writable(Root(*program_, static_cast<size_t>(found)))) return found;
    }
    return Work(static_cast<size_t>(nbytes));
  }

  void AddSteps(int depth) {
    for (int64_t k = bytes_.Below(4); k >= 0; --k) {
      if (depth < 3 && bytes_.OneIn(3)) {
        AddLoop(depth);
      } else if (bytes_.OneIn(5)) {
        AddCustom();
      } else {
        AddCall();
      }
    }
  }

  void AddCall() {
    Call call{Touch, {}, {}, bytes_.Below(200), 1 + bytes_.Below(20)};
    for (int64_t k = bytes_.Below(4); k >= 0; --k) call.buffers.push_back(bytes_.Of(there_));
    program_->calls.push_back(std::move(call));
  }

  void AddCustom() {
    CustomKernel kernel{TouchCustom, "Op", "library", {}, {}, {}, bytes_.Below(9), bytes_.Below(32), false};
    Call call{RunCustom, {}, {}, kernel.items, 1};
    const int number = static_cast<int>(program_->customs.size());
    call.buffers = {Add(BufferKind::kCustom, number, 0), Add(BufferKind::kErrors, 0, 0)};
    for (int64_t k = bytes_.Below(3); k > 0; --k) {
      call.buffers.push_back(bytes_.Of(there_));
      kernel.inputs.push_back({kUint8, {BytesOf(call.buffers.back())}});
    }
    for (int64_t k = bytes_.Below(3); k > 0; --k) {
      const int64_t nbytes = bytes_.Below(40);
      call.buffers.push_back(Target(nbytes, false));
      kernel.outputs.push_back({kUint8, {1, nbytes}});
    }
    call.buffers.push_back(Target(kernel.workspace, false));
    program_->customs.push_back(std::move(kernel));
    program_->calls.push_back(std::move(call));
  }

  void AddLoop(int depth) {
    const std::vector<int> outside = there_;
    const size_t at = program_->loops.size();
    Loop loop{program_->calls.size(), 0, bytes_.Below(5), {}, {}, 1};
    if (!in_blocks_ && bytes_.OneIn(2)) loop.blocks = 1 + bytes_.Below(4);
    const int64_t parts = std::max<int64_t>(loop.trips, 1) * loop.blocks;
    for (int64_t k = bytes_.Below(3) + (loop.blocks > 1 ? 1 : 0); k > 0; --k) {
      const int whole = bytes_.Of(there_);
      const int64_t nbytes = BytesOf(whole) / parts;
      const int part = Add(BufferKind::kWindow, whole, static_cast<size_t>(nbytes));
      const bool back = bytes_.OneIn(3);
      const int64_t row = loop.trips > 0 ? nbytes * loop.blocks : 0;
      loop.windows.push_back({part, back ? row * (loop.trips - 1) : 0, back ? -row : row, nbytes});
    }
    for (int64_t k = bytes_.Below(3); k > 0; --k) {
      const int from = bytes_.Of(there_);
      const auto nbytes = static_cast<size_t>(BytesOf(from));
      const int now = Work(nbytes);
      const int next = bytes_.OneIn(3) ? now : Work(nbytes);
      loop.carried.push_back({now, next, from, bytes_.OneIn(3) ? -1 : Target(BytesOf(from), true)});
    }
    program_->loops.push_back(loop);
    const bool outer = std::exchange(in_blocks_, in_blocks_ || loop.blocks > 1);
    AddSteps(depth + 1);
    in_blocks_ = outer;
    loop.calls = program_->calls.size() - loop.first;
    program_->loops[at] = std::move(loop);
    there_ = outside;
  }

  Bytes& bytes_;
  std::unique_ptr<Program> program_;
  std::vector<int> there_;  // the buffers that a call at this place may name
  bool in_blocks_ = false;
};

// Changes one field of a program.
class Mutator {
 public:
  Mutator(Bytes* bytes, Program* program) : bytes_(*bytes), program_(*program) {}

  void Change() {
    switch (bytes_.Below(10)) {
      case 0:
      case 1:
        return ChangeBuffer();
      case 2:
      case 3:
        return ChangeCall();
      case 4:
      case 5:
        return ChangeLoop();
      case 6:
        return ChangeCustom();
      case 7:
        return Swap();
      case 8:
        return ChangeRest();
      default:
        program_.workspace = static_cast<size_t>(bytes_.Below(128));
    }
  }

 private:
  template <class T>
  void Number(T* field) {
    *field = static_cast<T>(bytes_.Another(static_cast<int64_t>(*field)));
  }

  void BufferNumber(int* field) {
    if (bytes_.OneIn(4)) return Number(field);
    *field = static_cast<int>(bytes_.Below(static_cast<int64_t>(program_.buffers.size()) + 1));
  }

  void ChangeBuffer() {
    Buffer& b = bytes_.Of(program_.buffers);
    switch (bytes_.Below(4)) {
      case 0:
        b.kind = static_cast<BufferKind>(bytes_.Below(10) - 1);
        break;
      case 1:
        BufferNumber(&b.index);
        break;
      case 2:
        Number(&b.offset);
        break;
      default:
        Number(&b.nbytes);
    }
  }

  void ChangeCall() {
    if (program_.calls.empty()) return;
    Call& call = bytes_.Of(program_.calls);
    switch (bytes_.Below(6)) {
      case 0:
        Number(&call.grid);
        break;
      case 1:
        Number(&call.grain);
        break;
      case 2:
        call.fn = bytes_.OneIn(2) ? RunCustom : bytes_.OneIn(8) ? nullptr : Touch;
        break;
      case 3:
        call.buffers.push_back(0);
        BufferNumber(&call.buffers.back());
        break;
      default:
        if (!call.buffers.empty()) BufferNumber(&bytes_.Of(call.buffers));
    }
  }

  void ChangeLoop() {
    if (program_.loops.empty()) return;
    Loop& loop = bytes_.Of(program_.loops);
    switch (bytes_.Below(7)) {
      case 0:
        return Number(&loop.first);
      case 1:
        return Number(&loop.calls);
      case 2:
        return Number(&loop.trips);
      case 3:
        return Number(&loop.blocks);
      case 4:
        if (!loop.carried.empty()) {
          Carried& value = bytes_.Of(loop.carried);
          int* const fields[] = {&value.now, &value.next, &value.from, &value.to};
          BufferNumber(fields[bytes_.Below(4)]);
        }
        return;
      default:
        if (!loop.windows.empty()) {
          Window& w = bytes_.Of(loop.windows);
          int64_t* const fields[] = {&w.start, &w.step, &w.block};
          const int64_t which = bytes_.Below(4);
          if (which == 3) return BufferNumber(&w.buffer);
          Number(fields[which]);
        }
    }
  }

  void ChangeCustom() {
    if (program_.customs.empty()) return;
    CustomKernel& kernel = bytes_.Of(program_.customs);
    const int64_t which = bytes_.Below(4);
    if (which == 0) return Number(&kernel.items);
    if (which == 1) return Number(&kernel.workspace);
    std::vector<CustomTensor>& tensors = which == 2 ? kernel.inputs : kernel.outputs;
    if (tensors.empty() || bytes_.OneIn(6)) return tensors.push_back({kUint8, {1}});
    CustomTensor& tensor = bytes_.Of(tensors);
    if (bytes_.OneIn(3)) {
      tensor.dtype = static_cast<int>(bytes_.Below(30));
    } else {
      Number(&bytes_.Of(tensor.dims));
    }
  }

  void Swap() {
    const int64_t which = bytes_.Below(3);
    if (which == 0) std::swap(bytes_.Of(program_.buffers), bytes_.Of(program_.buffers));
    if (which == 1 && !program_.calls.empty()) {
      std::swap(bytes_.Of(program_.calls), bytes_.Of(program_.calls));
    }
    if (which == 2 && !program_.loops.empty()) {
      std::swap(bytes_.Of(program_.loops), bytes_.Of(program_.loops));
    }
  }

  void ChangeRest() {
    const int64_t which = bytes_.Below(3);
    if (which == 0 && !program_.copies.empty()) {
      Copy& copy = program_.copies[0];
      if (bytes_.OneIn(3)) return Number(&copy.call);
      if (bytes_.OneIn(2)) return Number(&copy.input);
      return Number(&copy.output);
    }
    if (which == 1 && !program_.index_checks.empty()) BufferNumber(&program_.index_checks[0].buffer);
    if (which == 2 && !program_.states.empty()) Number(&bytes_.Of(program_.states).index);
  }

  Bytes& bytes_;
  Program& program_;
};

// Calls of a launch, each loop's as often as it makes them, or kMostCalls + 1.
int64_t Calls(const Program& program) {
  int64_t total = 0;
  for (size_t c = 0; c < program.calls.size() && total <= kMostCalls; ++c) {
    int64_t times = 1;
    for (const Loop& loop : program.loops) {
      if (c < loop.first || c - loop.first >= loop.calls) continue;
      for (int64_t n : {std::max<int64_t>(loop.trips, 1), loop.blocks}) {
        times = std::min(times * std::min(n, kMostCalls + 1), kMostCalls + 1);
      }
    }
    total += times;
  }
  return total;
}

// Memory of a launch, each piece of just its size.
class Memory {
 public:
  char* Get(size_t nbytes) {
    pieces_.push_back(std::make_unique<char[]>(nbytes));
    return nbytes == 0 ? nullptr : pieces_.back().get();
  }

 private:
  std::vector<std::unique_ptr<char[]>> pieces_;
};

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

void Launch(Program* program, const std::vector<InputView>& views, size_t num_states, Memory* memory) {
  for (Call& call : program->calls) {
    if (call.fn != Touch) continue;
    call.dims = {static_cast<int64_t>(call.buffers.size())};
    for (int number : call.buffers) {
      const auto at = static_cast<size_t>(number);
      call.dims.push_back(program->buffers[at].nbytes);
      call.dims.push_back(Writable(Root(*program, at)));
    }
  }
  std::vector<char*> outputs;
  for (const Output& output : program->outputs) outputs.push_back(memory->Get(output.nbytes));
  const std::vector<RandomState> states(num_states);
  std::string warning;
  const Status status = program->Run(
      {&views, outputs.data(), memory->Get(program->workspace), states.data(), states.size(), &warning});
  ++g_counts.launched;
  if (!status.ok()) ++g_counts.failed;
  for (const InputView& view : views) {
    if (TouchBytes(view.data, static_cast<int64_t>(view.nbytes), false) != 0) Fail("an input was written");
  }
}

void One(const uint8_t* data, size_t size) {
  ++g_counts.inputs;
  Bytes bytes(data, size);
  const int64_t changes = bytes.Below(4);
  std::vector<size_t> sizes;
  size_t num_states = 0;
  const std::unique_ptr<Program> program = Maker(&bytes).Make(&sizes, &num_states);
  for (int64_t k = 0; k < changes; ++k) Mutator(&bytes, program.get()).Change();
  Memory memory;
  std::vector<InputView> views;
  for (size_t nbytes : sizes) views.push_back({kUint8, 0, nullptr, memory.Get(nbytes), nbytes});
  const Status valid = program->Validate(&views);
  if (!valid.ok()) {
    if (changes == 0) Fail("a well formed program is refused: " + valid.message);
    return;
  }
  ++g_counts.passed;
  if (Calls(*program) > kMostCalls) {
    ++g_counts.long_ones;
  } else {
    Launch(program.get(), views, num_states, &memory);
  }
}

}  // namespace

}  // namespace habana

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  habana::One(data, size);
  return 0;
}

#ifdef HABANA_FUZZ_MAIN

// What a sanitizer finds ends in SIGABRT, and so says which input it was.
extern "C" const char* __asan_default_options() { return "abort_on_error=1:handle_abort=0"; }
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

namespace {

uint64_t g_seed = 0;
uint64_t g_number = 0;

void SayWhich(int /*signal*/) {
  std::fprintf(stderr, "input %llu of seed %llu\n", static_cast<unsigned long long>(g_number),
               static_cast<unsigned long long>(g_seed));
  std::signal(SIGABRT, SIG_DFL);
  std::raise(SIGABRT);
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int k, uint64_t otherwise) {
    return argc > k ? std::strtoull(argv[k], nullptr, 10) : otherwise;
  };
  const uint64_t inputs = argument(1, 100000);
  g_seed = argument(2, 0);
  const uint64_t first = argument(3, 0);
  std::signal(SIGABRT, SayWhich);
  habana::SetThreads(2);
  std::vector<uint8_t> data(512);
  for (g_number = first; g_number < first + inputs; ++g_number) {
    std::mt19937_64 random(g_seed * 0x9e3779b97f4a7c15ull + g_number);
    for (uint8_t& byte : data) byte = static_cast<uint8_t>(random() >> 56);
    LLVMFuzzerTestOneInput(data.data(), data.size());
  }
  const habana::Counts& n = habana::g_counts;
  std::printf("%lld inputs: %lld passed, %lld launched (%lld ended with an error), %lld too long\n",
              static_cast<long long>(n.inputs), static_cast<long long>(n.passed),
              static_cast<long long>(n.launched), static_cast<long long>(n.failed),
              static_cast<long long>(n.long_ones));
}

#endif
