#include "plugin/register.h"

#include <cstdio>

#include "runtime/counters.h"
#include "tensorflow_c/tensor.h"

namespace habana {

namespace {

void Report(const std::string& what, const Status& status) {
  if (status.ok()) return;
  GetCounters().registration_errors.fetch_add(1);
  std::fprintf(stderr, "habana_tf: TensorFlow refused %s: %s\n", what.c_str(), status.message.c_str());
}

Status Define(const NewOp& op, bool stateful, ShapeFunction shapes) {
  TfStatus status;
  TF_OpDefinitionBuilder* builder = TF_NewOpDefinitionBuilder(op.name.c_str());
  for (const std::string& input : op.inputs) TF_OpDefinitionBuilderAddInput(builder, input.c_str());
  for (const std::string& output : op.outputs) TF_OpDefinitionBuilderAddOutput(builder, output.c_str());
  for (const std::string& attr : op.attrs) TF_OpDefinitionBuilderAddAttr(builder, attr.c_str());
  if (stateful) TF_OpDefinitionBuilderSetIsStateful(builder, true);  // which also `false` would set
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, shapes);
  TF_RegisterOpDefinition(builder, status.get());
  return FromTf(status.get());
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

void RegisterOwnOp(const NewOp& op, ShapeFunction shapes) {
  Report("the op " + op.name, Define(op, /*stateful=*/true, shapes));
}

Status RegisterNewOp(const NewOp& op) {
  if (const ShapeFunction shapes = TakeShapeFunction(op.shapes))
    return Define(op, /*stateful=*/false, shapes);
  return Status(Code::kResourceExhausted,
                "a process can define " + std::to_string(kMostShapeFunctions) + " ops");
}

Status TryHpuKernel(const std::string& op, const KernelFunctions& functions,
                    const std::vector<std::pair<std::string, int>>& types,
                    const std::vector<std::string>& host, int priority) {
  TfStatus status;
  TF_KernelBuilder* builder =
      TF_NewKernelBuilder(op.c_str(), "HPU", functions.create, functions.compute, functions.destroy);
  for (const auto& [attr, type] : types) {
    TF_KernelBuilder_TypeConstraint(builder, attr.c_str(), static_cast<TF_DataType>(type), status.get());
    if (!status.ok()) {
      TF_DeleteKernelBuilder(builder);
      return FromTf(status.get());
    }
  }
  for (const std::string& argument : host) TF_KernelBuilder_HostMemory(builder, argument.c_str());
  TF_KernelBuilder_Priority(builder, priority);
  TF_RegisterKernelBuilder(op.c_str(), builder, status.get());
  return FromTf(status.get());
}

void RegisterHpuKernel(const std::string& op, const KernelFunctions& functions,
                       const std::vector<std::pair<std::string, int>>& types,
                       const std::vector<std::string>& host, int priority) {
  const Status status = TryHpuKernel(op, functions, types, host, priority);
  if (status.ok()) return;
  std::string what = "the kernel of " + op;
  for (const auto& [attr, type] : types) what += " " + attr + "=" + std::to_string(type);
  Report(what, status);
}

}  // namespace habana
