// Shape functions of ops that programs define.
//
// A shape function is not told which op it is called for, and is called under TensorFlow's locks, where no
// Python may run. So each op has a function of its own, out of a table of them, that reads declared shapes.
#pragma once

#include "runtime/late_ops.h"
#include "tensorflow_c/ops.h"

namespace habana {

using ShapeFunction = void (*)(TF_ShapeInferenceContext* ctx, TF_Status* status);

// The next function of the table, which gives these shapes from now on; null when all are taken.
ShapeFunction TakeShapeFunction(std::vector<OutputShape> shapes);

// Ops that can have one.
constexpr int kMostShapeFunctions = 512;

}  // namespace habana
