// TensorFlow's own CPU kernels, run from inside a kernel of HPU.
//
// HPU's memory is the host's, so a CPU kernel can read it where it is. The op is run through the C eager API
// on the user's context; what it gives is copied to HPU, or handed on as it is where the op's result lives in
// host memory.
//
// Such kernels are for ops that an accelerator has and HPU lacks: arithmetic on other element types,
// optionals, wrapped datasets. The graph pass moves their nodes to the CPU; what runs here are eager ops
// under tf.device('/HPU:0'), and the bodies of functions that TensorFlow does not place op by op.
#pragma once

#include <vector>

#include "plugin/eager.h"
#include "plugin/register.h"
#include "plugin/tensors.h"
#include "runtime/callbacks.h"

namespace habana {

// Below a CPU kernel's: a node without a device of its own goes to the CPU, as if HPU had none.
inline constexpr int kStockPriority = -1;

// The user's eager context.
Status GetEagerContext(TFE_Context** context);

// The tensor, or a copy where it begins at an address that a CPU kernel ends the process for. `tensors` keeps
// the copy.
TF_Tensor* ForCpu(TF_Tensor* tensor, Tensors* tensors);

// Runs an op on the CPU and gives its results to the op at hand. `tensors` keeps what this needs.
Status RunOnCpu(TFE_Context* context, const StockOp& stock, const std::vector<const Handle*>& inputs,
                Tensors* tensors);

}  // namespace habana
