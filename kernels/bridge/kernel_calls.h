// The functions of a kernel in C (habana_kernel.h) that Python calls: those that are asked before a launch,
// and `run` where a cluster is interpreted.
//
// Why not by ctypes: a kernel in C++ may throw, and an exception that reaches ctypes ends the process. Here
// it becomes a ValueError. All arguments but `items` are addresses.
#pragma once

#include "bridge/python.h"

namespace habana {

void DefineKernelCalls(nb::module_& m);

}  // namespace habana
