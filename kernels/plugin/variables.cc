// The kernel of ops on resource variables that run outside a launch (eagerly, or left out of every cluster).
//
// The C ABI gives such an op its serialized resource handles, nothing more. With them it calls back into the
// user's eager context: reads the variables, runs the op's dataflow form (or TensorFlow's CPU kernel on
// copies), and assigns the new values.
#include <cstring>
#include <memory>
#include <mutex>

#include "plugin/eager.h"
#include "plugin/executor.h"
#include "plugin/planned.h"
#include "plugin/register.h"
#include "plugin/stock.h"
#include "plugin/updating.h"
#include "runtime/callbacks.h"
#include "runtime/counters.h"

namespace habana {

namespace {

struct VariableKernel {
  Planned<VariablePlan> plan;
  std::once_flag once;
  std::unique_ptr<ClusterKernel> cluster;  // of the dataflow form

  explicit VariableKernel(std::string node_def) : plan(std::move(node_def)) {}
};

// An input of the op: a variable, or a plain tensor in memory this process can read.
struct OpInput {
  TF_Tensor* tensor = nullptr;
  bool variable = false;
  Handle handle;     // of the variable; for TensorFlow's CPU kernel, of every input
  Handle value;      // of the variable, as last read
  int updated = -1;  // its number among the variables that the op updates
};

// The state of one Compute.
class VariableOp {
 public:
  VariableOp(VariableKernel* kernel, TF_OpKernelContext* ctx) : kernel_(kernel), ctx_(ctx), tensors_(ctx) {}

  Status Run() {
    HABANA_RETURN_IF_ERROR(Usable());
    HABANA_RETURN_IF_ERROR(kernel_->plan.Get(&Callbacks::variable_plan, &plan_));
    HABANA_RETURN_IF_ERROR(GetEagerContext(&context_));
    HABANA_RETURN_IF_ERROR(GetInputs());
    GetCounters().variable_ops.fetch_add(1, std::memory_order_relaxed);
    const SynchronousOps synchronous(context_);
    return plan_->stock ? RunStock() : RunDataflow();
  }

 private:
  Status GetInputs() {
    TfStatus status;
    inputs_.resize(static_cast<size_t>(TF_NumInputs(ctx_)));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      OpInput& input = inputs_[i];
      TensorPtr tensor;
      HABANA_RETURN_IF_ERROR(tensors_.Input(static_cast<int>(i), &tensor));
      input.tensor = tensors_.Keep(std::move(tensor));
      input.variable = TF_TensorType(input.tensor) == TF_RESOURCE;
      if (input.variable || plan_->stock) {
        input.handle = Handle(TFE_NewTensorHandle(ForCpu(input.tensor, &tensors_), status.get()));
        if (!status.ok()) return FromTf(status.get());
      }
    }
    return {};
  }

  // Reads every variable on the card; those that are updated only for what TensorFlow says of one that is not
  // there or has no value, where their locks do not.
  Status ReadAll() {
    TfStatus status;
    for (OpInput& input : inputs_) {
      if (!input.variable || (input.updated >= 0 && !UpdatedVariables::ByMutex())) continue;
      Handle value = ReadVariable(context_, kHpu, input.handle, plan_->dtype, status.get());
      if (!status.ok()) return UnreadVariable(status.get());
      if (input.updated < 0) input.value = std::move(value);
    }
    return {};
  }

  // Gives the execution its inputs, with the variables' values as last read.
  Status AddInputs(Execution* execution) {
    execution->ClearInputs();
    for (int index : kernel_->cluster->order()) {
      const OpInput& input = inputs_[static_cast<size_t>(index)];
      if (!input.variable) {
        execution->AddInput(input.tensor);
        continue;
      }
      if (input.updated >= 0) {
        execution->AddInput(updated_->value(static_cast<size_t>(input.updated)));
        continue;
      }
      DeviceValue value;
      HABANA_RETURN_IF_ERROR(ValueOf(input.value, plan_->dtype, &value));
      execution->AddInput(plan_->dtype, value.dims, value.data, value.nbytes);
    }
    return {};
  }

