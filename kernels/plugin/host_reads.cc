#include "plugin/host_reads.h"

#include "plugin/copies.h"
#include "plugin/register.h"
#include "plugin/tensors.h"

namespace habana {

namespace {

struct ReadKernel {
  int64_t most;  // bytes of a tensor that is read
};

void* Create(TF_OpKernelConstruction* ctx) {
  TfStatus status;
  int64_t most = 0;
  TF_OpKernelConstruction_GetAttrInt64(ctx, "most", &most, status.get());
  return Made(ctx, status) ? new ReadKernel{most} : nullptr;
}

void Compute(void* kernel, TF_OpKernelContext* ctx) {
  Tensors tensors(ctx);
  TensorPtr x;
  Status status = tensors.Input(0, &x);
  if (status.ok()) {
    const size_t whole = TF_TensorByteSize(x.get());
    const size_t nbytes = whole > static_cast<size_t>(static_cast<ReadKernel*>(kernel)->most) ? 0 : whole;
    const int64_t words = static_cast<int64_t>((nbytes + sizeof(int32_t) - 1) / sizeof(int32_t));
    char* to = nullptr;
    status = tensors.Output(0, {TF_INT32, &words, 1, static_cast<size_t>(words) * sizeof(int32_t)}, nullptr,
                            0, &to);
    if (status.ok()) RecordedCopy(EventKind::kFromCard, to, TF_TensorData(x.get()), nbytes);
  }
  Finish(ctx, status);
}

}  // namespace

void RegisterHostReads() {
  RegisterOp({"HpuToHost", {"x: T"}, {"words: int32"}, {"T: type", "most: int"}, UnknownShapes},
             /*stateful=*/false);
  RegisterHpuKernel("HpuToHost", {Create, Compute, Destroy<ReadKernel>}, {}, {"words"});
}

}  // namespace habana
