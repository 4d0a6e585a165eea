#include "plugin/eager.h"

#include "runtime/program.h"

namespace habana {

SynchronousOps::SynchronousOps(TFE_Context* context)
    : context_(context), before_(TFE_ContextGetExecutorForThread(context)) {
  if (!TFE_ExecutorIsAsync(before_)) return;
  mine_ =
      TFE_NewExecutor(/*is_async=*/false, /*enable_streaming_enqueue=*/false, /*in_flight_nodes_limit=*/0);
  TFE_ContextSetExecutorForThread(context_, mine_);
}

SynchronousOps::~SynchronousOps() {
  if (mine_ != nullptr) {
    TFE_ContextSetExecutorForThread(context_, before_);
    TFE_DeleteExecutor(mine_);
  }
  TFE_DeleteExecutor(before_);
}

EagerOp::EagerOp(TFE_Context* context, const char* op, const char* device, TF_Status* status)
    : status_(status), op_(nullptr) {
  if (TF_GetCode(status_) != TF_OK) return;
  op_ = TFE_NewOp(context, op, status_);
  if (ok()) TFE_OpSetDevice(op_, device, status_);
}

EagerOp::~EagerOp() {
  if (op_ != nullptr) TFE_DeleteOp(op_);
}

EagerOp& EagerOp::Input(const Handle& handle) {
  if (ok()) TFE_OpAddInput(op_, handle.get(), status_);
  return *this;
}

EagerOp& EagerOp::Type(const char* attr, int dtype) {
  if (ok()) TFE_OpSetAttrType(op_, attr, static_cast<TF_DataType>(dtype));
  return *this;
}

EagerOp& EagerOp::String(const char* attr, const std::string& value) {
  if (ok()) TFE_OpSetAttrString(op_, attr, value.data(), value.size());
  return *this;
}

EagerOp& EagerOp::Proto(const std::string& attr, const std::string& value) {
  if (ok()) TFE_OpSetAttrValueProto(op_, attr.c_str(), value.data(), value.size(), status_);
  return *this;
}

EagerOp& EagerOp::UnknownShape(const char* attr) {
  if (ok()) TFE_OpSetAttrShape(op_, attr, nullptr, -1, status_);
  return *this;
}

std::vector<Handle> EagerOp::Run(int num_results) {
  std::vector<Handle> results;
  if (!ok()) return results;
  std::vector<TFE_TensorHandle*> raw(static_cast<size_t>(num_results) + 1, nullptr);
  int count = num_results;
  TFE_Execute(op_, raw.data(), &count, status_);
  if (!ok()) return results;
  for (int i = 0; i < count; ++i) results.emplace_back(raw[static_cast<size_t>(i)]);
  return results;
}

Handle ReadVariable(TFE_Context* context, const char* device, const Handle& variable, int dtype,
                    TF_Status* status) {
  std::vector<Handle> results =
      EagerOp(context, "ReadVariableOp", device, status).Input(variable).Type("dtype", dtype).Run(1);
  return results.empty() ? Handle() : std::move(results[0]);
}

Status UnreadVariable(TF_Status* status) {
  Status failed = FromTf(status);
  failed.message +=
      " [an op on HPU variables that runs outside a launch reads them through TensorFlow's "
      "eager context; it cannot see the variables of a TF1 session]";
  return failed;
}

Status ValueOf(const Handle& handle, int dtype, DeviceValue* value) {
  TfStatus status;
  const int rank = TFE_TensorHandleNumDims(handle.get(), status.get());
  value->nbytes = DataTypeSize(dtype);
  for (int d = 0; d < rank; ++d) {
    value->dims.push_back(TFE_TensorHandleDim(handle.get(), d, status.get()));
    value->nbytes *= static_cast<size_t>(value->dims.back());
  }
  if (value->nbytes > 0)
    value->data = static_cast<char*>(TFE_TensorHandleDevicePointer(handle.get(), status.get()));
  return status.ok() ? Status() : FromTf(status.get());
}

void AssignVariable(TFE_Context* context, const char* device, const Handle& variable, const Handle& value,
                    int dtype, TF_Status* status) {
  EagerOp(context, "AssignVariableOp", device, status)
      .Input(variable)
      .Input(value)
      .Type("dtype", dtype)
      .Run(0);
}

Handle NewVariable(TFE_Context* context, const char* device, int dtype, TF_Status* status) {
  // ResourceHandle::ANONYMOUS_NAME of tensorflow/core/framework/resource_handle.h.
  std::vector<Handle> results = EagerOp(context, "VarHandleOp", device, status)
                                    .Type("dtype", dtype)
                                    .UnknownShape("shape")
                                    .String("shared_name", "cd2c89b7-88b7-44c8-ad83-06c2a9158347")
                                    .Run(1);
  return results.empty() ? Handle() : std::move(results[0]);
}

}  // namespace habana
