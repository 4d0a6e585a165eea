// What the plugin registers with TensorFlow: ops of its own, and kernels for HPU.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

// An op by its specifications in TensorFlow's words. What TensorFlow refuses is said and counted, here and
// below.
struct OpSpec {
  const char* name;
  std::initializer_list<const char*> inputs;
  std::initializer_list<const char*> outputs;
  std::initializer_list<const char*> attrs;
  void (*shapes)(TF_ShapeInferenceContext* ctx, TF_Status* status);
};
// An op whose results may have any shape.
void UnknownShapes(TF_ShapeInferenceContext* ctx, TF_Status* status);
void RegisterOp(const OpSpec& op, bool stateful = true);

// An op that a program defines, stateless.
Status RegisterNewOp(const NewOp& op);

// types: type attribute and data type; host: arguments in host memory.
Status TryHpuKernel(const std::string& op, const KernelFunctions& functions,
                    const std::vector<std::pair<std::string, int>>& types,
                    const std::vector<std::string>& host, int priority);
void RegisterHpuKernel(const std::string& op, const KernelFunctions& functions,
                       const std::vector<std::pair<std::string, int>>& types,
                       const std::vector<std::string>& host, int priority = 0);

}  // namespace habana