  // Takes note of the inputs that are updated, and reads the other variables. Those that are updated are read
  // under their locks.
  Status BeginUpdate(const std::vector<int>& updates) {
    for (int index : updates) {
      inputs_[static_cast<size_t>(index)].updated = static_cast<int>(handles_.size());
      handles_.push_back(index);
      dtypes_.push_back(plan_->dtype);
    }
    updated_ = UpdatedVariables::Of(&tensors_, handles_, dtypes_);
    return ReadAll();
  }

  Status RunDataflow() {
    std::call_once(kernel_->once, [&] { kernel_->cluster = std::make_unique<ClusterKernel>(plan_->info); });
    std::vector<int> updates;
    for (const auto& assign : plan_->assigns) updates.push_back(assign.second);
    Execution execution(kernel_->cluster.get(), &tensors_);
    Status status = BeginUpdate(updates);
    if (status.ok()) status = FindLocked(updated_.get(), &execution, [&] { return AddInputs(&execution); });
    if (status.ok()) status = WriteNewValues(&execution);
    updated_->Unlock();
    return status.ok() ? status : tensors_.Explained(std::move(status), execution.name());
  }

  Status WriteNewValues(Execution* execution) {
    const Program& program = execution->program();
    for (size_t i = 0; i < plan_->results.size(); ++i) {
      HABANA_RETURN_IF_ERROR(
          execution->ToOutput(static_cast<size_t>(plan_->results[i]), static_cast<int>(i)));
    }
    const bool interpreted = program.body != nullptr && !handles_.empty();
    std::vector<std::pair<size_t, char*>> made;
    for (const auto& [output, variable] : plan_->assigns) {
      const auto k = static_cast<size_t>(output);
      char* data = nullptr;
      Status status = Fits(program, k, variable);
      if (status.ok() && interpreted) {
        status = tensors_.Temporary(program.outputs[k].nbytes, "the new value of a variable", &data);
        made.emplace_back(k, data);
      } else if (status.ok()) {
        status = Memory(variable, &data);
      }
      if (status.ok()) status = execution->ToMemory(k, data);
      if (!status.ok()) return status;
    }
    Status status = interpreted ? RunYielded(updated_.get(), execution, [&] { return Again(execution); })
                                : execution->Run();
    for (size_t i = 0; i < made.size() && status.ok(); ++i) {
      char* memory = nullptr;
      status = Memory(plan_->assigns[i].second, &memory);
      if (status.ok() && made[i].second != nullptr) {
        std::memcpy(memory, made[i].second, program.outputs[made[i].first].nbytes);
      }
    }
    return status.ok() ? updated_->Keep() : status;
  }

  TF_Tensor* Present(int variable) const {
    return updated_->value(static_cast<size_t>(inputs_[static_cast<size_t>(variable)].updated));
  }

  Status Fits(const Program& program, size_t k, int variable) const {
    if (k < program.outputs.size()) return SameShape(Present(variable), program, k);
    return Status(Code::kInternal, "program '" + program.name + "' has " +
                                       std::to_string(program.outputs.size()) +
                                       " outputs, and its op wants number " + std::to_string(k));
  }

  // Where a variable's new value goes: it is made of the present one, which is read meanwhile.
  Status Memory(int variable, char** data) {
    TF_Tensor* memory = nullptr;
    const auto k = static_cast<size_t>(inputs_[static_cast<size_t>(variable)].updated);
    const Status status = updated_->Memory(k, /*over=*/false, &memory);
    if (status.ok()) *data = static_cast<char*>(TF_TensorData(memory));
    return status;
  }

  // The variables have other values now.
  Status Again(Execution* execution) {
    const std::vector<int>& order = kernel_->cluster->order();
    for (const auto& [output, variable] : plan_->assigns) {
      HABANA_RETURN_IF_ERROR(Fits(execution->program(), static_cast<size_t>(output), variable));
      for (size_t k = 0; k < order.size(); ++k) {
        if (order[k] == variable) execution->MoveInput(k, Present(variable));
      }
    }
    return {};
  }

