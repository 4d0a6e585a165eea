// What the plugin registers with TensorFlow: ops of its own, and kernels for HPU.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plugin/op_shapes.h"
#include "plugin/status.h"
#include "runtime/late_ops.h"
#include "tensorflow_c/kernels.h"
#include "tensorflow_c/ops.h"

namespace habana {

// A kernel, as TensorFlow's C ABI knows it.
struct KernelFunctions {
  void* (*create)(TF_OpKernelConstruction* ctx);
  void (*compute)(void* kernel, TF_OpKernelContext* ctx);
  void (*destroy)(void* kernel);
};

template <typename Kernel>
void Destroy(void* kernel) {
  delete static_cast<Kernel*>(kernel);
}

// A kernel made from the serialized NodeDef of its op; null when TensorFlow has been told that there is none.
bool ReadNodeDef(TF_OpKernelConstruction* ctx, std::string* node_def);
template <typename Kernel>
void* CreateFromNode(TF_OpKernelConstruction* ctx) {
  std::string node_def;
  return ReadNodeDef(ctx, &node_def) ? new Kernel(std::move(node_def)) : nullptr;
}

// Whether what a kernel is made from could be read; a failure is handed to TensorFlow.
bool Made(TF_OpKernelConstruction* ctx, const TfStatus& status);

// An op of HPU's own, stateful. What TensorFlow refuses is said and counted, here and below.
void RegisterOwnOp(const NewOp& op, ShapeFunction shapes);

// An op that a program defines, stateless.
Status RegisterNewOp(const NewOp& op);

// types: type attribute and data type; host: arguments in host memory.
Status TryHpuKernel(const std::string& op, const KernelFunctions& functions,
                    const std::vector<std::pair<std::string, int>>& types,
                    const std::vector<std::string>& host, int priority);
void RegisterHpuKernel(const std::string& op, const KernelFunctions& functions,
                       const std::vector<std::pair<std::string, int>>& types,
                       const std::vector<std::string>& host, int priority = 0);

// The kernels of `launch.cc`, `variables.cc` and `stock.cc`; and the op of `collective.cc` with its kernel.
extern const KernelFunctions kLaunch;
extern const KernelFunctions kOp;
extern const KernelFunctions kInPlaceOp;
extern const KernelFunctions kVariableOp;
extern const KernelFunctions kStockOp;
void RegisterCollective();

}  // namespace habana
