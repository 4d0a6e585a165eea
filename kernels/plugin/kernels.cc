// TF_InitKernel: the ops HpuLaunch and HpuCollectiveReduce, and the HPU kernels that the op table asks for.
#include "tensorflow/c/kernels.h"

#include <string>

#include "plugin/collective.h"
#include "plugin/launch.h"
#include "plugin/register.h"
#include "plugin/status.h"
#include "plugin/stock.h"
#include "plugin/variables.h"
#include "runtime/callbacks.h"
#include "tensorflow/c/ops.h"

namespace habana {
namespace {

void UnknownShapes(TF_ShapeInferenceContext* ctx, TF_Status* status) {
  TF_ShapeInferenceContextSetUnknownShape(ctx, status);
}

void RegisterLaunchOp() {
  TfStatus status;
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("HpuLaunch");
  TF_OpDefinitionBuilderAddInput(op, "args: Tin");
  TF_OpDefinitionBuilderAddInput(op, "host_args: Thost");
  TF_OpDefinitionBuilderAddOutput(op, "results: Tout");
  TF_OpDefinitionBuilderAddOutput(op, "host_results: Thost_out");
  TF_OpDefinitionBuilderAddAttr(op, "Tin: list(type) >= 0");
  TF_OpDefinitionBuilderAddAttr(op, "Thost: list(type) >= 0");
  TF_OpDefinitionBuilderAddAttr(op, "Tout: list(type) >= 0");
  TF_OpDefinitionBuilderAddAttr(op, "Thost_out: list(type) >= 0");
  TF_OpDefinitionBuilderAddAttr(op, "cluster: string");
  TF_OpDefinitionBuilderAddAttr(op, "cluster_name: string");
  TF_OpDefinitionBuilderSetIsStateful(op, true);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, UnknownShapes);
  TF_RegisterOpDefinition(op, status.get());
  if (!status.ok()) Report("the op HpuLaunch", status);
}

void RegisterLaunchKernel() {
  TfStatus status;
  TF_KernelBuilder* kernel =
      TF_NewKernelBuilder("HpuLaunch", "HPU", CreateLaunch, ComputeLaunch, DeleteLaunch);
  TF_KernelBuilder_HostMemory(kernel, "host_args");
  TF_KernelBuilder_HostMemory(kernel, "host_results");
  TF_RegisterKernelBuilder("HpuLaunch", kernel, status.get());
  if (!status.ok()) Report("the kernel of HpuLaunch", status);
}

TF_KernelBuilder* NewKernelBuilder(const Registration& row) {
  const char* op = row.op.c_str();
  TF_KernelBuilder* kernel = nullptr;
  switch (row.kind) {
    case Registration::Kind::kOp:
      return TF_NewKernelBuilder(op, "HPU", CreateOp, ComputeLaunch, DeleteLaunch);
    case Registration::Kind::kInPlace:
      return TF_NewKernelBuilder(op, "HPU", CreateInPlaceOp, ComputeLaunch, DeleteLaunch);
    case Registration::Kind::kVariable:
      return TF_NewKernelBuilder(op, "HPU", CreateVariableOp, ComputeVariableOp, DeleteVariableOp);
    case Registration::Kind::kStock:
      kernel = TF_NewKernelBuilder(op, "HPU", CreateStockOp, ComputeStockOp, DeleteStockOp);
      TF_KernelBuilder_Priority(kernel, kStockPriority);
      return kernel;
  }
  return nullptr;
}

void RegisterKernel(const Registration& row) {
  TfStatus status;
  TF_KernelBuilder* kernel = NewKernelBuilder(row);
  std::string what = row.op;
  for (const auto& [attr, type] : row.types) {
    what += " " + attr + "=" + std::to_string(type);
    TF_KernelBuilder_TypeConstraint(kernel, attr.c_str(), static_cast<TF_DataType>(type), status.get());
    if (!status.ok()) {
      Report("the kernel of " + what, status);
      TF_DeleteKernelBuilder(kernel);
      return;
    }
  }
  for (const std::string& argument : row.host) TF_KernelBuilder_HostMemory(kernel, argument.c_str());
  TF_RegisterKernelBuilder(row.op.c_str(), kernel, status.get());
  if (!status.ok()) Report("the kernel of " + what, status);
}

}  // namespace
}  // namespace habana

extern "C" __attribute__((visibility("default"))) void TF_InitKernel() {
  habana::RegisterLaunchOp();
  habana::RegisterLaunchKernel();
  habana::RegisterCollective();
  for (const habana::Registration& row : habana::GetRegistrations()) habana::RegisterKernel(row);
}
