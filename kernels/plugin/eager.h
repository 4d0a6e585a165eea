// Calls of TensorFlow ops from inside a kernel, through the C eager API on the user's context.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plugin/status.h"
#include "tensorflow_c/eager.h"

namespace habana {

inline constexpr char kHpu[] = "/device:HPU:0";
inline constexpr char kCpu[] = "/device:CPU:0";

// Owns a TFE_TensorHandle.
class Handle {
 public:
  Handle() = default;
  explicit Handle(TFE_TensorHandle* handle) : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() {
    if (handle_ != nullptr) TFE_DeleteTensorHandle(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  TFE_TensorHandle* get() const { return handle_; }

 private:
  TFE_TensorHandle* handle_ = nullptr;
};

// While in scope, ops that this thread runs are done when their call returns. A kernel may be running on the
// very thread that an asynchronous context would hand them to, and would wait for itself.
class SynchronousOps {
 public:
  explicit SynchronousOps(TFE_Context* context);
  ~SynchronousOps();
  SynchronousOps(const SynchronousOps&) = delete;
  SynchronousOps& operator=(const SynchronousOps&) = delete;

 private:
  TFE_Context* context_;
  TFE_Executor* before_;
  TFE_Executor* mine_ = nullptr;
};

// One op to be run. The first error sticks and makes the rest do nothing.
class EagerOp {
 public:
  EagerOp(TFE_Context* context, const char* op, const char* device, TF_Status* status);
  ~EagerOp();
  EagerOp(const EagerOp&) = delete;
  EagerOp& operator=(const EagerOp&) = delete;

  EagerOp& Input(const Handle& handle);
  EagerOp& Type(const char* attr, int dtype);
  EagerOp& String(const char* attr, const std::string& value);
  EagerOp& UnknownShape(const char* attr);
  EagerOp& Proto(const std::string& attr, const std::string& value);
  std::vector<Handle> Run(int num_results);

 private:
  bool ok() const { return op_ != nullptr && TF_GetCode(status_) == TF_OK; }

  TF_Status* status_;
  TFE_Op* op_;
};

// A variable by its handle.
Handle ReadVariable(TFE_Context* context, const char* device, const Handle& variable, int dtype,
                    TF_Status* status);
// What is said of a variable that could not be read.
Status UnreadVariable(TF_Status* status);

// A tensor on the card. Its memory lives as long as its handle.
struct DeviceValue {
  std::vector<int64_t> dims;
  size_t nbytes = 0;
  char* data = nullptr;
};
Status ValueOf(const Handle& handle, int dtype, DeviceValue* value);

void AssignVariable(TFE_Context* context, const char* device, const Handle& variable, const Handle& value,
                    int dtype, TF_Status* status);
// A variable without a name; it goes with its last handle.
Handle NewVariable(TFE_Context* context, const char* device, int dtype, TF_Status* status);

}  // namespace habana
