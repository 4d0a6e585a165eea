/* DeformableSampleC: bilinear sampling at moved places, and its gradient: see deformable.py, which says what
 * they mean.
 *
 * A work item of the op is a pixel, whose taps lie together in the result. A work item of the gradient is a
 * picture: what flows back to a pixel comes from any tap of the picture, so nobody else may add to it. It
 * adds in a workspace of fp32, also where the tensors are bf16.
 */
#include <math.h>

#include "habana_kernel.h"

/* Picture, pixel and tap of a place, and the four pixels around it. at[] is -1 outside the picture. */
typedef struct cell {
  float down, right;
  int64_t at[2][2];
} cell;

typedef struct sizes {
  int64_t height, width, channels, kernel, taps;
} sizes;

static sizes of(const habana_call* call, const habana_tensor* x) {
  const int64_t kernel = habana_int(call, "kernel");
  const sizes s = {x->shape[1], x->shape[2], x->shape[3], kernel, kernel * kernel};
  return s;
}

/* x and offsets of both ops; 0 where they fit. */
static int check(const habana_call* call, const habana_tensor* x, const habana_tensor* offsets) {
  if (x->rank != 4 || offsets->rank != 5) return habana_fail(call, "x must have rank 4 and offsets rank 5");
  const int64_t taps = habana_int(call, "kernel") * habana_int(call, "kernel");
  if (memcmp(x->shape, offsets->shape, 3 * sizeof(int64_t)) != 0 || offsets->shape[3] != taps ||
      offsets->shape[4] != 2) {
    return habana_fail(
        call, "x must be [batch, height, width, channels], and offsets [batch, height, width, %lld, 2]",
        (long long)taps);
  }
  return 0;
}

static int copy_shape(const habana_tensor* x, int64_t* shape, int32_t* rank) {
  *rank = x->rank;
  memcpy(shape, x->shape, (size_t)x->rank * sizeof(int64_t));
  return 0;
}

static int shape(const habana_call* call, int64_t (*shapes)[HABANA_MAX_RANK], int32_t* ranks) {
  const habana_tensor *x = &call->inputs[0], *offsets = &call->inputs[1];
  if (check(call, x, offsets)) return 1;
  copy_shape(offsets, shapes[0], &ranks[0]);
  shapes[0][4] = x->shape[3];
  return 0;
}

static int grad_shape(const habana_call* call, int64_t (*shapes)[HABANA_MAX_RANK], int32_t* ranks) {
  const habana_tensor *dy = &call->inputs[0], *x = &call->inputs[1], *offsets = &call->inputs[2];
  if (check(call, x, offsets)) return 1;
  if (dy->rank != 5 || memcmp(dy->shape, offsets->shape, 4 * sizeof(int64_t)) != 0 ||
      dy->shape[4] != x->shape[3]) {
    return habana_fail(call, "dy must have the shape of what DeformableSampleC gives");
  }
  copy_shape(x, shapes[0], &ranks[0]);
  return copy_shape(offsets, shapes[1], &ranks[1]);
}

static int64_t pixels(const habana_call* call) { return habana_extent(&call->inputs[0], 0, 3); }

static int64_t pictures(const habana_call* call) { return call->inputs[1].shape[0]; }

static int64_t workspace(const habana_call* call) {
  return call->items * habana_extent(&call->inputs[1], 1, 4) * (int64_t)sizeof(float);
}

/* A place far outside, or none (NaN), is outside: it must not become an integer. */
static int64_t whole(float place, int64_t size) {
  return place >= 0 && place < (float)size ? (int64_t)place : -1;
}

/* The cell of a tap at a pixel, which are counted over all pictures. Pixels are counted within the picture.
 */
static cell look(const sizes* s, const habana_tensor* offsets, int64_t pixel, int64_t tap) {
  const int64_t here = pixel % (s->height * s->width), moved = (pixel * s->taps + tap) * 2;
  const float row = (float)(here / s->width + tap / s->kernel - s->kernel / 2) + habana_read(offsets, moved);
  const float column =
      (float)(here % s->width + tap % s->kernel - s->kernel / 2) + habana_read(offsets, moved + 1);
  const float top = floorf(row), left = floorf(column);
  cell found = {row - top, column - left, {{-1, -1}, {-1, -1}}};
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const int64_t y = whole(top + (float)i, s->height), x = whole(left + (float)j, s->width);
      if (y >= 0 && x >= 0) found.at[i][j] = y * s->width + x;
    }
  }
  return found;
}

