/* SortRows: each row of a matrix sorted, by a network of comparisons, with the places the numbers came from.
 *
 * A bitonic network compares and exchanges in an order that does not depend on the numbers, so that it has no branch to
 * guess: what a card's vector engine would do. A work item is a row; the workspace has room for a row per item, whose
 * length is the next power of two.
 */
#include <math.h>

#include "habana_kernel.h"

typedef struct pair {
  float key;
  int32_t place;
} pair;

static int64_t padded(int64_t n) {
  int64_t size = 1;
  while (size < n) size *= 2;
  return size;
}

static int64_t row(const habana_tensor* x) { return x->shape[x->rank - 1]; }

static int shape(const habana_call* call, int64_t (*shapes)[HABANA_MAX_RANK], int32_t* ranks) {
  const habana_tensor* x = &call->inputs[0];
  if (x->rank < 1) return habana_fail(call, "a scalar has no rows");
  for (int output = 0; output < 2; ++output) {
    ranks[output] = x->rank;
    for (int32_t axis = 0; axis < x->rank; ++axis) shapes[output][axis] = x->shape[axis];
  }
  return 0;
}

static int64_t items(const habana_call* call) {
  const habana_tensor* x = &call->inputs[0];
  return row(x) == 0 ? 0 : habana_extent(x, 0, x->rank - 1);
}

static int64_t workspace(const habana_call* call) {
  return call->items * padded(row(&call->inputs[0])) * (int64_t)sizeof(pair);
}

/* Equal numbers stay in their order; NaN is behind all others. */
static int before(pair a, pair b) {
  if (isnan(a.key) || isnan(b.key)) return isnan(a.key) == isnan(b.key) ? a.place < b.place : isnan(b.key);
  return a.key < b.key || (a.key == b.key && a.place < b.place);
}

static void sort(pair* line, int64_t size) {
  for (int64_t run = 2; run <= size; run *= 2) {
    for (int64_t step = run / 2; step > 0; step /= 2) {
      for (int64_t i = 0; i < size; ++i) {
        const int64_t other = i ^ step;
        if (other <= i) continue;
        const int rising = (i & run) == 0;
        const pair a = line[i], b = line[other];
        const int swap = before(b, a) == rising;
        line[i] = swap ? b : a;
        line[other] = swap ? a : b;
      }
    }
  }
}

static int run(const habana_call* call, int64_t begin, int64_t end) {
  const habana_tensor* x = &call->inputs[0];
  const habana_tensor* sorted = &call->outputs[0];
  int32_t* places = (int32_t*)call->outputs[1].data;
  const int64_t n = row(x), size = padded(n);
  const int falling = habana_int(call, "descending") != 0;
  for (int64_t item = begin; item < end; ++item) {
    pair* line = (pair*)call->workspace + item * size;
    for (int64_t i = 0; i < size; ++i) {
      const float value = i < n ? habana_read(x, item * n + i) : 0;
      line[i].key = i < n ? (falling ? -value : value) : NAN;
      line[i].place = (int32_t)i;
    }
    sort(line, size);
    for (int64_t i = 0; i < n; ++i) {
      habana_write(sorted, item * n + i, falling ? -line[i].key : line[i].key);
      places[item * n + i] = line[i].place;
    }
  }
  return 0;
}

static const habana_kernel sort_rows = {
    .op = "SortRows",
    .inputs = "x: T",
    .outputs = "sorted: T, places: int32",
    .attrs = "T: {float, bfloat16}, descending: bool = false",
    .shape = shape,
    .bf16 = "conditional",
    .items = items,
    .workspace = workspace,
    .run = run,
};

HABANA_KERNELS(&sort_rows)
