#include "plugin/stock.h"

#include <cstring>
#include <string>

#include "plugin/executor.h"
#include "plugin/planned.h"
#include "runtime/counters.h"
#include "runtime/launched.h"
#include "runtime/timeline.h"

namespace habana {

namespace {

using StockKernel = Planned<StockOp>;

bool OnHeap(TF_DataType dtype) { return dtype == TF_VARIANT || dtype == TF_RESOURCE || dtype == TF_STRING; }

Status Run(const StockOp& op, TFE_Context* context, Tensors* tensors) {
  GetCounters().stock_ops.fetch_add(1, std::memory_order_relaxed);
  const SynchronousOps synchronous(context);
  TfStatus status;
  std::vector<Handle> handles;
  for (int i = 0; i < TF_NumInputs(tensors->ctx()); ++i) {
    TensorPtr tensor;
    HABANA_RETURN_IF_ERROR(tensors->Input(i, &tensor));
    handles.emplace_back(
        TFE_NewTensorHandle(ForCpu(tensors->Keep(std::move(tensor)), tensors), status.get()));
    if (!status.ok()) return FromTf(status.get());
  }
  std::vector<const Handle*> inputs;
  for (const Handle& handle : handles) inputs.push_back(&handle);
  return RunOnCpu(context, op, inputs, tensors);
}

void Compute(void* kernel, TF_OpKernelContext* ctx) {
  std::shared_ptr<const StockOp> op;
  TFE_Context* context = nullptr;
  Status status = Usable();
  if (status.ok()) status = static_cast<StockKernel*>(kernel)->Get(&Callbacks::stock_plan, &op);
  if (status.ok()) status = GetEagerContext(&context);
  if (status.ok()) {
    Tensors tensors(ctx);
    status = Run(*op, context, &tensors);
    if (!status.ok()) status = tensors.Explained(std::move(status), op->op);
  }
  Finish(ctx, status);
}

}  // namespace

const KernelFunctions kStockOp{CreateFromNode<StockKernel>, Compute, Destroy<StockKernel>};

Status GetEagerContext(TFE_Context** context) {
  void* found = nullptr;
  HABANA_RETURN_IF_ERROR(EagerContextOfProcess(&found));
  if (found == nullptr) {
    return Status(Code::kFailedPrecondition,
                  "an op that HPU leaves to TensorFlow's CPU kernels needs TensorFlow's eager context, which "
                  "this process does not have");
  }
  *context = static_cast<TFE_Context*>(found);
  return {};
}

TF_Tensor* ForCpu(TF_Tensor* tensor, Tensors* tensors) {
  if (OnHeap(TF_TensorType(tensor)) || TF_TensorIsAligned(tensor)) return tensor;
  GetCounters().unaligned_copies.fetch_add(1, std::memory_order_relaxed);
  return tensors->Keep(HostCopy(tensor));
}

Status RunOnCpu(TFE_Context* context, const StockOp& stock, const std::vector<const Handle*>& inputs,
                Tensors* tensors) {
  TF_OpKernelContext* ctx = tensors->ctx();
  TfStatus status;
  EagerOp op(context, stock.op.c_str(), kCpu, status.get());
  for (const Handle* input : inputs) op.Input(*input);
  for (const auto& [name, value] : stock.attrs) op.Proto(name, value);
  RecordedScope recorded(EventKind::kCpuOp, Recording() ? OpNumber(stock.op) : 0);
  const int64_t begin = MonotonicNow();
  const std::vector<Handle> results = op.Run(TF_NumOutputs(ctx));
  CountCpuOp(stock.op, MonotonicNow() - begin);
  if (!status.ok()) return FromTf(status.get());
  for (size_t i = 0; i < results.size(); ++i) {
    const int at = static_cast<int>(i);
    TensorPtr result(TFE_TensorHandleResolve(results[i].get(), status.get()));
    const bool host = status.ok() && TF_IsHostMemoryOutput(ctx, at, status.get());
    if (!status.ok()) return FromTf(status.get());
    if (host || OnHeap(TF_TensorType(result.get()))) {
      TF_SetOutput(ctx, at, result.get(), status.get());
      if (!status.ok()) return FromTf(status.get());
      continue;
    }
    char* output = nullptr;
    HABANA_RETURN_IF_ERROR(tensors->OutputLike(at, result.get(), &output));
    const size_t nbytes = TF_TensorByteSize(result.get());
    if (nbytes > 0) std::memcpy(output, TF_TensorData(result.get()), nbytes);
  }
  return {};
}

}  // namespace habana
