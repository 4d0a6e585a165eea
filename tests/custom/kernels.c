/* Kernels for tests: one of each kind of mistake, too. WRONG_ABI and NO_RUN make libraries that are refused. */
#include "habana_kernel.h"

#ifndef FACTOR
#define FACTOR 2
#endif

static int64_t rows(const habana_call* call) { return call->inputs[0].rank ? call->inputs[0].shape[0] : 1; }

static int scale(const habana_call* call, int64_t begin, int64_t end) {
  const habana_tensor* x = &call->inputs[0];
  const int64_t row = habana_extent(x, x->rank ? 1 : 0, x->rank);
  for (int64_t i = begin * row; i < end * row; ++i) {
    habana_write(&call->outputs[0], i, habana_read(x, i) * FACTOR * (float)habana_float(call, "by"));
  }
  return 0;
}
static const habana_kernel scaled = {.op = "NativeScale", .inputs = "x: T", .outputs = "y: T", .shapes = "x",
    .attrs = "T: {float, bfloat16}, by: float = 1.0", .items = rows, .bf16 = "conditional", .run = scale};

/* All that a kernel can be told: numbers, lists, texts, bools, other types and several tensors. */
static int tell(const habana_call* call, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  int64_t* out = (int64_t*)call->outputs[0].data;
  const habana_attr* sizes = habana_find(call, "sizes");
  const habana_attr* text = habana_find(call, "text");
  out[0] = habana_int(call, "k") + (habana_find(call, "none") == NULL);
  out[1] = sizes->count * 100 + sizes->ints[sizes->count - 1];
  out[2] = (int64_t)strlen(text->text);
  out[3] = habana_int(call, "on");
  out[4] = call->num_inputs * 10 + call->num_outputs;
  out[5] = call->inputs[0].dtype * 1000 + call->inputs[1].shape[1];
  out[6] = ((const int32_t*)call->inputs[call->num_inputs - 1].data)[0];
  return 0;
}
static const habana_kernel told = {.op = "NativeTell", .inputs = "x: T, ys: N * float, n: int32", .outputs = "y: int64",
    .attrs = "T: {float, int32, int64, uint8, bool}, k: int = 7, sizes: list(int) = [1, 2, 3], text: string = 'abc', "
             "on: bool = true",
    .shapes = "k", .run = tell};

static int fails(const habana_call* call, int64_t begin, int64_t end) {
  (void)end;
  const int64_t code = habana_int(call, "code");
  if (code == 0) return 0;
  return code == 1 ? habana_fail(call, "item %d is wrong", (int)begin) : (int)code;
}
static const habana_kernel failing = {.op = "NativeFail", .inputs = "x: T", .outputs = "y: T", .shapes = "x",
    .attrs = "T: {float}, code: int = 1", .items = rows, .run = fails};

static int crash(const habana_call* call, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  const int64_t how = habana_int(call, "how"), n = habana_elements(&call->inputs[0]);
  float* x = (float*)call->inputs[0].data;
  volatile float* y = (volatile float*)call->outputs[0].data;
  if (how == 0) y[n] = 1;                       /* behind its output */
  if (how == 1) y[0] = ((volatile float*)x)[n]; /* behind its input */
  if (how == 2) ((volatile float*)x)[0] = 1;    /* an input is not its own */
  if (how == 3) y[0] = *(volatile float*)(intptr_t)16;
  return 0;
}
static const habana_kernel crashing = {.op = "NativeCrash", .inputs = "x: T", .outputs = "y: T", .shapes = "x",
    .attrs = "T: {float}, how: int = 0", .run = crash};

