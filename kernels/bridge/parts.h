// What the parts of the bridge define in its module; each says at its head what that is.
#pragma once

#include "bridge/python.h"

namespace habana {

void DefineAddresses(nb::module_& m);
void DefineHooks(nb::module_& m);
void DefineKernelCalls(nb::module_& m);
void DefinePrograms(nb::module_& m);
void DefineUndisturbed(nb::module_& m);

// Whether there is an object whose methods native code calls.
bool Attached();

}  // namespace habana
