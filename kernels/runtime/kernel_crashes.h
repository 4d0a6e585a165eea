// Kernels in C that crash: a sentence says which one, before the process ends; or, where a kernel is checked,
// the launch fails with it and the process goes on.
//
// A checked kernel works on copies of its tensors, each of which ends where memory ends that may be touched:
// whoever reads or writes beyond it, or writes an input, is caught at once. In a launch as usual that is only
// so where the memory beyond is nobody's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "habana_kernel.h"

namespace habana {

struct CustomKernel;

// Runs work items of a kernel on the call's tensors.
int RunWatched(const CustomKernel& kernel, const habana_call& call, int64_t begin, int64_t end);

// The same on copies; a crash is an error whose message is in call.error.
int RunChecked(const CustomKernel& kernel, const habana_call& call, int64_t begin, int64_t end);

}  // namespace habana
