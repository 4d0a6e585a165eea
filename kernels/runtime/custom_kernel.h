// Kernels in C that a program brings (habana_kernel.h): how a call of a launch calls one, and how its errors
// reach the launch.
//
// A CustomKernel has all arguments of the calls but the data. It belongs to a program and never changes. The
// library of the kernel is never unloaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "habana_kernel.h"
#include "runtime/export.h"
#include "runtime/status.h"

namespace habana {

struct CustomAttr {
  std::string name;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::string text;
  std::string kind;  // "int", "float" or "text"
};

struct CustomTensor {
  int dtype;
  std::vector<int64_t> dims;
};

struct CustomKernel {
  using Run = int (*)(const habana_call* call, int64_t begin, int64_t end);

  Run run;
  std::string op;
  std::string library;  // its path, for messages
  std::vector<CustomTensor> inputs;
  std::vector<CustomTensor> outputs;
  std::vector<CustomAttr> attrs;
  int64_t items;
  int64_t workspace;
  bool checked;  // all its work items are one call, on copies: see kernel_crashes.h
};

// What the kernels of one launch report: the first error counts.
struct CustomErrors {
  CustomErrors() { message[0] = '\0'; }  // the rest stays as it is: every launch makes one

  std::atomic<const CustomKernel*> failed{nullptr};
  int code = 0;
  char message[512];

  // Of the launch, once all its calls are done.
  Status status() const;
};

// A KernelFn. buffers: a CustomKernel, the launch's CustomErrors, inputs, outputs, workspace.
HABANA_EXPORT void RunCustom(char** buffers, const int64_t* dims, int64_t begin, int64_t end);

}  // namespace habana
