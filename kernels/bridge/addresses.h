// Launches and tensors on addresses, for a front end in Python that has its own memory.
#pragma once

#include "bridge/python.h"

namespace habana {

void DefineAddresses(nb::module_& m);

}  // namespace habana
