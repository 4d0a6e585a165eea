// The functions of a kernel in C (habana_kernel.h) that Python calls: those that are asked before a launch,
// and `run` where a cluster is interpreted.
//
// Why not by ctypes: a kernel in C++ may throw, and an exception that reaches ctypes ends the process. Here
// it becomes a ValueError. All arguments but `items` are addresses.
#pragma once

#include <cstdint>

#include "bridge/python.h"

namespace habana {

int KernelShapes(uintptr_t function, uintptr_t call, uintptr_t shapes, uintptr_t ranks);
int64_t KernelNumber(uintptr_t function, uintptr_t call);
int KernelRun(uintptr_t function, uintptr_t call, int64_t items);

}  // namespace habana
