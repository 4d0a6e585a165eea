// Shape functions of ops that programs define.
//
// TensorFlow hands a shape function nothing that tells which op it is asked about, and asks at any time,
// under locks of its own: no Python may run. So each op has a function of its own, out of a table of them,
// and what it says is data.
#pragma once

#include "runtime/late_ops.h"
#include "tensorflow/c/ops.h"

namespace habana {

using ShapeFunction = void (*)(TF_ShapeInferenceContext* ctx, TF_Status* status);

// The next function of the table, which says these shapes from now on; null when all are taken.
ShapeFunction TakeShapeFunction(std::vector<OutputShape> shapes);

// Ops that can have one.
constexpr int kMostShapeFunctions = 512;

}  // namespace habana
