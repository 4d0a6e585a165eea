// The calls from native code into Python: methods of one Python object, and what they are given.
#pragma once

#include "bridge/python.h"

namespace habana {

// Whether there is such an object.
bool Attached();

void DefineHooks(nb::module_& m);

}  // namespace habana