  // TensorFlow's own CPU kernel, on copies of the variables.
  Status RunStock() {
    std::vector<int> updates;
    for (size_t i = 0; i < inputs_.size() && !plan_->read_only; ++i) {
      if (inputs_[i].variable) updates.push_back(static_cast<int>(i));
    }
    Status status = BeginUpdate(updates);
    if (status.ok()) status = updated_->Lock();
    if (status.ok()) status = UpdateByStock();
    if (status.ok()) status = updated_->Keep();
    updated_->Unlock();
    return status.ok() ? status : tensors_.Explained(std::move(status), plan_->op.op);
  }

  Status UpdateByStock() {
    TfStatus status;
    std::vector<Handle> copies(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].variable) continue;
      copies[i] = NewVariable(context_, kCpu, plan_->dtype, status.get());
      if (!status.ok()) return FromTf(status.get());
      const TensorPtr read(
          inputs_[i].updated >= 0 ? nullptr : TFE_TensorHandleResolve(inputs_[i].value.get(), status.get()));
      if (!status.ok()) return FromTf(status.get());
      // In memory of its own: CPU kernels write where a variable of theirs is, and some of them to memory
      // that they share.
      const TensorPtr own = HostCopy(read != nullptr ? read.get() : Present(static_cast<int>(i)));
      const Handle value(TFE_NewTensorHandle(own.get(), status.get()));
      if (status.ok()) AssignVariable(context_, kCpu, copies[i], value, plan_->dtype, status.get());
      if (!status.ok()) return FromTf(status.get());
    }
    std::vector<const Handle*> inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs.push_back(inputs_[i].variable ? &copies[i] : &inputs_[i].handle);
    }
    HABANA_RETURN_IF_ERROR(RunOnCpu(context_, plan_->op, inputs, &tensors_));
    for (size_t i = 0; i < inputs_.size() && !plan_->read_only; ++i) {
      if (!inputs_[i].variable) continue;
      const Handle value = ReadVariable(context_, kCpu, copies[i], plan_->dtype, status.get());
      if (!status.ok()) return FromTf(status.get());
      HABANA_RETURN_IF_ERROR(Overwrite(static_cast<int>(i), value));
    }
    return {};
  }

  // A variable that is locked gets what its copy on the CPU has now.
  Status Overwrite(int variable, const Handle& value) {
    TfStatus status;
    const TensorPtr made(TFE_TensorHandleResolve(value.get(), status.get()));
    if (!status.ok()) return FromTf(status.get());
    if (Dims(made.get()) != Dims(Present(variable))) {
      return Status(Code::kInternal, plan_->op.op + " changed the shape of a variable");
    }
    TF_Tensor* memory = nullptr;
    const auto k = static_cast<size_t>(inputs_[static_cast<size_t>(variable)].updated);
    const Status given = updated_->Memory(k, /*over=*/true, &memory);
    if (given.ok() && TF_TensorByteSize(memory) > 0)
      std::memcpy(TF_TensorData(memory), TF_TensorData(made.get()), TF_TensorByteSize(memory));
    return given;
  }

  VariableKernel* kernel_;
  TF_OpKernelContext* ctx_;
  TFE_Context* context_ = nullptr;
  std::shared_ptr<const VariablePlan> plan_;
  Tensors tensors_;
  std::vector<OpInput> inputs_;
  std::vector<int> handles_;  // the inputs that are updated
  std::vector<int> dtypes_;   // of these
  std::unique_ptr<UpdatedVariables> updated_;
};

void Compute(void* kernel, TF_OpKernelContext* ctx) {
  Finish(ctx, VariableOp(static_cast<VariableKernel*>(kernel), ctx).Run());
}

}  // namespace

const KernelFunctions kVariableOp{CreateFromNode<VariableKernel>, Compute, Destroy<VariableKernel>};

}  // namespace habana
