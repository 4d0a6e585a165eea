// The kernel behind HpuLaunch and behind every op of the op table: one launch of one cluster.
//
// HpuLaunch carries its cluster; an op's cluster is made from its NodeDef at the first use; an in-place op
// may take over the buffer of an input for its output.
#include <algorithm>
#include <cstring>
#include <utility>

#include "plugin/executor.h"
#include "plugin/register.h"
#include "plugin/updating.h"
#include "runtime/card.h"

namespace habana {

namespace {

struct LaunchKernel {
  ClusterKernel cluster;
  std::vector<int> handles;    // the op's inputs that are variables to be updated
  std::vector<int> dtypes;     // of these
  std::vector<int> values;     // the cluster's inputs that are these
  std::vector<int> variables;  // by output: which of these it is the new value of, or -1

  explicit LaunchKernel(std::string node_def) : cluster(std::move(node_def), /*is_node=*/true) {}
  LaunchKernel(std::string text, std::vector<int> order)
      : cluster(std::move(text), /*is_node=*/false, std::move(order)) {}
};

// The attributes of a node; the first that cannot be read decides the status.
class Attributes {
 public:
  explicit Attributes(TF_OpKernelConstruction* ctx) : ctx_(ctx) {}
  TfStatus& status() { return status_; }

  // Of a list its elements, of a text its bytes.
  size_t Length(const char* name) {
    if (!status_.ok()) return 0;
    int32_t list_size = 0;
    int32_t total_size = 0;
    TF_OpKernelConstruction_GetAttrSize(ctx_, name, &list_size, &total_size, status_.get());
    return status_.ok() ? static_cast<size_t>(std::max({list_size, total_size, 0})) : 0;
  }

  std::string Text(const char* name) {
    std::string text(Length(name), '\0');
    if (status_.ok())
      TF_OpKernelConstruction_GetAttrString(ctx_, name, text.data(), text.size(), status_.get());
    return text;
  }

  std::vector<int64_t> Numbers(const char* name) {
    std::vector<int64_t> numbers(Length(name));
    if (!numbers.empty()) {
      TF_OpKernelConstruction_GetAttrInt64List(ctx_, name, numbers.data(), static_cast<int>(numbers.size()),
                                               status_.get());
    }
    return numbers;
  }

  std::vector<TF_DataType> Types(const char* name) {
    std::vector<TF_DataType> types(Length(name));
    if (!types.empty()) {
      TF_OpKernelConstruction_GetAttrTypeList(ctx_, name, types.data(), static_cast<int>(types.size()),
                                              status_.get());
    }
    return types;
  }

