#include "plugin/updated_variables.h"

#include <string>
#include <utility>

#include "plugin/copies.h"
#include "plugin/handle_variables.h"
#include "tensorflow_c/kernels.h"

#pragma weak TF_GetInputTensorFromVariable
#pragma weak TF_MaybeLockVariableInputMutexesInOrder
#pragma weak TF_ReleaseVariableInputLockHolder

namespace habana {

namespace {

// The value that a variable had before TensorFlow gave it new memory, on this thread.
thread_local TensorPtr t_replaced;

void CopyValue(TF_Tensor* dest, TF_Tensor* source) {
  if (TF_TensorByteSize(source) == 0 || TF_TensorData(dest) == TF_TensorData(source)) return;
  RecordedCopy(EventKind::kOnCard, TF_TensorData(dest), TF_TensorData(source), TF_TensorByteSize(source));
}

// Under TensorFlow's mutexes.
class MutexVariables : public UpdatedVariables {
 public:
  MutexVariables(Tensors* tensors, const std::vector<int>& inputs) : UpdatedVariables(tensors, inputs) {}
  ~MutexVariables() override { MutexVariables::Unlock(); }

  Status Lock() override;
  TF_Tensor* value(size_t k) const override { return variables_[k].value.get(); }
  Status Memory(size_t k, bool over, TF_Tensor** memory) override;
  Status Keep() override {
    kept_ = true;
    return {};
  }
  void Yield() override;
  Status LockAgain(bool* same) override;
  void Unlock() override;

 private:
  struct Variable {
    TensorPtr value;
    TensorPtr memory;        // the variable's, where that is not the memory of `value`
    int twin = -1;           // an input before this one that is the same variable
    bool is_former = false;  // a later one is
  };

  static void Replace(TF_OpKernelContext* ctx, TF_Tensor* source, TF_Tensor* dest);
  Status Get(size_t k, Variable* variable);
  int Twin(size_t k, const TF_Tensor* memory) const;
  TF_Tensor* FirstRead(size_t k) const;

  TF_VariableInputLockHolder* locks_ = nullptr;
  std::vector<Variable> variables_;
  bool kept_ = false;
};

// TensorFlow hands over both tensors, and wants the one copied to the other. The new value is written there
// instead.
void MutexVariables::Replace(TF_OpKernelContext* /*ctx*/, TF_Tensor* source, TF_Tensor* dest) {
  t_replaced.reset(source);
  TF_DeleteTensor(dest);
}

// Reads variable `k`, which is locked; a value that something else holds leaves it for new memory.
Status MutexVariables::Get(size_t k, Variable* variable) {
  TfStatus status;
  TF_Tensor* value = nullptr;
  t_replaced.reset();
  TF_GetInputTensorFromVariable(tensors_->ctx(), inputs_[k], /*lock_held=*/true, /*isVariantType=*/false,
                                /*sparse=*/false, Replace, &value, status.get());
  TensorPtr got(value);
  TensorPtr replaced = std::move(t_replaced);
  if (!status.ok()) return FromTf(status.get());
  // Of a variable that is not there TensorFlow's context knows already, and its message stays the first.
  if (got == nullptr) {
    return Status(Code::kInternal,
                  "input " + std::to_string(inputs_[k]) + " is not a variable that can be updated");
  }
  variable->memory = replaced != nullptr ? std::move(got) : nullptr;
  variable->value = std::move(replaced != nullptr ? replaced : got);
  return {};
}

// The input before `k` that is the same variable: the one that has this memory now.
int MutexVariables::Twin(size_t k, const TF_Tensor* memory) const {
  for (size_t j = 0; j < k && TF_TensorByteSize(memory) > 0; ++j) {
    const Variable& known = variables_[j];
    const TF_Tensor* has = known.memory != nullptr ? known.memory.get() : known.value.get();
    if (TF_TensorData(memory) == TF_TensorData(has)) return static_cast<int>(j);
  }
  return -1;
}

// What variable `k` had when it was locked, also where another input is the same variable.
TF_Tensor* MutexVariables::FirstRead(size_t k) const {
  while (variables_[k].twin >= 0) k = static_cast<size_t>(variables_[k].twin);
  return value(k);
}

Status MutexVariables::Lock() {
  if (inputs_.empty()) return {};
  TfStatus status;
  TF_MaybeLockVariableInputMutexesInOrder(tensors_->ctx(), /*do_lock=*/true, /*sparse=*/false, inputs_.data(),
                                          inputs_.size(), Replace, &locks_, status.get());
  if (!status.ok()) return FromTf(status.get());
  kept_ = false;
  variables_.clear();
  for (size_t k = 0; k < inputs_.size(); ++k) {
    Variable variable;
    HABANA_RETURN_IF_ERROR(Get(k, &variable));
    variable.twin = variable.memory == nullptr ? -1 : Twin(k, variable.value.get());
    if (variable.twin >= 0) {  // each has the value for itself, and the last new value stays
      Variable& twin = variables_[static_cast<size_t>(variable.twin)];
      CopyValue(variable.memory.get(), twin.value.get());
      variable.value = std::move(variable.memory);
      twin.is_former = true;
    }
    variables_.push_back(std::move(variable));
  }
  return {};
}

Status MutexVariables::Memory(size_t k, bool over, TF_Tensor** memory) {
  Variable& variable = variables_[k];
  if (variable.memory == nullptr && !over && TF_TensorByteSize(variable.value.get()) > 0) {
    Variable again;  // of a value that is held, here by us
    HABANA_RETURN_IF_ERROR(Get(k, &again));
    variable.memory = std::move(again.memory);
  }
  *memory = variable.memory != nullptr ? variable.memory.get() : variable.value.get();
  return {};
}

void MutexVariables::Yield() {
  if (locks_ == nullptr) return;
  for (Variable& variable : variables_) {
    if (kept_ || variable.memory == nullptr) continue;
    CopyValue(variable.memory.get(), variable.value.get());
    variable.value = std::move(variable.memory);  // what the variable has from here on, to be compared
  }
  TF_ReleaseVariableInputLockHolder(locks_);
  locks_ = nullptr;
}

// The values as they were are held meanwhile: another value has other memory, and so may have the same.
Status MutexVariables::LockAgain(bool* same) {
  const std::vector<Variable> before = std::move(variables_);
  const Status status = Lock();
  *same = true;
  for (size_t k = 0; k < variables_.size() && status.ok(); ++k) {
    if (before[k].is_former || TF_TensorByteSize(before[k].value.get()) == 0) continue;
    *same = *same && TF_TensorData(FirstRead(k)) == TF_TensorData(before[k].value.get());
  }
  return status;
}

void MutexVariables::Unlock() {
  Yield();
  variables_.clear();
}

}  // namespace

bool UpdatedVariables::ByMutex() {
  return TF_GetInputTensorFromVariable != nullptr && TF_MaybeLockVariableInputMutexesInOrder != nullptr &&
         TF_ReleaseVariableInputLockHolder != nullptr;
}

std::unique_ptr<UpdatedVariables> UpdatedVariables::Of(Tensors* tensors, const std::vector<int>& inputs,
                                                       const std::vector<int>& dtypes) {
  if (ByMutex()) return std::make_unique<MutexVariables>(tensors, inputs);
  return std::make_unique<HandleVariables>(tensors, inputs, dtypes);
}

}  // namespace habana
