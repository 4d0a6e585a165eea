// The op HpuCollectiveReduce: a sum over the workers of one host (runtime/exchange.h).
#include <memory>
#include <string>
#include <utility>

#include "plugin/executor.h"
#include "plugin/register.h"
#include "plugin/tensors.h"
#include "runtime/exchange.h"

namespace habana {
namespace {

constexpr char kReduce[] = "HpuCollectiveReduce";

struct Collective {
  int exchange = -1;
  float timeout_seconds = 0;
};

void* Create(TF_OpKernelConstruction* ctx) {
  auto kernel = std::make_unique<Collective>();
  TfStatus status;
  TF_OpKernelConstruction_GetAttrInt32(ctx, "exchange", &kernel->exchange, status.get());
  if (status.ok()) {
    TF_OpKernelConstruction_GetAttrFloat(ctx, "timeout_seconds", &kernel->timeout_seconds, status.get());
  }
  return Made(ctx, status) ? kernel.release() : nullptr;
}

Status Prepare(Tensors* tensors, Sum* sum) {
  TensorPtr in, key;
  HABANA_RETURN_IF_ERROR(Usable());
  HABANA_RETURN_IF_ERROR(tensors->Input(0, &in));
  HABANA_RETURN_IF_ERROR(tensors->Input(1, &key));
  if (TF_TensorElementCount(key.get()) != 1) {
    return Status(Code::kInvalidArgument, "HpuCollectiveReduce: the instance key is one number");
  }
  const TF_Tensor* input = tensors->Keep(std::move(in));
  sum->key = static_cast<uint64_t>(*static_cast<const int32_t*>(TF_TensorData(key.get())));
  sum->element = static_cast<Element>(TF_TensorType(input));
  sum->count = static_cast<size_t>(TF_TensorElementCount(input));
  sum->in = static_cast<const char*>(TF_TensorData(input));
  return tensors->OutputLike(0, input, &sum->out);
}

// Waits for the other workers. An asynchronous kernel is no choice: the callback that TensorFlow's C API
// hands to it lives on the stack of the call, so it is gone when the call returns. One thread of TensorFlow's
// pool is held per function that runs, because the ordering token lets the sums of a function follow each
// other (tests/distribute/test_order.py). Functions that threads of the user's run at the same time are not
// ordered: as many of them as the pool has threads can wait for ever for sums that the other ranks, whose
// threads wait for others, cannot begin.
void Compute(void* kernel, TF_OpKernelContext* ctx) {
  const auto* collective = static_cast<const Collective*>(kernel);
  Tensors tensors(ctx);
  Sum sum;
  Status status = Prepare(&tensors, &sum);
  if (status.ok()) {
    sum.timeout_seconds = collective->timeout_seconds;
    status = RunSum(collective->exchange, sum);
  }
  Finish(ctx, status.ok() ? status : tensors.Explained(std::move(status), kReduce));
}

void SameShape(TF_ShapeInferenceContext* ctx, TF_Status* status) {
  TF_ShapeHandle* shape = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(ctx, 0, shape, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSetOutput(ctx, 0, shape, status);
  TF_DeleteShapeHandle(shape);
}

}  // namespace

void RegisterCollective() {
  RegisterOwnOp({kReduce,
                 {"input: T", "instance_key: int32", "ordering_token: Nordering_token * resource"},
                 {"data: T"},
                 {"T: {bfloat16, float, double, int64}", "Nordering_token: int >= 0 = 0", "exchange: int",
                  "timeout_seconds: float = 0"},
                 {}},
                SameShape);
  RegisterHpuKernel(kReduce, {Create, Compute, Destroy<Collective>}, {}, {"instance_key", "ordering_token"});
}

}  // namespace habana