static int run(const habana_call* call, int64_t begin, int64_t end) {
  const habana_tensor *x = &call->inputs[0], *offsets = &call->inputs[1], *y = &call->outputs[0];
  const sizes s = of(call, x);
  for (int64_t pixel = begin; pixel < end; ++pixel) {
    const int64_t picture = pixel / (s.height * s.width) * s.height * s.width;
    for (int64_t tap = 0; tap < s.taps; ++tap) {
      const cell c = look(&s, offsets, pixel, tap);
      for (int64_t channel = 0; channel < s.channels; ++channel) {
        float total = 0;
        for (int corner = 0; corner < 4; ++corner) {
          const int i = corner / 2, j = corner % 2;
          if (c.at[i][j] < 0) continue;
          const float weight = (i ? c.down : 1 - c.down) * (j ? c.right : 1 - c.right);
          total += weight * habana_read(x, (picture + c.at[i][j]) * s.channels + channel);
        }
        habana_write(y, (pixel * s.taps + tap) * s.channels + channel, total);
      }
    }
  }
  return 0;
}

static int grad_run(const habana_call* call, int64_t begin, int64_t end) {
  const habana_tensor *dy = &call->inputs[0], *x = &call->inputs[1], *offsets = &call->inputs[2];
  const habana_tensor *dx = &call->outputs[0], *doffsets = &call->outputs[1];
  const sizes s = of(call, x);
  const int64_t area = s.height * s.width, size = area * s.channels;
  for (int64_t item = begin; item < end; ++item) {
    float* sums = (float*)call->workspace + item * size;
    memset(sums, 0, (size_t)size * sizeof(float));
    for (int64_t place = item * area * s.taps; place < (item + 1) * area * s.taps; ++place) {
      const cell c = look(&s, offsets, place / s.taps, place % s.taps);
      float by_row = 0, by_column = 0;
      for (int corner = 0; corner < 4; ++corner) {
        const int i = corner / 2, j = corner % 2;
        if (c.at[i][j] < 0) continue;
        const float vertical = i ? c.down : 1 - c.down, horizontal = j ? c.right : 1 - c.right;
        float along = 0;
        for (int64_t channel = 0; channel < s.channels; ++channel) {
          const float slope = habana_read(dy, place * s.channels + channel);
          along += slope * habana_read(x, item * size + c.at[i][j] * s.channels + channel);
          sums[c.at[i][j] * s.channels + channel] += slope * vertical * horizontal;
        }
        by_row += along * horizontal * (i ? 1 : -1);
        by_column += along * vertical * (j ? 1 : -1);
      }
      habana_write(doffsets, place * 2, by_row);
      habana_write(doffsets, place * 2 + 1, by_column);
    }
    for (int64_t k = 0; k < size; ++k) habana_write(dx, item * size + k, sums[k]);
  }
  return 0;
}

static const habana_kernel sample = {
    .op = "DeformableSampleC",
    .inputs = "x: T, offsets: T",
    .outputs = "y: T",
    .attrs = "T: {float, bfloat16}, kernel: int = 3",
    .shapes = "offsets[:-1], x[3]",
    .shape = shape,
    .bf16 = "conditional",
    .items = pixels,
    .run = run,
};

static const habana_kernel sample_grad = {
    .op = "DeformableSampleCGrad",
    .inputs = "dy: T, x: T, offsets: T",
    .outputs = "dx: T, doffsets: T",
    .attrs = "T: {float, bfloat16}, kernel: int = 3",
    .shapes = "x; offsets",
    .shape = grad_shape,
    .bf16 = "conditional",
    .items = pictures,
    .workspace = workspace,
    .run = grad_run,
};

HABANA_KERNELS(&sample, &sample_grad)