 private:
  TF_OpKernelConstruction* ctx_;
  TfStatus status_;
};

// Handles of variables stand behind the op's other inputs; the cluster has them among its inputs.
void* CreateLaunch(TF_OpKernelConstruction* ctx) {
  Attributes attributes(ctx);
  std::string cluster = attributes.Text("cluster");
  const std::vector<int64_t> updates =
      attributes.Numbers("updates");  // an input and an output of the cluster each
  const size_t count = updates.size() / 2;
  const size_t others = attributes.Length("Tin") + attributes.Length("Thost");
  std::vector<int> order(others + count, -1);
  std::vector<int> handles;
  std::vector<int> dtypes;
  std::vector<int> values;
  const std::vector<TF_DataType> types = attributes.Types("Tout");
  std::vector<int> variables(types.size() + attributes.Length("Thost_out"), -1);
  for (size_t k = 0; k < count && attributes.status().ok(); ++k) {
    const auto input = static_cast<size_t>(updates[2 * k]);
    const auto output = static_cast<size_t>(updates[2 * k + 1]);
    if (input >= order.size() || output >= types.size()) {
      TF_SetStatus(attributes.status().get(), TF_INVALID_ARGUMENT,
                   "an HpuLaunch updates a variable that its cluster does not have");
      break;
    }
    handles.push_back(static_cast<int>(others + k));
    dtypes.push_back(types[output]);
    values.push_back(static_cast<int>(input));
    order[input] = handles.back();
    variables[output] = static_cast<int>(k);
  }
  if (!Made(ctx, attributes.status())) return nullptr;
  int next = 0;
  for (int& at : order) {
    if (at < 0) at = next++;
  }
  if (count == 0) order.clear();
  auto* kernel = new LaunchKernel(std::move(cluster), std::move(order));
  kernel->handles = std::move(handles);
  kernel->dtypes = std::move(dtypes);
  kernel->values = std::move(values);
  kernel->variables = std::move(variables);
  return kernel;
}

// The input that an output begins as a copy of, or -1.
int CopiedTo(const Program& program, size_t output) {
  for (const Copy& copy : program.copies) {
    if (copy.output == output) return copy.input;
  }
  return -1;
}

Status AddInputs(const LaunchKernel& kernel, Tensors* tensors, const UpdatedVariables& variables,
                 Execution* execution) {
  const size_t num_inputs = static_cast<size_t>(TF_NumInputs(tensors->ctx()));
  const std::vector<int>& order = kernel.cluster.order();
  const size_t first_handle = num_inputs - kernel.handles.size();
  execution->ClearInputs();
  for (size_t k = 0; k < (order.empty() ? num_inputs : order.size()); ++k) {
    const auto at = static_cast<size_t>(execution->OpInput(k));
    if (at >= first_handle) {
      execution->AddInput(variables.value(at - first_handle));
      continue;
    }
    TensorPtr tensor;  // dropped at once: with this reference no output could take over its memory
    HABANA_RETURN_IF_ERROR(tensors->Input(static_cast<int>(at), &tensor));
    execution->AddInput(tensor.get());
  }
  return {};
}

// Where a variable's new value is written, which is an output of the op too.
Status GiveVariable(const LaunchKernel& kernel, size_t k, UpdatedVariables* variables,
                    TF_OpKernelContext* ctx, const Program& program, bool over, char** data) {
  const auto at = static_cast<size_t>(kernel.variables[k]);
  HABANA_RETURN_IF_ERROR(SameShape(variables->value(at), program, k));
  TF_Tensor* memory = nullptr;
  HABANA_RETURN_IF_ERROR(variables->Memory(at, over, &memory));
  TfStatus status;
  TF_SetOutput(ctx, static_cast<int>(k), memory, status.get());
  *data = static_cast<char*>(TF_TensorData(memory));
  return status.ok() ? Status() : FromTf(status.get());
}

// Runs a program that takes the GIL, without the variables' locks: their new values go to other memory, and
// count only if the variables still have the values that they were made of.
Status RunInterpreted(const LaunchKernel& kernel, Tensors* tensors, UpdatedVariables* variables,
                      Execution* execution) {
  const Program& program = execution->program();
  std::vector<std::pair<size_t, char*>> made;
  for (size_t k = 0; k < kernel.variables.size(); ++k) {
    if (kernel.variables[k] < 0) continue;
    char* data = nullptr;
    HABANA_RETURN_IF_ERROR(
        tensors->Temporary(program.outputs[k].nbytes, "the new value of a variable", &data));
    HABANA_RETURN_IF_ERROR(execution->ToMemory(k, data));
    made.emplace_back(k, data);
  }
  const auto again = [&] {
    for (const auto& [k, data] : made) {
      const auto at = static_cast<size_t>(kernel.variables[k]);
      HABANA_RETURN_IF_ERROR(SameShape(variables->value(at), program, k));
      execution->MoveInput(static_cast<size_t>(kernel.values[at]), variables->value(at));
    }
    return Status();
  };
  HABANA_RETURN_IF_ERROR(RunYielded(variables, execution, again));
  for (const auto& [k, data] : made) {
    char* memory = nullptr;
    HABANA_RETURN_IF_ERROR(
        GiveVariable(kernel, k, variables, tensors->ctx(), program, /*over=*/true, &memory));
    if (program.outputs[k].nbytes > 0) std::memcpy(memory, data, program.outputs[k].nbytes);
  }
  return variables->Keep();
}

Status Launch(LaunchKernel* kernel, bool in_place, Tensors* tensors, Execution* execution) {
  TF_OpKernelContext* ctx = tensors->ctx();
  const auto variables = UpdatedVariables::Of(tensors, kernel->handles, kernel->dtypes);
  HABANA_RETURN_IF_ERROR(FindLocked(variables.get(), execution,
                                    [&] { return AddInputs(*kernel, tensors, *variables, execution); }));
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
    if (const int variable = kernel->variables.empty() ? -1 : kernel->variables[k]; variable >= 0) {
      if (program.body != nullptr) continue;  // see RunInterpreted
      const bool over = program.outputs[k].over == kernel->values[static_cast<size_t>(variable)];
      char* memory = nullptr;
      HABANA_RETURN_IF_ERROR(GiveVariable(*kernel, k, variables.get(), ctx, program, over, &memory));
      HABANA_RETURN_IF_ERROR(execution->ToMemory(k, memory));
      continue;
    }
    if (in_place && k == 0) {
      count = execution->Alike(k, candidates, kMost);
    } else if (const int input = CopiedTo(program, k); input >= 0) {
      // A cache that a step updates: in place, if nothing else holds the old one.
      candidates[count++] = execution->OpInput(static_cast<size_t>(input));
    }
    HABANA_RETURN_IF_ERROR(execution->ToOutput(k, static_cast<int>(k), candidates, count));
  }
  if (program.body != nullptr && !variables->empty()) {
    HABANA_RETURN_IF_ERROR(RunInterpreted(*kernel, tensors, variables.get(), execution));
    CountUpdate(reinterpret_cast<uintptr_t>(kernel));
    return {};
  }
  HABANA_RETURN_IF_ERROR(execution->Run());
  if (!variables->empty()) CountUpdate(reinterpret_cast<uintptr_t>(kernel));
  return variables->Keep();
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
