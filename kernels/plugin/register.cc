#include "plugin/register.h"

#include <cstdio>

#include "runtime/counters.h"
#include "tensorflow/c/tf_buffer.h"

namespace habana {

namespace {

void Report(const std::string& what, const TfStatus& status) {
  if (status.ok()) return;
  GetCounters().registration_errors.fetch_add(1);
  std::fprintf(stderr, "habana_tf: TensorFlow refused %s: %s\n", what.c_str(), status.message().c_str());
}

}  // namespace

bool Made(TF_OpKernelConstruction* ctx, const TfStatus& status) {
  if (!status.ok()) TF_OpKernelConstruction_Failure(ctx, status.get());
  return status.ok();
}

bool ReadNodeDef(TF_OpKernelConstruction* ctx, std::string* node_def) {
  TfStatus status;
  TF_Buffer* buffer = TF_OpKernelConstruction_GetNodeDef(ctx, status.get());
  if (!Made(ctx, status)) return false;
  node_def->assign(static_cast<const char*>(buffer->data), buffer->length);
  TF_DeleteBuffer(buffer);
  return true;
}

void RegisterStatefulOp(const OpSpec& op) {
  TfStatus status;
  TF_OpDefinitionBuilder* builder = TF_NewOpDefinitionBuilder(op.name);
  for (const char* input : op.inputs) TF_OpDefinitionBuilderAddInput(builder, input);
  for (const char* output : op.outputs) TF_OpDefinitionBuilderAddOutput(builder, output);
  for (const char* attr : op.attrs) TF_OpDefinitionBuilderAddAttr(builder, attr);
  TF_OpDefinitionBuilderSetIsStateful(builder, true);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, op.shapes);
  TF_RegisterOpDefinition(builder, status.get());
  Report(std::string("the op ") + op.name, status);
}

void RegisterHpuKernel(const std::string& op, const KernelFunctions& functions,
                       const std::vector<std::pair<std::string, int>>& types,
                       const std::vector<std::string>& host, int priority) {
  TfStatus status;
  TF_KernelBuilder* builder =
      TF_NewKernelBuilder(op.c_str(), "HPU", functions.create, functions.compute, functions.destroy);
  std::string what = "the kernel of " + op;
  for (const auto& [attr, type] : types) {
    what += " " + attr + "=" + std::to_string(type);
    TF_KernelBuilder_TypeConstraint(builder, attr.c_str(), static_cast<TF_DataType>(type), status.get());
    if (!status.ok()) {
      TF_DeleteKernelBuilder(builder);
      return Report(what, status);
    }
  }
  for (const std::string& argument : host) TF_KernelBuilder_HostMemory(builder, argument.c_str());
  TF_KernelBuilder_Priority(builder, priority);
  TF_RegisterKernelBuilder(op.c_str(), builder, status.get());
  Report(what, status);
}

}  // namespace habana
