#include "plugin/collective.h"

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "plugin/register.h"
#include "plugin/status.h"
#include "runtime/callbacks.h"
#include "runtime/exchange.h"
#include "tensorflow/c/ops.h"

namespace habana {
namespace {

constexpr char kOp[] = "HpuCollectiveReduce";

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
  if (!status.ok()) {
    TF_OpKernelConstruction_Failure(ctx, status.get());
    return nullptr;
  }
  return kernel.release();
}

// Input and output of one sum.
struct Pair {
  TF_Tensor* in = nullptr;
  TF_Tensor* out = nullptr;
  ~Pair() {
    if (in != nullptr) TF_DeleteTensor(in);
    if (out != nullptr) TF_DeleteTensor(out);
  }
};

Status Prepare(TF_OpKernelContext* ctx, Pair* tensors, Sum* sum) {
  if (InForkedChild()) return ForkedChildStatus();
  TfStatus status;
  TF_GetInput(ctx, 0, &tensors->in, status.get());
  if (!status.ok()) return FromTf(status.get());
  TF_Tensor* key = nullptr;
  TF_GetInput(ctx, 1, &key, status.get());
  if (!status.ok()) return FromTf(status.get());
  const bool scalar = TF_TensorElementCount(key) == 1;
  if (scalar) sum->key = static_cast<uint64_t>(*static_cast<const int32_t*>(TF_TensorData(key)));
  TF_DeleteTensor(key);
  if (!scalar) return Status(Code::kInvalidArgument, "HpuCollectiveReduce: the instance key is one number");
  std::vector<int64_t> dims;
  for (int d = 0; d < TF_NumDims(tensors->in); ++d) dims.push_back(TF_Dim(tensors->in, d));
  sum->element = static_cast<Element>(TF_TensorType(tensors->in));
  sum->count = static_cast<size_t>(TF_TensorElementCount(tensors->in));
  tensors->out =
      TF_AllocateOutput(ctx, 0, TF_TensorType(tensors->in), dims.data(), static_cast<int>(dims.size()),
                        TF_TensorByteSize(tensors->in), status.get());
  if (!status.ok()) return FromTf(status.get());
  sum->in = static_cast<const char*>(TF_TensorData(tensors->in));
  sum->out = static_cast<char*>(TF_TensorData(tensors->out));
  return {};
}

// Waits for the other workers. An asynchronous kernel is no choice: the callback that TensorFlow's C API
// hands to it lives on the stack of the call, so it is gone when the call returns. One thread of TensorFlow's
// pool is held per function that runs, because the ordering token lets the sums of a function follow each
// other (tests/distribute/test_order.py). Functions that threads of the user's run at the same time are not
// ordered: as many of them as the pool has threads can wait for ever for sums that the other ranks, whose
// threads wait for others, cannot begin.
void Compute(void* kernel, TF_OpKernelContext* ctx) {
  const auto* collective = static_cast<const Collective*>(kernel);
  Pair tensors;
  Sum sum;
  Status status = Prepare(ctx, &tensors, &sum);
  if (status.ok()) {
    auto result = std::make_shared<std::promise<Status>>();  // the other thread may still be in set_value
    sum.timeout_seconds = collective->timeout_seconds;
    sum.done = [result](const Status& ended) { result->set_value(ended); };
    std::future<Status> future = result->get_future();
    EnqueueSum(collective->exchange, std::move(sum));
    status = future.get();
  }
  if (!status.ok()) Fail(ctx, status);
}

void Delete(void* kernel) { delete static_cast<Collective*>(kernel); }

void SameShape(TF_ShapeInferenceContext* ctx, TF_Status* status) {
  TF_ShapeHandle* shape = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(ctx, 0, shape, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSetOutput(ctx, 0, shape, status);
  TF_DeleteShapeHandle(shape);
}

void RegisterOp() {
  TfStatus status;
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder(kOp);
  TF_OpDefinitionBuilderAddInput(op, "input: T");
  TF_OpDefinitionBuilderAddInput(op, "instance_key: int32");
  TF_OpDefinitionBuilderAddInput(op, "ordering_token: Nordering_token * resource");
  TF_OpDefinitionBuilderAddOutput(op, "data: T");
  TF_OpDefinitionBuilderAddAttr(op, "T: {bfloat16, float, double, int64}");
  TF_OpDefinitionBuilderAddAttr(op, "Nordering_token: int >= 0 = 0");
  TF_OpDefinitionBuilderAddAttr(op, "exchange: int");
  TF_OpDefinitionBuilderAddAttr(op, "timeout_seconds: float = 0");
  TF_OpDefinitionBuilderSetIsStateful(op, true);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, SameShape);
  TF_RegisterOpDefinition(op, status.get());
  if (!status.ok()) Report(std::string("the op ") + kOp, status);
}

}  // namespace

void RegisterCollective() {
  RegisterOp();
  TfStatus status;
  TF_KernelBuilder* kernel = TF_NewKernelBuilder(kOp, "HPU", Create, Compute, Delete);
  TF_KernelBuilder_HostMemory(kernel, "instance_key");
  TF_KernelBuilder_HostMemory(kernel, "ordering_token");
  TF_RegisterKernelBuilder(kOp, kernel, status.get());
  if (!status.ok()) Report(std::string("the kernel of ") + kOp, status);
}

}  // namespace habana
