#include "plugin/handle_variables.h"

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

#include "plugin/stock.h"

namespace habana {

namespace {

constexpr size_t kLocks = 64;

// Variables share them by hash; an op takes those it needs in ascending order.
std::array<std::mutex, kLocks>& g_locks = *new std::array<std::mutex, kLocks>;

size_t LockOf(const TF_Tensor* handle) {
  const std::string_view bytes(static_cast<const char*>(TF_TensorData(handle)), TF_TensorByteSize(handle));
  return std::hash<std::string_view>()(bytes) % kLocks;
}

}  // namespace

// What needs Python's lock, and what stays the same: once, before any lock is taken.
Status HandleVariables::Prepare() {
  HABANA_RETURN_IF_ERROR(GetEagerContext(&context_));
  TfStatus said;
  for (size_t k = 0; k < inputs_.size(); ++k) {
    TensorPtr tensor;
    HABANA_RETURN_IF_ERROR(tensors_->Input(inputs_[k], &tensor));
    locks_.push_back(LockOf(tensor.get()));
    variables_.emplace_back();
    variables_.back().handle = Handle(TFE_NewTensorHandle(tensor.get(), said.get()));
    if (!said.ok()) return FromTf(said.get());
  }
  std::sort(locks_.begin(), locks_.end());
  locks_.erase(std::unique(locks_.begin(), locks_.end()), locks_.end());
  return {};
}

Status HandleVariables::Read(size_t k) {
  Variable& variable = variables_[k];
  TfStatus status;
  variable.memory.reset();
  variable.value.reset();
  variable.read = ReadVariable(context_, kHpu, variable.handle, dtypes_[k], status.get());
  if (!status.ok()) return UnreadVariable(status.get());
  DeviceValue value;
  HABANA_RETURN_IF_ERROR(ValueOf(variable.read, dtypes_[k], &value));
  const auto dtype = static_cast<TF_DataType>(dtypes_[k]);
  const int rank = static_cast<int>(value.dims.size());
  variable.value.reset(value.nbytes == 0 ? TF_AllocateTensor(dtype, value.dims.data(), rank, 0)
                                         : TF_NewTensor(
                                               dtype, value.dims.data(), rank, value.data, value.nbytes,
                                               [](void*, size_t, void*) {}, nullptr));
  return {};
}

Status HandleVariables::Lock() {
  if (inputs_.empty()) return {};
  if (context_ == nullptr) HABANA_RETURN_IF_ERROR(Prepare());
  for (size_t lock : locks_) g_locks[lock].lock();
  locked_ = true;
  const SynchronousOps synchronous(context_);
  for (size_t k = 0; k < variables_.size(); ++k) HABANA_RETURN_IF_ERROR(Read(k));
  return {};
}

Status HandleVariables::Memory(size_t k, bool /*over*/, TF_Tensor** memory) {
  Variable& variable = variables_[k];
  *memory = variable.value.get();
  if (TF_TensorByteSize(variable.value.get()) == 0) return {};
  const std::vector<int64_t> dims = Dims(variable.value.get());
  Status status;
  if (variable.memory == nullptr) {
    status = tensors_->Make({static_cast<int>(TF_TensorType(variable.value.get())), dims,
                             TF_TensorByteSize(variable.value.get())},
                            "the new value of a variable", &variable.memory);
  }
  *memory = variable.memory.get();
  return status;
}

Status HandleVariables::Keep() {
  if (inputs_.empty()) return {};
  const SynchronousOps synchronous(context_);
  TfStatus status;
  for (size_t k = 0; k < variables_.size(); ++k) {
    TF_Tensor* owned = variables_[k].memory.release();
    if (owned == nullptr) continue;
    const std::vector<int64_t> dims = Dims(owned);
    // The handle owns the tensor from here on, and with it the variable it is assigned to.
    const Handle value(TFE_NewTensorHandleFromDeviceMemory(
        context_, kHpu, TF_TensorType(owned), dims.data(), static_cast<int>(dims.size()),
        TF_TensorData(owned), TF_TensorByteSize(owned),
        [](void*, size_t, void* owner) { TF_DeleteTensor(static_cast<TF_Tensor*>(owner)); }, owned,
        status.get()));
    if (status.ok()) AssignVariable(context_, kHpu, variables_[k].handle, value, dtypes_[k], status.get());
    if (!status.ok()) return FromTf(status.get());
  }
  return {};
}

void HandleVariables::Yield() {
  if (!locked_) return;
  locked_ = false;
  for (size_t lock : locks_) g_locks[lock].unlock();
}

// The values as they were are held meanwhile: another value has other memory.
Status HandleVariables::LockAgain(bool* same) {
  std::vector<std::pair<Handle, TensorPtr>> before;
  for (Variable& variable : variables_)
    before.emplace_back(std::move(variable.read), std::move(variable.value));
  const Status status = Lock();
  *same = true;
  for (size_t k = 0; k < variables_.size() && status.ok(); ++k) {
    const TF_Tensor* had = before[k].second.get();
    *same = *same && (TF_TensorByteSize(had) == 0 || TF_TensorData(value(k)) == TF_TensorData(had));
  }
  return status;
}

void HandleVariables::Unlock() {
  Yield();
  for (Variable& variable : variables_) {
    variable.memory.reset();
    variable.value.reset();
    variable.read = Handle();
  }
}

}  // namespace habana
