// The functions of a kernel in C (habana_kernel.h) that Python calls: those that are asked before a launch,
// and `run` where a cluster is interpreted.
//
// Why not by ctypes: a kernel in C++ may throw, and an exception that reaches ctypes ends the process. Here
// it becomes a ValueError. All arguments but `items` are addresses.
#include <exception>
#include <string>

#include "bridge/parts.h"
#include "habana_kernel.h"

namespace habana {

namespace {

// What a function of a library gives, called without the GIL. An exception that leaves it becomes Python's.
template <typename Ask>
auto Asked(Ask ask) {
  std::string text;
  try {
    nb::gil_scoped_release gil;
    return ask();
  } catch (const std::exception& error) {
    text = std::string("it threw an exception: ") + error.what();
  } catch (...) {
    text = "it threw an exception";
  }
  throw nb::value_error(text.c_str());
}

template <typename T>
T* At(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

int KernelShapes(uintptr_t function, uintptr_t call, uintptr_t shapes, uintptr_t ranks) {
  using Shape = int(const habana_call*, int64_t (*)[HABANA_MAX_RANK], int32_t*);
  return Asked([=] {
    return At<Shape>(function)(At<habana_call>(call), At<int64_t[HABANA_MAX_RANK]>(shapes),
                               At<int32_t>(ranks));
  });
}

int64_t KernelNumber(uintptr_t function, uintptr_t call) {
  return Asked([=] { return At<int64_t(const habana_call*)>(function)(At<habana_call>(call)); });
}

int KernelRun(uintptr_t function, uintptr_t call, int64_t items) {
  using Run = int(const habana_call*, int64_t, int64_t);
  return Asked([=] { return At<Run>(function)(At<habana_call>(call), 0, items); });
}

}  // namespace

void DefineKernelCalls(nb::module_& m) {
  m.def("kernel_shapes", KernelShapes);
  m.def("kernel_number", KernelNumber);
  m.def("kernel_run", KernelRun);
}

}  // namespace habana
