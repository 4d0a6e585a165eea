// TensorFlow's C interface: ops that are run eagerly on a context (see status.h).
#pragma once

#include "tensorflow_c/status.h"
#include "tensorflow_c/tensor.h"

extern "C" {

struct TFE_Context;
struct TFE_Executor;
struct TFE_Op;
struct TFE_TensorHandle;

TFE_TensorHandle* TFE_NewTensorHandle(const TF_Tensor* tensor, TF_Status* status);
TFE_TensorHandle* TFE_NewTensorHandleFromDeviceMemory(
    TFE_Context* ctx, const char* device, TF_DataType dtype, const int64_t* dims, int rank, void* data,
    size_t nbytes, void (*deallocator)(void* data, size_t nbytes, void* arg), void* arg, TF_Status* status);
void TFE_DeleteTensorHandle(TFE_TensorHandle* handle);
int TFE_TensorHandleNumDims(TFE_TensorHandle* handle, TF_Status* status);
int64_t TFE_TensorHandleDim(TFE_TensorHandle* handle, int axis, TF_Status* status);
void* TFE_TensorHandleDevicePointer(TFE_TensorHandle* handle, TF_Status* status);
TF_Tensor* TFE_TensorHandleResolve(TFE_TensorHandle* handle, TF_Status* status);

TFE_Op* TFE_NewOp(TFE_Context* ctx, const char* op, TF_Status* status);
void TFE_DeleteOp(TFE_Op* op);
void TFE_OpSetDevice(TFE_Op* op, const char* device, TF_Status* status);
void TFE_OpAddInput(TFE_Op* op, TFE_TensorHandle* input, TF_Status* status);
void TFE_OpSetAttrString(TFE_Op* op, const char* attr, const void* value, size_t length);
void TFE_OpSetAttrType(TFE_Op* op, const char* attr, TF_DataType value);
void TFE_OpSetAttrShape(TFE_Op* op, const char* attr, const int64_t* dims, int rank, TF_Status* status);
void TFE_OpSetAttrValueProto(const TFE_Op* op, const char* attr, const void* proto, size_t length,
                             TF_Status* status);
void TFE_Execute(TFE_Op* op, TFE_TensorHandle** results, int* num_results, TF_Status* status);

TFE_Executor* TFE_NewExecutor(bool is_async, bool streaming, int in_flight);
void TFE_DeleteExecutor(TFE_Executor* executor);
bool TFE_ExecutorIsAsync(TFE_Executor* executor);
void TFE_ContextSetExecutorForThread(TFE_Context* ctx, TFE_Executor* executor);
TFE_Executor* TFE_ContextGetExecutorForThread(TFE_Context* ctx);

}  // extern "C"
