// Crash handling of kernels in C: a message names the kernel before the process ends. A checked kernel
// (HABANA_SIM_CHECK_KERNELS) fails its launch instead, and the process goes on.
//
// A checked kernel works on copies of its tensors, each of which ends at a protected page; inputs are
// read-only. So every access past the end of a tensor, and every write to an input, is caught.
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
