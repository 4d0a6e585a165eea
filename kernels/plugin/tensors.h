// The tensors of one call of a kernel: inputs, outputs, and memory for the time of the call.
//
// Sizes that the card or its host can never hold are refused before TensorFlow's allocator is called, which
// would wait ten seconds for memory to be freed. `Explained` makes the message of a shortage; it takes the
// GIL, so its caller must hold no lock.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugin/status.h"
#include "tensorflow_c/kernels.h"

namespace habana {

struct TensorDeleter {
  void operator()(TF_Tensor* tensor) const { TF_DeleteTensor(tensor); }
};
// Our reference to a tensor; TensorFlow's own stay when it goes.
using TensorPtr = std::unique_ptr<TF_Tensor, TensorDeleter>;

std::vector<int64_t> Dims(const TF_Tensor* tensor);

// A copy that TensorFlow's CPU kernels may take for theirs.
TensorPtr HostCopy(const TF_Tensor* tensor);

// What a tensor is to be.
struct TensorSpec {
  TensorSpec(int type, const std::vector<int64_t>& extents, size_t bytes)
      : TensorSpec(type, extents.data(), extents.size(), bytes) {}
  TensorSpec(int type, const int64_t* extents, size_t num_extents, size_t bytes)
      : dtype(static_cast<TF_DataType>(type)),
        dims(extents),
        rank(static_cast<int>(num_extents)),
        nbytes(bytes) {}
  TF_DataType dtype;
  const int64_t* dims;  // not owned
  int rank;
  size_t nbytes;
};

class Tensors {
 public:
  explicit Tensors(TF_OpKernelContext* ctx) : ctx_(ctx) {}
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  TF_OpKernelContext* ctx() const { return ctx_; }

  // Input `i` of the op. While a reference is held, no output can take over its buffer.
  Status Input(int i, TensorPtr* tensor);

  // Memory for output `at` of the op: that of one of the inputs `candidates`, of the same type and shape, if
  // nothing else holds it, or new.
  Status Output(int at, const TensorSpec& spec, const int* candidates, int count, char** data);

  // New memory for output `at`, which is like another tensor.
  Status OutputLike(int at, const TF_Tensor* tensor, char** data) {
    const std::vector<int64_t> dims = Dims(tensor);
    return Output(at, {static_cast<int>(TF_TensorType(tensor)), dims, TF_TensorByteSize(tensor)}, nullptr, 0,
                  data);
  }

  // Device memory for the time of this call, 64-byte aligned; null for no bytes.
  Status Temporary(size_t nbytes, const char* what, char** data);

  // A tensor of device memory that outlives this call.
  Status Make(const TensorSpec& spec, const char* what, TensorPtr* tensor);

  // Keeps a tensor until the end of this call.
  TF_Tensor* Keep(TensorPtr tensor);

  // A failed status as the user shall see it: one that tells of a lack of memory says which launch asked for
  // what, and what is in use. Call it without locks.
  Status Explained(Status status, const std::string& name) const;

 private:
  template <typename Ask>
  Status Take(size_t nbytes, const char* what, int index, Ask ask, TensorPtr* tensor);

  // What there was no memory for.
  struct Lack {
    std::string what;
    size_t asked = 0;
    bool of_host = false;
  };

  TF_OpKernelContext* ctx_;
  TfStatus status_;
  std::vector<TensorPtr> kept_;
  Lack lack_;
};

}  // namespace habana