static int bad_shape(const habana_call* call, int64_t (*shapes)[HABANA_MAX_RANK], int32_t* ranks) {
  ranks[0] = 1;
  shapes[0][0] = habana_int(call, "n");
  if (habana_int(call, "n") == 5) return habana_fail(call, "not %d", 5);
  if (habana_int(call, "n") == 6) ranks[0] = 9;
  return 0;
}
static int64_t some(const habana_call* call) { return habana_int(call, "n") == 7 ? -1 : 3; }
static int fill(const habana_call* call, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) ((int64_t*)call->workspace)[k] = k;
  if (begin == 0 && end == 3) {
    for (int64_t k = 0; k < habana_elements(&call->outputs[0]); ++k) habana_write(&call->outputs[0], k, (float)k);
  }
  return 0;
}
static int64_t bytes(const habana_call* call) { return call->items * 8; }
static const habana_kernel shaped = {.op = "NativeShape", .inputs = "x: T", .outputs = "y: T", .shape = bad_shape,
    .attrs = "T: {float}, n: int = 2", .items = some, .workspace = bytes, .run = fill};

/* An op of TensorFlow's that HPU has not. */
static int like_first(const habana_call* call, int64_t (*shapes)[HABANA_MAX_RANK], int32_t* ranks) {
  ranks[0] = call->inputs[0].rank;
  for (int k = 0; k < ranks[0]; ++k) shapes[0][k] = call->inputs[0].shape[k];
  return 0;
}
static int cross(const habana_call* call, int64_t begin, int64_t end) {
  const float* a = (const float*)call->inputs[0].data;
  const float* b = (const float*)call->inputs[1].data;
  float* y = (float*)call->outputs[0].data;
  for (int64_t i = 3 * begin; i < 3 * end; i += 3) {
    for (int k = 0; k < 3; ++k) {
      const int p = (k + 1) % 3, q = (k + 2) % 3;
      y[i + k] = a[i + p] * b[i + q] - a[i + q] * b[i + p];
    }
  }
  return 0;
}
static int64_t vectors(const habana_call* call) { return habana_elements(&call->inputs[0]) / 3; }
static const habana_kernel crossed = {.op = "Cross", .attrs = "T: {float}", .shape = like_first, .items = vectors,
    .run = cross};

/* Two outputs, of which one may be read by nobody. */
static int halves(const habana_call* call, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float x = habana_read(&call->inputs[0], i);
    habana_write(&call->outputs[0], i, x / 2);
    ((int64_t*)call->outputs[1].data)[i] = i;
  }
  return 0;
}
static int64_t elements(const habana_call* call) { return habana_elements(&call->inputs[0]); }
static const habana_kernel two = {.op = "NativeTwo", .inputs = "x: T", .outputs = "y: T, at: int64", .shapes = "x; x",
    .attrs = "T: {float}", .items = elements, .run = halves};

#if defined(WRONG_ABI)
HABANA_EXPORT const habana_library* habana_kernels(void);
HABANA_EXPORT const habana_library* habana_kernels(void) {
  static const habana_library library = {HABANA_KERNEL_ABI + 1, sizeof(habana_kernel), 0, NULL};
  return &library;
}
#elif defined(NO_RUN)
static const habana_kernel empty = {.op = "NativeEmpty", .inputs = "x: T", .outputs = "y: T", .shapes = "x"};
HABANA_KERNELS(&empty)
#elif defined(NO_SHAPE)
static const habana_kernel empty = {.op = "NativeEmpty", .inputs = "x: T", .outputs = "y: T", .run = scale};
HABANA_KERNELS(&empty)
#elif defined(WRONG_OP)
static const habana_kernel empty = {.op = "NativeEmpty", .inputs = "x: string", .outputs = "y: T", .shapes = "x",
    .run = scale};
HABANA_KERNELS(&empty)
#elif !defined(NO_KERNELS)
HABANA_KERNELS(&scaled, &told, &failing, &crashing, &shaped, &crossed, &two)
#else
HABANA_EXPORT int nothing(void);
HABANA_EXPORT int nothing(void) { return scaled.run == told.run && failing.run == crashing.run && shaped.run == two.run &&
    crossed.run == scaled.run; }
#endif
