// Statuses at the border between the runtime and TensorFlow's C ABI.
#pragma once

#include <string>

#include "runtime/status.h"
#include "tensorflow_c/kernels.h"
#include "tensorflow_c/status.h"

namespace habana {

// A TF_Status for the calls of one scope.
class TfStatus {
 public:
  TfStatus() : status_(TF_NewStatus()) {}
  ~TfStatus() { TF_DeleteStatus(status_); }
  TfStatus(const TfStatus&) = delete;
  TfStatus& operator=(const TfStatus&) = delete;

  TF_Status* get() const { return status_; }
  bool ok() const { return TF_GetCode(status_) == TF_OK; }
  TF_Code code() const { return TF_GetCode(status_); }

 private:
  TF_Status* status_;
};

inline void Assign(const Status& from, TF_Status* to) {
  TF_SetStatus(to, static_cast<TF_Code>(from.code), from.message.c_str());
}

inline Status FromTf(const TF_Status* from) {
  Status status;
  status.code = static_cast<int>(TF_GetCode(from));
  if (status.code != 0) status.message = TF_Message(from);
  return status;
}

// Ends a kernel's work; a failure is handed to TensorFlow.
inline void Finish(TF_OpKernelContext* ctx, const Status& status) {
  if (status.ok()) return;
  TfStatus tf;
  Assign(status, tf.get());
  TF_OpKernelContext_Failure(ctx, tf.get());
}

}  // namespace habana
