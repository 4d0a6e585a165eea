// Variables that a kernel updates where TensorFlow lets a plugin take no mutex of them (updated_variables.h):
// under locks of ours, read and assigned through their handles by nested eager ops.
//
// Readers take no such lock and need none: a new value is in memory of its own, and is assigned as a whole.
#pragma once

#include <vector>

#include "plugin/eager.h"
#include "plugin/updated_variables.h"

namespace habana {

class HandleVariables : public UpdatedVariables {
 public:
  HandleVariables(Tensors* tensors, const std::vector<int>& inputs, const std::vector<int>& dtypes)
      : UpdatedVariables(tensors, inputs), dtypes_(dtypes) {}
  ~HandleVariables() override { HandleVariables::Unlock(); }

  Status Lock() override;
  TF_Tensor* value(size_t k) const override { return variables_[k].value.get(); }
  Status Memory(size_t k, bool over, TF_Tensor** memory) override;
  Status Keep() override;
  void Yield() override;
  Status LockAgain(bool* same) override;
  void Unlock() override;

 private:
  struct Variable {
    Handle handle;
    Handle read;  // holds the memory of `value`
    TensorPtr value;
    TensorPtr memory;
  };

  Status Prepare();
  Status Read(size_t k);

  const std::vector<int>& dtypes_;
  TFE_Context* context_ = nullptr;
  std::vector<size_t> locks_;  // by number, ascending
  bool locked_ = false;
  std::vector<Variable> variables_;
};

}  // namespace habana
