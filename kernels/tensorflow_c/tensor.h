// TensorFlow's C interface: element types, tensors, buffers of bytes (see status.h).
#pragma once

#include <cstddef>
#include <cstdint>

typedef unsigned char TF_Bool;

extern "C" {

enum TF_DataType : unsigned {
  TF_UINT8 = 4,
  TF_STRING = 7,
  TF_RESOURCE = 20,
  TF_VARIANT = 21,
};

struct TF_Tensor;

TF_Tensor* TF_NewTensor(TF_DataType dtype, const int64_t* dims, int rank, void* data, size_t nbytes,
                        void (*deallocator)(void* data, size_t nbytes, void* arg), void* arg);
TF_Tensor* TF_AllocateTensor(TF_DataType dtype, const int64_t* dims, int rank, size_t nbytes);
void TF_DeleteTensor(TF_Tensor* tensor);
TF_DataType TF_TensorType(const TF_Tensor* tensor);
int TF_NumDims(const TF_Tensor* tensor);
int64_t TF_Dim(const TF_Tensor* tensor, int axis);
size_t TF_TensorByteSize(const TF_Tensor* tensor);
void* TF_TensorData(const TF_Tensor* tensor);
int64_t TF_TensorElementCount(const TF_Tensor* tensor);
bool TF_TensorIsAligned(const TF_Tensor* tensor);

struct TF_Buffer {
  const void* data;
  size_t length;
  void (*data_deallocator)(void* data, size_t length);
};

TF_Buffer* TF_NewBuffer(void);
void TF_DeleteBuffer(TF_Buffer* buffer);

struct TF_AllocatorAttributes {
  size_t struct_size;
  TF_Bool on_host;
};
inline constexpr size_t TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE =
    offsetof(TF_AllocatorAttributes, on_host) + sizeof(TF_Bool);

}  // extern "C"
