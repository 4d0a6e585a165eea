// What Python holds of a program.
#pragma once

#include "bridge/python.h"
#include "runtime/program.h"

namespace habana {

// A program as an object of Python's, which owns it.
struct OwnedProgram {
  ProgramPtr program;
};

}  // namespace habana
