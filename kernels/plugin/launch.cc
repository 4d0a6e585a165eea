#include "plugin/launch.h"

#include "plugin/executor.h"

namespace habana {

namespace {

struct LaunchKernel {
  ClusterKernel cluster;

  explicit LaunchKernel(std::string text, bool is_node = true) : cluster(std::move(text), is_node) {}
};

void* CreateLaunch(TF_OpKernelConstruction* ctx) {
  TfStatus status;
  int32_t list_size = 0;
  int32_t total_size = 0;
  TF_OpKernelConstruction_GetAttrSize(ctx, "cluster", &list_size, &total_size, status.get());
  std::string cluster;
  if (status.ok()) {
    cluster.resize(static_cast<size_t>(total_size));
    TF_OpKernelConstruction_GetAttrString(ctx, "cluster", cluster.data(), cluster.size(), status.get());
  }
  return Made(ctx, status) ? new LaunchKernel(std::move(cluster), /*is_node=*/false) : nullptr;
}

// The input that an output begins as a copy of, or -1.
int CopiedTo(const Program& program, size_t output) {
  for (const Copy& copy : program.copies) {
    if (copy.output == output) return copy.input;
  }
  return -1;
}

Status Launch(LaunchKernel* kernel, bool in_place, Tensors* tensors, Execution* execution) {
  TF_OpKernelContext* ctx = tensors->ctx();
  const std::vector<int>& order = kernel->cluster.order();
  const size_t num_inputs = order.empty() ? static_cast<size_t>(TF_NumInputs(ctx)) : order.size();
  for (size_t k = 0; k < num_inputs; ++k) {
    TensorPtr
        tensor;  // gone at once: TensorFlow's context keeps it, and our reference would forbid taking it over
    const Status status = tensors->Input(execution->OpInput(k), &tensor);
    if (!status.ok()) return status;
    execution->AddInput(tensor.get());
  }
  Status status = execution->Find();
  if (!status.ok()) return status;
  const Program& program = execution->program();
  const size_t num_outputs = static_cast<size_t>(TF_NumOutputs(ctx));
  if (program.outputs.size() != num_outputs) {
    return Status(Code::kInternal, "program '" + program.name + "' has " +
                                       std::to_string(program.outputs.size()) + " outputs, its op has " +
                                       std::to_string(num_outputs));
  }
  for (size_t k = 0; k < num_outputs; ++k) {
    constexpr int kMost = 8;
    int candidates[kMost];
    int count = 0;
    if (in_place && k == 0) {
      count = execution->Alike(k, candidates, kMost);
    } else if (const int input = CopiedTo(program, k); input >= 0) {
      // A cache that a step updates: in place, if nobody else holds the old one.
      candidates[count++] = execution->OpInput(static_cast<size_t>(input));
    }
    status = execution->ToOutput(k, static_cast<int>(k), candidates, count);
    if (!status.ok()) return status;
  }
  return execution->Run();
}

template <bool in_place>
void Compute(void* raw, TF_OpKernelContext* ctx) {
  auto* kernel = static_cast<LaunchKernel*>(raw);
  Status status = Usable();
  if (status.ok()) status = kernel->cluster.Prepare();
  if (status.ok()) {
    Tensors tensors(ctx);
    Execution execution(&kernel->cluster, &tensors);
    status = Launch(kernel, in_place, &tensors, &execution);
    if (!status.ok()) status = tensors.Explained(std::move(status), execution.name());
  }
  Finish(ctx, status);
}

}  // namespace

const KernelFunctions kLaunch{CreateLaunch, Compute<false>, Destroy<LaunchKernel>};
const KernelFunctions kOp{CreateFromNode<LaunchKernel>, Compute<false>, Destroy<LaunchKernel>};
const KernelFunctions kInPlaceOp{CreateFromNode<LaunchKernel>, Compute<true>, Destroy<LaunchKernel>};

}  // namespace habana
