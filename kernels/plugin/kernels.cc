// TF_InitKernel: the ops HpuLaunch, HpuCollectiveReduce and HpuToHost, the HPU kernels that the op table asks
// for, and later those of ops that the program defines.
#include "plugin/register.h"
#include "plugin/stock.h"
#include "runtime/callbacks.h"
#include "runtime/late_ops.h"

namespace habana {
namespace {

void RegisterLaunch() {
  RegisterOwnOp({"HpuLaunch",
                 {"args: Tin", "host_args: Thost", "variables: num_variables * resource"},
                 {"results: Tout", "host_results: Thost_out"},
                 {"Tin: list(type) >= 0", "Thost: list(type) >= 0", "Tout: list(type) >= 0",
                  "Thost_out: list(type) >= 0", "cluster: string", "cluster_name: string",
                  "num_variables: int >= 0 = 0", "updates: list(int) = []"},
                 {}},
                TF_ShapeInferenceContextSetUnknownShape);
  RegisterHpuKernel("HpuLaunch", kLaunch, {}, {"host_args", "variables", "host_results"});
}

Status RegisterLaterKernel(const Registration& kernel) {
  return TryHpuKernel(kernel.op, kOp, kernel.types, kernel.host, 0);
}

const KernelFunctions& FunctionsOf(Registration::Kind kind) {
  switch (kind) {
    case Registration::Kind::kInPlace:
      return kInPlaceOp;
    case Registration::Kind::kVariable:
      return kVariableOp;
    case Registration::Kind::kStock:
      return kStockOp;
    case Registration::Kind::kOp:
      break;
  }
  return kOp;
}

}  // namespace
}  // namespace habana

extern "C" __attribute__((visibility("default"))) void TF_InitKernel() {
  using namespace habana;  // the list of what is registered
  RegisterLaunch();
  RegisterCollective();
  for (const Registration& row : GetRegistrations()) {
    const int priority = row.kind == Registration::Kind::kStock ? kStockPriority : 0;
    RegisterHpuKernel(row.op, FunctionsOf(row.kind), row.types, row.host, priority);
  }
  SetRegistrar({RegisterNewOp, RegisterLaterKernel});
}
