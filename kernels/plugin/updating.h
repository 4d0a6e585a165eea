// What launches and ops on variables share when they update variables.
#pragma once

#include <functional>

#include "plugin/executor.h"
#include "plugin/updated_variables.h"

namespace habana {

// An error if output `k` of a program, a variable's new value, has not the shape of its present one.
Status SameShape(const TF_Tensor* value, const Program& program, size_t k);

// The program for the inputs as they are, which `add` gives the execution. With variables: holds their locks
// when it returns one.
template <typename Add>
Status FindLocked(UpdatedVariables* variables, Execution* execution, Add add) {
  for (;;) {
    Status status = variables->Lock();
    if (status.ok()) status = add();
    if (!status.ok() || (!variables->empty() && execution->FindKnown())) return status;
    variables->Unlock();  // compiling takes the GIL
    status = execution->Find();
    if (!status.ok() || variables->empty()) return status;
  }
}

// Runs a program that takes the GIL without the variables' locks, until they still have the values that it
// read; then they are locked. moved: gives the execution the values that they have now.
Status RunYielded(UpdatedVariables* variables, Execution* execution, const std::function<Status()>& moved);

}  // namespace habana
