// An answer of Python's to C++ that leaves a Python exception as it was.
#pragma once

#include "bridge/python.h"

namespace habana {

void DefineUndisturbed(nb::module_& m);

}  // namespace habana
