#include "plugin/op_shapes.h"

#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "plugin/status.h"

namespace habana {

namespace {

using Shapes = std::vector<OutputShape>;

// Written once, before TensorFlow knows the function; then read by any thread.
std::array<Shapes, kMostShapeFunctions>& g_table = *new std::array<Shapes, kMostShapeFunctions>;

struct DeleteShape {
  void operator()(TF_ShapeHandle* handle) const { TF_DeleteShapeHandle(handle); }
};
using ShapePtr = std::unique_ptr<TF_ShapeHandle, DeleteShape>;

// A part of a shape; null with a status when there is none.
ShapePtr Axes(TF_ShapeInferenceContext* ctx, const ShapePart& part, TF_Status* status) {
  if (part.input < 0)
    return ShapePtr(TF_ShapeInferenceContextVectorFromSize(ctx, static_cast<size_t>(part.length)));
  ShapePtr whole(TF_NewShapeHandle());
  TF_ShapeInferenceContextGetInput(ctx, part.input, whole.get(), status);
  if (TF_GetCode(status) != TF_OK) return nullptr;
  ShapePtr axes(TF_NewShapeHandle());
  TF_ShapeInferenceContextSubshape(ctx, whole.get(), part.begin, part.end, axes.get(), status);
  return TF_GetCode(status) == TF_OK ? std::move(axes) : nullptr;
}

void Infer(const Shapes& shapes, TF_ShapeInferenceContext* ctx, TF_Status* status) {
  TF_ShapeInferenceContextSetUnknownShape(ctx, status);
  for (size_t k = 0; k < shapes.size() && TF_GetCode(status) == TF_OK; ++k) {
    if (!shapes[k].known) continue;
    ShapePtr made(TF_ShapeInferenceContextScalar(ctx));
    for (const ShapePart& part : shapes[k].parts) {
      const ShapePtr axes = Axes(ctx, part, status);
      if (axes == nullptr) return;
      ShapePtr longer(TF_NewShapeHandle());
      TF_ShapeInferenceContextConcatenateShapes(ctx, made.get(), axes.get(), longer.get(), status);
      if (TF_GetCode(status) != TF_OK) return;
      made = std::move(longer);
    }
    TF_ShapeInferenceContextSetOutput(ctx, static_cast<int>(k), made.get(), status);
  }
}

template <int kSlot>
void InferOf(TF_ShapeInferenceContext* ctx, TF_Status* status) {
  Infer(g_table[kSlot], ctx, status);
}

template <int... kSlots>
constexpr std::array<ShapeFunction, sizeof...(kSlots)> Functions(std::integer_sequence<int, kSlots...>) {
  return {&InferOf<kSlots>...};
}

}  // namespace

ShapeFunction TakeShapeFunction(std::vector<OutputShape> shapes) {
  static constexpr auto kFunctions = Functions(std::make_integer_sequence<int, kMostShapeFunctions>());
  static std::mutex mutex;
  static size_t taken = 0;
  std::lock_guard<std::mutex> lock(mutex);
  if (taken == kFunctions.size()) return nullptr;
  g_table[taken] = std::move(shapes);
  return kFunctions[taken++];
}

}  // namespace habana
