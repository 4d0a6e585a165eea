// The variables that a launch updates where they are.
//
// What: while they are locked, a launch has the memory of each to itself. Where somebody else holds the old
// value (a read of it that is still in use), the variable gets a copy first, and he keeps the old.
//
// Why: a step that reads a variable and assigns a new tensor touches twice the memory, and holds it.
#pragma once

#include <vector>

#include "plugin/tensors.h"

struct TF_VariableInputLockHolder;

namespace habana {

class UpdatedVariables {
 public:
  // inputs: those of the op that are handles of the variables. Both outlive this.
  UpdatedVariables(Tensors* tensors, const std::vector<int>& inputs) : tensors_(tensors), inputs_(inputs) {}
  ~UpdatedVariables() { Unlock(); }
  UpdatedVariables(const UpdatedVariables&) = delete;
  UpdatedVariables& operator=(const UpdatedVariables&) = delete;

  // Whether this TensorFlow lets a plugin do so: some export no functions for it.
  static bool Possible();

  bool empty() const { return inputs_.empty(); }
  // Waits for all who read or assign one of them now; after it they wait.
  Status Lock();
  // Others may read and assign them again; the values are kept, and nobody updates these.
  void Yield();
  void Unlock();
  // The value of variable `k`, while it is locked.
  TF_Tensor* value(size_t k) const { return values_[k].get(); }

 private:
  Tensors* tensors_;
  const std::vector<int>& inputs_;
  TF_VariableInputLockHolder* locks_ = nullptr;
  std::vector<TensorPtr> values_;
};

}  // namespace habana
