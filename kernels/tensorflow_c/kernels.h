// TensorFlow's C interface: registration of kernels, and what a kernel sees of its op (see status.h).
#pragma once

#include "tensorflow_c/status.h"
#include "tensorflow_c/tensor.h"

extern "C" {

struct TF_KernelBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;

// ---- registration ----

TF_KernelBuilder* TF_NewKernelBuilder(const char* op, const char* device,
                                      void* (*create)(TF_OpKernelConstruction* ctx),
                                      void (*compute)(void* kernel, TF_OpKernelContext* ctx),
                                      void (*destroy)(void* kernel));
void TF_DeleteKernelBuilder(TF_KernelBuilder* builder);
void TF_KernelBuilder_TypeConstraint(TF_KernelBuilder* builder, const char* attr, TF_DataType dtype,
                                     TF_Status* status);
void TF_KernelBuilder_HostMemory(TF_KernelBuilder* builder, const char* argument);
void TF_KernelBuilder_Priority(TF_KernelBuilder* builder, int32_t priority);
void TF_RegisterKernelBuilder(const char* kernel, TF_KernelBuilder* builder, TF_Status* status);

// ---- construction ----

void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction* ctx, TF_Status* status);
TF_Buffer* TF_OpKernelConstruction_GetNodeDef(TF_OpKernelConstruction* ctx, TF_Status* status);
void TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction* ctx, const char* attr, int32_t* list_size,
                                         int32_t* total_size, TF_Status* status);
void TF_OpKernelConstruction_GetAttrInt32(TF_OpKernelConstruction* ctx, const char* attr, int32_t* value,
                                          TF_Status* status);
void TF_OpKernelConstruction_GetAttrFloat(TF_OpKernelConstruction* ctx, const char* attr, float* value,
                                          TF_Status* status);
void TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction* ctx, const char* attr, char* value,
                                           size_t most, TF_Status* status);
void TF_OpKernelConstruction_GetAttrTypeList(TF_OpKernelConstruction* ctx, const char* attr,
                                             TF_DataType* values, int most, TF_Status* status);
void TF_OpKernelConstruction_GetAttrInt64List(TF_OpKernelConstruction* ctx, const char* attr, int64_t* values,
                                              int most, TF_Status* status);

// ---- computing ----

int TF_NumInputs(TF_OpKernelContext* ctx);
int TF_NumOutputs(TF_OpKernelContext* ctx);
void TF_GetInput(TF_OpKernelContext* ctx, int i, TF_Tensor** tensor, TF_Status* status);
void TF_SetOutput(TF_OpKernelContext* ctx, int i, const TF_Tensor* tensor, TF_Status* status);
bool TF_IsHostMemoryOutput(TF_OpKernelContext* ctx, int i, TF_Status* status);
void TF_OpKernelContext_Failure(TF_OpKernelContext* ctx, TF_Status* status);
TF_Tensor* TF_AllocateOutput(TF_OpKernelContext* ctx, int i, TF_DataType dtype, const int64_t* dims, int rank,
                             size_t nbytes, TF_Status* status);
TF_Tensor* TF_ForwardInputOrAllocateOutput(TF_OpKernelContext* ctx, const int* candidates, int num_candidates,
                                           int i, const int64_t* dims, int rank, int* forwarded,
                                           TF_Status* status);
TF_Tensor* TF_AllocateTemp(TF_OpKernelContext* ctx, TF_DataType dtype, const int64_t* dims, int rank,
                           TF_AllocatorAttributes* attributes, TF_Status* status);

// ---- variables: not in the wheels from 2.19 on (plugin/updated_variables.cc) ----

struct TF_VariableInputLockHolder;

void TF_MaybeLockVariableInputMutexesInOrder(TF_OpKernelContext* ctx, bool lock, bool sparse,
                                             const int* inputs, size_t num_inputs,
                                             void (*copy)(TF_OpKernelContext* ctx, TF_Tensor* from,
                                                          TF_Tensor* to),
                                             TF_VariableInputLockHolder** holder, TF_Status* status);
void TF_GetInputTensorFromVariable(TF_OpKernelContext* ctx, int input, bool lock_held, bool is_variant,
                                   bool sparse,
                                   void (*copy)(TF_OpKernelContext* ctx, TF_Tensor* from, TF_Tensor* to),
                                   TF_Tensor** out, TF_Status* status);
void TF_ReleaseVariableInputLockHolder(TF_VariableInputLockHolder* holder);

void TF_InitKernel();

}  // extern "C"
