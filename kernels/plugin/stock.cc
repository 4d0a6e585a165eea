#include "plugin/stock.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "plugin/status.h"
#include "runtime/counters.h"

namespace habana {

namespace {

struct StockKernel {
  std::string node_def;
  std::mutex mutex;
  std::shared_ptr<const StockOp> op;
};

Status Plan(StockKernel* kernel, std::shared_ptr<const StockOp>* op) {
  {
    std::lock_guard<std::mutex> lock(kernel->mutex);
    *op = kernel->op;
  }
  if (*op != nullptr) return {};
  auto made = std::make_shared<StockOp>();
  {
    CallbackScope python;
    if (!python.status().ok()) return python.status();
    const Status status = python->stock_plan(kernel->node_def, made.get());
    if (!status.ok()) return status;
  }
  std::lock_guard<std::mutex> lock(kernel->mutex);
  if (kernel->op == nullptr) kernel->op = std::move(made);
  *op = kernel->op;
  return {};
}

bool OnHeap(TF_DataType dtype) { return dtype == TF_VARIANT || dtype == TF_RESOURCE || dtype == TF_STRING; }

Status Run(StockKernel* kernel, TF_OpKernelContext* ctx) {
  std::shared_ptr<const StockOp> op;
  Status ready = Usable();
  if (ready.ok()) ready = Plan(kernel, &op);
  TFE_Context* context = nullptr;
  if (ready.ok()) ready = GetEagerContext(&context);
  if (!ready.ok()) return ready;
  GetCounters().stock_ops.fetch_add(1, std::memory_order_relaxed);
  const SynchronousOps synchronous(context);
  TfStatus status;
  Tensors tensors;
  std::vector<Handle> handles;
  for (int i = 0; i < TF_NumInputs(ctx); ++i) {
    TF_Tensor* tensor = nullptr;
    TF_GetInput(ctx, i, &tensor, status.get());
    if (tensor != nullptr) tensors.Add(tensor);
    if (!status.ok()) return FromTf(status.get());
    if (tensor == nullptr) return Status(Code::kInternal, "input " + std::to_string(i) + " has no tensor");
    if (!OnHeap(TF_TensorType(tensor)) && !TF_TensorIsAligned(tensor)) {
      std::vector<int64_t> dims;
      for (int d = 0; d < TF_NumDims(tensor); ++d) dims.push_back(TF_Dim(tensor, d));
      TF_Tensor* copy = TF_AllocateTensor(TF_TensorType(tensor), dims.data(), static_cast<int>(dims.size()),
                                          TF_TensorByteSize(tensor));
      tensors.Add(copy);
      std::memcpy(TF_TensorData(copy), TF_TensorData(tensor), TF_TensorByteSize(tensor));
      tensor = copy;
    }
    handles.emplace_back(TFE_NewTensorHandle(tensor, status.get()));
    if (!status.ok()) return FromTf(status.get());
  }
  std::vector<const Handle*> inputs;
  for (const Handle& handle : handles) inputs.push_back(&handle);
  return RunOnCpu(context, *op, inputs, ctx, &tensors);
}

}  // namespace

Status GetEagerContext(TFE_Context** context) {
  CallbackScope python;
  if (!python.status().ok()) return python.status();
  void* found = nullptr;
  const Status status = python->eager_context(&found);
  if (!status.ok()) return status;
  if (found == nullptr) {
    return Status(Code::kFailedPrecondition,
                  "an op that HPU leaves to TensorFlow's CPU kernels needs TensorFlow's eager context, which "
                  "this process has not");
  }
  *context = static_cast<TFE_Context*>(found);
  return {};
}

Status RunOnCpu(TFE_Context* context, const StockOp& stock, const std::vector<const Handle*>& inputs,
                TF_OpKernelContext* ctx, Tensors* tensors) {
  TfStatus status;
  EagerOp op(context, stock.op.c_str(), kCpu, status.get());
  for (const Handle* input : inputs) op.Input(*input);
  for (const auto& [name, value] : stock.attrs) op.Proto(name, value);
  const std::vector<Handle> results = op.Run(TF_NumOutputs(ctx));
  if (!status.ok()) return FromTf(status.get());
  for (size_t i = 0; i < results.size(); ++i) {
    const int at = static_cast<int>(i);
    TF_Tensor* result = TFE_TensorHandleResolve(results[i].get(), status.get());
    if (!status.ok()) return FromTf(status.get());
    tensors->Add(result);
    const bool host = TF_IsHostMemoryOutput(ctx, at, status.get());
    if (!status.ok()) return FromTf(status.get());
    if (host || OnHeap(TF_TensorType(result))) {
      TF_SetOutput(ctx, at, result, status.get());
      if (!status.ok()) return FromTf(status.get());
      continue;
    }
    std::vector<int64_t> dims;
    for (int d = 0; d < TF_NumDims(result); ++d) dims.push_back(TF_Dim(result, d));
    const size_t nbytes = TF_TensorByteSize(result);
    const int64_t refusals = GetCounters().host_memory_refusals.load();
    TF_Tensor* output = TF_AllocateOutput(ctx, at, TF_TensorType(result), dims.data(),
                                          static_cast<int>(dims.size()), nbytes, status.get());
    if (output != nullptr) tensors->Add(output);
    if (!status.ok()) {
      if (status.code() != TF_RESOURCE_EXHAUSTED) return FromTf(status.get());
      return OutOfMemory(stock.op, "output " + std::to_string(i), nbytes,
                         GetCounters().host_memory_refusals.load() != refusals);
    }
    if (nbytes > 0) std::memcpy(TF_TensorData(output), TF_TensorData(result), nbytes);
  }
  return {};
}

void* CreateStockOp(TF_OpKernelConstruction* ctx) {
  auto kernel = std::make_unique<StockKernel>();
  if (!ReadNodeDef(ctx, &kernel->node_def)) return nullptr;
  return kernel.release();
}

void ComputeStockOp(void* kernel, TF_OpKernelContext* ctx) {
  const Status status = Run(static_cast<StockKernel*>(kernel), ctx);
  if (!status.ok()) Fail(ctx, status);
}

void DeleteStockOp(void* kernel) { delete static_cast<StockKernel*>(kernel); }

}  // namespace habana
