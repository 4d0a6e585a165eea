#include "runtime/kernel_crashes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>

#include "runtime/custom_kernel.h"
#include "runtime/program.h"

namespace habana {

namespace {

// The kernel that this thread is in, and where to go on if it is checked.
thread_local const CustomKernel* t_running = nullptr;
thread_local sigjmp_buf* t_escape = nullptr;

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr size_t kCount = sizeof(kSignals) / sizeof(kSignals[0]);
struct sigaction g_before[kCount];

const char* Why(int signal) {
  switch (signal) {
    case SIGFPE:
      return "divided an integer by zero, or the like";
    case SIGILL:
      return "uses an instruction that this CPU lacks";
    default:
      return "read or wrote memory that is none of its tensors', or wrote an input";
  }
}

void Say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// Async-signal-safe: no memory, no locks.
void OnCrash(int signal, siginfo_t* info, void* /*context*/) {
  const bool sent = info->si_code <= 0;  // by kill or raise, not by an instruction
  if (t_escape != nullptr && !sent) siglongjmp(*t_escape, signal);
  if (const CustomKernel* kernel = t_running; kernel != nullptr && !sent) {
    t_running = nullptr;
    Say("habana_tf: the kernel of ");
    Say(kernel->op.c_str());
    Say(" in ");
    Say(kernel->library.c_str());
    Say(" ");
    Say(Why(signal));
    Say(": the process ends. HABANA_SIM_CHECK_KERNELS=1 makes it an error.\n");
  }
  // The instruction runs again, now under the handler that was installed before this one.
  for (size_t k = 0; k < kCount; ++k) {
    if (kSignals[k] == signal) sigaction(signal, &g_before[k], nullptr);
  }
  if (sent) raise(signal);
}

void Watch() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action;
    std::memset(&action, 0, sizeof(action));
    action.sa_sigaction = OnCrash;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (size_t k = 0; k < kCount; ++k) sigaction(kSignals[k], &action, &g_before[k]);
  });
}

// A kernel in C++ may throw, and what throws through a thread of the runtime would end the process.
int Run(const CustomKernel& kernel, const habana_call& call, int64_t begin, int64_t end) {
  try {
    return kernel.run(&call, begin, end);
  } catch (const std::exception& error) {
    return habana_fail(&call, "it threw an exception: %s", error.what());
  } catch (...) {
    return habana_fail(&call, "it threw an exception");
  }
}

// Nothing here has a destructor: the kernel may be left in its middle.
int RunUntilCrash(const CustomKernel* kernel, const habana_call* call, int64_t begin, int64_t end,
                  int* signal) {
  sigjmp_buf escape;
  *signal = sigsetjmp(escape, 1);
  if (*signal != 0) {
    t_escape = nullptr;
    return 1;
  }
  t_escape = &escape;
  const int code = Run(*kernel, *call, begin, end);
  t_escape = nullptr;
  return code;
}

// Memory that ends at a protected page.
class Guarded {
 public:
  explicit Guarded(size_t nbytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    usable_ = (nbytes + page - 1) / page * page;
    size_ = usable_ + page;
    void* found = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) return;
    base_ = static_cast<char*>(found);
    mprotect(base_ + usable_, page, PROT_NONE);
    data_ = base_ + usable_ - nbytes;
  }
  ~Guarded() {
    if (base_ != nullptr) munmap(base_, size_);
  }
  Guarded(Guarded&& other) noexcept
      : usable_(other.usable_), size_(other.size_), base_(other.base_), data_(other.data_) {
    other.base_ = nullptr;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  char* data() const { return data_; }
  void ReadOnly() const {
    if (usable_ > 0) mprotect(base_, usable_, PROT_READ);
  }

 private:
  size_t usable_ = 0;
  size_t size_ = 0;
  char* base_ = nullptr;
  char* data_ = nullptr;
};

size_t Bytes(const habana_tensor& tensor) {
  return static_cast<size_t>(habana_elements(&tensor)) * DataTypeSize(tensor.dtype);
}

constexpr int kUnwritten = 0xff;  // a NaN of every floating type

}  // namespace

int RunWatched(const CustomKernel& kernel, const habana_call& call, int64_t begin, int64_t end) {
  Watch();
  t_running = &kernel;
  const int code = Run(kernel, call, begin, end);
  t_running = nullptr;
  return code;
}

int RunChecked(const CustomKernel& kernel, const habana_call& call, int64_t begin, int64_t end) {
  Watch();
  std::vector<Guarded> memory;
  std::vector<habana_tensor> tensors;
  for (int32_t k = 0; k < call.num_inputs + call.num_outputs; ++k) {
    habana_tensor tensor = k < call.num_inputs ? call.inputs[k] : call.outputs[k - call.num_inputs];
    const size_t nbytes = Bytes(tensor);
    memory.emplace_back(nbytes);
    if (memory.back().data() == nullptr) return habana_fail(&call, "no memory for checking it");
    if (k >= call.num_inputs) {
      std::memset(memory.back().data(), kUnwritten, nbytes);
    } else if (nbytes > 0) {
      std::memcpy(memory.back().data(), tensor.data, nbytes);
      memory.back().ReadOnly();
    }
    tensor.data = memory.back().data();
    tensors.push_back(tensor);
  }
  const size_t room = static_cast<size_t>(call.workspace_bytes);
  const Guarded workspace((room + kAlignment - 1) / kAlignment * kAlignment);  // it begins as any does
  if (workspace.data() == nullptr) return habana_fail(&call, "no memory for checking it");
  habana_call copy = call;
  copy.inputs = tensors.data();
  copy.outputs = tensors.data() + call.num_inputs;
  copy.workspace = workspace.data();
  int signal = 0;
  const int code = RunUntilCrash(&kernel, &copy, begin, end, &signal);
  if (signal != 0) return habana_fail(&call, "it %s", Why(signal));
  for (int32_t k = 0; k < call.num_outputs; ++k) {
    const size_t nbytes = Bytes(call.outputs[k]);
    if (nbytes > 0) std::memcpy(call.outputs[k].data, copy.outputs[k].data, nbytes);
  }
  return code;
}

}  // namespace habana
