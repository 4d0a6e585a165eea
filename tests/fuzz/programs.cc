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
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fuzz/bytes.h"
#include "fuzz/maker.h"
#include "fuzz/mutator.h"
#include "runtime/program.h"

namespace habana {

namespace {

constexpr int64_t kMostCalls = 4096;  // of a launch that is run; programs with more are counted only

struct Counts {
  int64_t inputs = 0, passed = 0, launched = 0, long_ones = 0, failed = 0;
};
Counts g_counts;

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
