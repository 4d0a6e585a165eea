#include "plugin/tensors.h"

#include <cstring>

#include "plugin/memory.h"
#include "runtime/callbacks.h"
#include "runtime/counters.h"
#include "runtime/host_memory.h"

namespace habana {

std::vector<int64_t> Dims(const TF_Tensor* tensor) {
  std::vector<int64_t> dims(static_cast<size_t>(TF_NumDims(tensor)));
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = TF_Dim(tensor, static_cast<int>(d));
  return dims;
}

TensorPtr HostCopy(const TF_Tensor* tensor) {
  const std::vector<int64_t> dims = Dims(tensor);
  const size_t nbytes = TF_TensorByteSize(tensor);
  TensorPtr copy(
      TF_AllocateTensor(TF_TensorType(tensor), dims.data(), static_cast<int>(dims.size()), nbytes));
  if (nbytes > 0) std::memcpy(TF_TensorData(copy.get()), TF_TensorData(tensor), nbytes);
  return copy;
}

Status Tensors::Input(int i, TensorPtr* tensor) {
  TF_Tensor* raw = nullptr;
  TF_GetInput(ctx_, i, &raw, status_.get());
  tensor->reset(raw);
  if (!status_.ok()) return FromTf(status_.get());
  if (raw == nullptr) return Status(Code::kInternal, "input " + std::to_string(i) + " has no tensor");
  return {};
}

// Asks TensorFlow for memory. `what` it is for, with its number if that is not negative.
template <typename Ask>
Status Tensors::Take(size_t nbytes, const char* what, int index, Ask ask, TensorPtr* tensor) {
  const auto lacking = [&](bool of_host) {
    lack_ = {index < 0 ? what : what + (" " + std::to_string(index)), nbytes, of_host};
    return Status(Code::kResourceExhausted, "no memory for " + lack_.what);
  };
  const Shortage shortage = NeverFits(nbytes);
  if (shortage != Shortage::kNone) return lacking(shortage == Shortage::kHost);
  const std::atomic<int64_t>& refusals = GetCounters().host_memory_refusals;
  const int64_t before = refusals.load(std::memory_order_relaxed);
  tensor->reset(ask(status_.get()));
  if (status_.code() == TF_RESOURCE_EXHAUSTED) return lacking(refusals.load() != before);
  if (!status_.ok()) return FromTf(status_.get());
  if (*tensor == nullptr)
    return Status(Code::kInternal, std::string("TensorFlow gave no tensor for ") + what);
  return {};
}

Status Tensors::Output(int at, const TensorSpec& spec, const int* candidates, int count, char** data) {
  const auto ask = [&](TF_Status* status) {
    if (count == 0) {
      return TF_AllocateOutput(ctx_, at, spec.dtype, spec.dims, spec.rank, spec.nbytes, status);
    }
    int forwarded = -1;
    return TF_ForwardInputOrAllocateOutput(ctx_, candidates, count, at, spec.dims, spec.rank, &forwarded,
                                           status);
  };
  TensorPtr tensor;
  const Status status = Take(spec.nbytes, "output", at, ask, &tensor);
  if (status.ok()) *data = static_cast<char*>(TF_TensorData(Keep(std::move(tensor))));
  return status;
}

Status Tensors::Make(const TensorSpec& spec, const char* what, TensorPtr* tensor) {
  const auto ask = [&](TF_Status* status) {
    TF_AllocatorAttributes attributes;
    attributes.struct_size = TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE;
    attributes.on_host = 0;
    return TF_AllocateTemp(ctx_, spec.dtype, spec.dims, spec.rank, &attributes, status);
  };
  return Take(spec.nbytes, what, -1, ask, tensor);
}

Status Tensors::Temporary(size_t nbytes, const char* what, char** data) {
  *data = nullptr;
  if (nbytes == 0) return {};
  const int64_t dims[1] = {static_cast<int64_t>(nbytes)};
  TensorPtr tensor;
  const Status status = Make({TF_UINT8, dims, 1, nbytes}, what, &tensor);
  if (status.ok()) *data = static_cast<char*>(TF_TensorData(Keep(std::move(tensor))));
  return status;
}

TF_Tensor* Tensors::Keep(TensorPtr tensor) {
  kept_.push_back(std::move(tensor));
  return kept_.back().get();
}

Status Tensors::Explained(Status status, const std::string& name) const {
  if (lack_.what.empty() || status.code != static_cast<int>(Code::kResourceExhausted)) return status;
  std::string usage;
  {
    CallbackScope python;
    if (!python.status().ok() || !python->memory_text(&usage).ok()) {
      usage = "total " + std::to_string(GetCard().hbm_bytes) + " bytes";
    }
  }
  status.message = "HPU:0 is out of memory: " + lack_.what + " of launch '" + name + "' asks for " +
                   std::to_string(lack_.asked) + " bytes; " + usage;
  if (lack_.of_host) {
    const HostMemory host = ReadHostMemory();
    status.message +=
        "; the host memory of this machine ran short first (" + std::to_string(host.available) + " of " +
        std::to_string(host.total) +
        " bytes available): the simulated card is larger than its host. Use a smaller batch or model, "
        "or a host with more memory";
  } else {
    status.message += ". Use a smaller batch or model";
  }
  return status;
}

}  // namespace habana
