#include "plugin/updated_variables.h"

#include <string>

#include "plugin/copies.h"
#include "tensorflow/c/kernels_experimental.h"

#pragma weak TF_GetInputTensorFromVariable
#pragma weak TF_MaybeLockVariableInputMutexesInOrder
#pragma weak TF_ReleaseVariableInputLockHolder

namespace habana {

namespace {

// TensorFlow hands over both tensors.
void Copy(TF_OpKernelContext* /*ctx*/, TF_Tensor* source, TF_Tensor* dest) {
  const TensorPtr from(source);
  const TensorPtr to(dest);
  RecordedCopy(EventKind::kOnCard, TF_TensorData(to.get()), TF_TensorData(from.get()),
               TF_TensorByteSize(from.get()));
}

}  // namespace

bool UpdatedVariables::Possible() {
  return TF_GetInputTensorFromVariable != nullptr && TF_MaybeLockVariableInputMutexesInOrder != nullptr &&
         TF_ReleaseVariableInputLockHolder != nullptr;
}

Status UpdatedVariables::Lock() {
  if (inputs_.empty()) return {};
  TF_OpKernelContext* ctx = tensors_->ctx();
  TfStatus status;
  TF_MaybeLockVariableInputMutexesInOrder(ctx, /*do_lock=*/true, /*sparse=*/false, inputs_.data(),
                                          inputs_.size(), Copy, &locks_, status.get());
  if (!status.ok()) return FromTf(status.get());
  for (int input : inputs_) {
    TF_Tensor* value = nullptr;
    TF_GetInputTensorFromVariable(ctx, input, /*lock_held=*/true, /*isVariantType=*/false, /*sparse=*/false,
                                  Copy, &value, status.get());
    if (!status.ok()) return FromTf(status.get());
    // Of a variable that is not there TensorFlow's context knows already, and its message stays the first.
    if (value == nullptr) {
      return Status(Code::kInternal,
                    "input " + std::to_string(input) + " is no variable that can be updated");
    }
    values_.emplace_back(value);
  }
  return {};
}

void UpdatedVariables::Yield() {
  if (locks_ != nullptr) TF_ReleaseVariableInputLockHolder(locks_);
  locks_ = nullptr;
}

void UpdatedVariables::Unlock() {
  values_.clear();
  Yield();
}

}  // namespace habana
