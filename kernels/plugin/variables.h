// The kernel of ops on resource variables that run outside a launch (eagerly, or left out of every cluster).
//
// The C ABI gives such an op its serialized resource handles, nothing more. With them it calls back into the
// user's eager context: reads the variables, runs the op's dataflow form (or TensorFlow's CPU kernel on
// copies), and assigns the new values.
#pragma once

#include "plugin/register.h"

namespace habana {

extern const KernelFunctions kVariableOp;

}  // namespace habana
