/* Kernels in C for the simulated Gaudi: what a library of them has to export, and what its functions get.
 *
 *     habana-tf build-kernel my_kernel.c -o my_kernel.so
 *     library = habana_tf.load_op_library("my_kernel.so")        y = library.my_op(x)
 *
 * A kernel is called from a launch, on the threads of the runtime: `run` does the work items from `begin` to
 * `end`, and several threads do so at a time, each other ones. It reads its inputs, writes all of its
 * outputs, and nothing else: no allocation is needed (ask for a workspace), no lock, no state from one call
 * to the next. Work items may be cut differently from call to call, so what an item gives must not depend on
 * how they are cut.
 *
 * Tensors are row-major and lie at an address that is a multiple of their element's size, of 64 where they
 * are not a part of another tensor and kernels are not checked; a workspace lies at one of 64 always. They
 * must not be read or written beyond their ends. Denormals are flushed to zero. In C++, an exception that
 * leaves one of the functions makes the launch an error.
 *
 * This is version 1. A library says for which version it was compiled, and is refused where that is not this
 * one.
 */
#ifndef HABANA_KERNEL_H_
#define HABANA_KERNEL_H_

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define HABANA_KERNEL_ABI 1
#define HABANA_MAX_RANK 8

#ifdef __cplusplus
extern "C" {
#endif

/* Element types, by TensorFlow's numbers. A bool is a byte, 0 or 1. */
enum {
  HABANA_FLOAT = 1,
  HABANA_INT32 = 3,
  HABANA_UINT8 = 4,
  HABANA_INT16 = 5,
  HABANA_INT8 = 6,
  HABANA_INT64 = 9,
  HABANA_BOOL = 10,
  HABANA_BFLOAT16 = 14,
  HABANA_UINT16 = 17,
  HABANA_UINT32 = 22,
  HABANA_UINT64 = 23
};

typedef struct habana_tensor {
  void* data; /* NULL where only shapes are asked about */
  const int64_t* shape;
  int32_t rank;
  int32_t dtype;
} habana_tensor;

/* An attribute: `ints` of kind int, bool and list(int), `floats` of kind float and list(float), `text` of a
 * string. */
typedef struct habana_attr {
  const char* name;
  const int64_t* ints;
  const double* floats;
  const char* text;
  int64_t count;
} habana_attr;

/* What a function is called with. No function changes it, or keeps an address that is in it. */
typedef struct habana_call {
  uint32_t abi;
  int32_t num_inputs;
  int32_t num_outputs;
  int32_t num_attrs;
  const habana_tensor* inputs;
  const habana_tensor* outputs; /* NULL for `shape` */
  const habana_attr* attrs;
  int64_t items;   /* what `items` said */
  void* workspace; /* of `workspace_bytes`, shared by all work items, not initialised */
  int64_t workspace_bytes;
  char* error; /* room for a message, for habana_fail */
  int64_t error_size;
} habana_call;

/* An op with its kernel. Functions return 0, or what `habana_fail` returned. */
typedef struct habana_kernel {
  /* The op's name, and what it takes and gives: "x: T, box: float", "y: T", "T: {float, bfloat16}, k: int =
   * 3". With `inputs` NULL it is an op that TensorFlow has; `attrs` then has only its types: "T: {float}". */
  const char* op;
  const char* inputs;
  const char* outputs;
  const char* attrs;
  /* The outputs' shapes as text: "x[:-1], k" (docs/custom-ops.md), or NULL with `shape` below. */
  const char* shapes;
  /* The outputs' shapes by a function: shapes[i][axis] and ranks[i] of output i. NULL with `shapes` above. */
  int (*shape)(const habana_call* call, int64_t (*shapes)[HABANA_MAX_RANK], int32_t* ranks);
  /* The list of the built-in bf16 configurations that the op is in: "allow", "conditional", "strict" or NULL.
   */
  const char* bf16;
  /* How many work items there are; NULL: one. Data are not there yet, nor is the workspace. */
  int64_t (*items)(const habana_call* call);
  /* Bytes of the workspace; NULL: none. */
  int64_t (*workspace)(const habana_call* call);
  int (*run)(const habana_call* call, int64_t begin, int64_t end);
} habana_kernel;

typedef struct habana_library {
  uint32_t abi;
  uint32_t kernel_size; /* bytes of a habana_kernel, as the library has it */
  int64_t count;
  const habana_kernel* const* kernels;
} habana_library;

#define HABANA_EXPORT __attribute__((visibility("default")))

/* HABANA_KERNELS(&one, &two) at the end of one source of a library: its kernels. */
#ifdef __cplusplus
#define HABANA_EXTERN_C extern "C"
#else
#define HABANA_EXTERN_C
#endif
#define HABANA_KERNELS(...)                                                                    \
  HABANA_EXTERN_C HABANA_EXPORT const habana_library* habana_kernels(void);                    \
  HABANA_EXTERN_C HABANA_EXPORT const habana_library* habana_kernels(void) {                   \
    static const habana_kernel* const all[] = {__VA_ARGS__};                                   \
    static const habana_library library = {HABANA_KERNEL_ABI, (uint32_t)sizeof(habana_kernel), \
                                           (int64_t)(sizeof(all) / sizeof(all[0])), all};      \
    return &library;                                                                           \
  }

/* Says what is wrong, as printf would, and gives what the function is to return. */
__attribute__((format(printf, 2, 3))) static inline int habana_fail(const habana_call* call,
                                                                    const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (call->error != NULL && call->error_size > 0)
    vsnprintf(call->error, (size_t)call->error_size, format, arguments);
  va_end(arguments);
  return 1;
}

/* An attribute by name; NULL where there is none. */
static inline const habana_attr* habana_find(const habana_call* call, const char* name) {
  for (int32_t k = 0; k < call->num_attrs; ++k) {
    if (strcmp(call->attrs[k].name, name) == 0) return &call->attrs[k];
  }
  return NULL;
}

/* An attribute that is one number; 0 where there is none. */
static inline int64_t habana_int(const habana_call* call, const char* name) {
  const habana_attr* attr = habana_find(call, name);
  return attr != NULL && attr->ints != NULL && attr->count > 0 ? attr->ints[0] : 0;
}
static inline double habana_float(const habana_call* call, const char* name) {
  const habana_attr* attr = habana_find(call, name);
  return attr != NULL && attr->floats != NULL && attr->count > 0 ? attr->floats[0] : 0.0;
}

/* Elements of axes `begin` to `end` of a tensor. */
static inline int64_t habana_extent(const habana_tensor* tensor, int32_t begin, int32_t end) {
  int64_t product = 1;
  for (int32_t axis = begin; axis < end; ++axis) product *= tensor->shape[axis];
  return product;
}
static inline int64_t habana_elements(const habana_tensor* tensor) {
  return habana_extent(tensor, 0, tensor->rank);
}

/* bfloat16 is the upper half of a float; it is rounded to nearest even. */
static inline float habana_from_bfloat16(uint16_t value) {
  const uint32_t bits = (uint32_t)value << 16;
  float out;
  memcpy(&out, &bits, sizeof(out));
  return out;
}
static inline uint16_t habana_to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u); /* NaN stays one */
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* Element `index` of a tensor of float or bfloat16. */
static inline float habana_read(const habana_tensor* tensor, int64_t index) {
  if (tensor->dtype == HABANA_BFLOAT16) return habana_from_bfloat16(((const uint16_t*)tensor->data)[index]);
  return ((const float*)tensor->data)[index];
}
static inline void habana_write(const habana_tensor* tensor, int64_t index, float value) {
  if (tensor->dtype == HABANA_BFLOAT16) {
    ((uint16_t*)tensor->data)[index] = habana_to_bfloat16(value);
  } else {
    ((float*)tensor->data)[index] = value;
  }
}

#ifdef __cplusplus
}
#endif

#endif /* HABANA_KERNEL_H_ */
