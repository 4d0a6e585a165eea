#include "plugin/variables.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "plugin/eager.h"
#include "plugin/executor.h"
#include "plugin/planned.h"
#include "plugin/stock.h"
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

// Read, compute and assign of one variable are one step for other ops of this kind, as in TensorFlow's own
// kernels. Variables share locks by hash; an op takes those it needs in ascending order.
class VariableLocks {
 public:
  void Want(const void* handle, size_t nbytes) {
    const std::string_view bytes(static_cast<const char*>(handle), nbytes);
    wanted_.push_back(std::hash<std::string_view>()(bytes) % kLocks);
  }
  void Lock() {
    std::sort(wanted_.begin(), wanted_.end());
    wanted_.erase(std::unique(wanted_.begin(), wanted_.end()), wanted_.end());
    for (size_t i : wanted_) Locks()[i].lock();
    locked_ = true;
  }
  void Unlock() {
    if (!locked_) return;
    for (size_t i : wanted_) Locks()[i].unlock();
    locked_ = false;
  }
  VariableLocks() = default;
  ~VariableLocks() { Unlock(); }
  VariableLocks(const VariableLocks&) = delete;
  VariableLocks& operator=(const VariableLocks&) = delete;

 private:
  static constexpr size_t kLocks = 64;
  static std::array<std::mutex, kLocks>& Locks() {
    static auto* locks = new std::array<std::mutex, kLocks>;
    return *locks;
  }
  std::vector<size_t> wanted_;
  bool locked_ = false;
};

// An input of the op: a variable, or a plain tensor in memory this process can read.
struct OpInput {
  TF_Tensor* tensor = nullptr;
  bool variable = false;
  Handle handle;  // of the variable; for TensorFlow's CPU kernel, of every input
  Handle value;   // of the variable, as last read
};

// The state of one Compute.
class VariableOp {
 public:
  VariableOp(VariableKernel* kernel, TF_OpKernelContext* ctx) : kernel_(kernel), ctx_(ctx), tensors_(ctx) {}

  Status Run() {
    Status status = Usable();
    if (status.ok()) status = kernel_->plan.Get(&Callbacks::variable_plan, &plan_);
    if (status.ok()) status = GetEagerContext(&context_);
    if (status.ok()) status = GetInputs();
    if (!status.ok()) return status;
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
      const Status got = tensors_.Input(static_cast<int>(i), &tensor);
      if (!got.ok()) return got;
      input.tensor = tensors_.Keep(std::move(tensor));
      input.variable = TF_TensorType(input.tensor) == TF_RESOURCE;
      if (input.variable) locks_.Want(TF_TensorData(input.tensor), TF_TensorByteSize(input.tensor));
      if (input.variable || plan_->stock) {
        input.handle = Handle(TFE_NewTensorHandle(ForCpu(input.tensor, &tensors_), status.get()));
        if (!status.ok()) return FromTf(status.get());
      }
    }
    return {};
  }

  // Reads every variable on the card.
  Status ReadAll() {
    TfStatus status;
    for (OpInput& input : inputs_) {
      if (!input.variable) continue;
      input.value = ReadVariable(context_, kHpu, input.handle, plan_->dtype, status.get());
      if (!status.ok()) {
        Status failed = FromTf(status.get());
        failed.message +=
            " [an op on HPU variables that runs outside a launch reads them through TensorFlow's "
            "eager context; it cannot see the variables of a TF1 session]";
        return failed;
      }
    }
    return {};
  }

  // Gives the execution its inputs, with the variables' values as last read.
  Status AddInputs(Execution* execution) {
    TfStatus status;
    execution->ClearInputs();
    for (int index : kernel_->cluster->order()) {
      const OpInput& input = inputs_[static_cast<size_t>(index)];
      if (!input.variable) {
        execution->AddInput(input.tensor);
        continue;
      }
      const int rank = TFE_TensorHandleNumDims(input.value.get(), status.get());
      std::vector<int64_t> dims;
      size_t nbytes = DataTypeSize(plan_->dtype);
      for (int d = 0; d < rank; ++d) {
        dims.push_back(TFE_TensorHandleDim(input.value.get(), d, status.get()));
        nbytes *= static_cast<size_t>(dims.back());
      }
      void* data = nbytes == 0 ? nullptr : TFE_TensorHandleDevicePointer(input.value.get(), status.get());
      if (!status.ok()) return FromTf(status.get());
      execution->AddInput(plan_->dtype, dims, static_cast<char*>(data), nbytes);
    }
    return {};
  }

  // The op's program for the variables as they are; holds their locks when it returns one.
  Status Find(Execution* execution) {
    for (;;) {
      locks_.Lock();
      Status status = ReadAll();
      if (status.ok()) status = AddInputs(execution);
      if (!status.ok() || execution->FindKnown()) return status;
      locks_.Unlock();  // compiling takes the GIL
      status = execution->Find();
      if (!status.ok()) return status;
    }
  }

  // Runs the program and assigns what it gives, with the locks held.
  Status Update(Execution* execution) {
    TfStatus status;
    std::vector<Handle> new_values;
    for (const auto& [output, variable] : plan_->assigns) {
      TensorPtr tensor;
      const Status made =
          execution->ToTensor(static_cast<size_t>(output), "the new value of a variable", &tensor);
      if (!made.ok()) return made;
      // The handle owns the tensor from here on, and with it the variable it is assigned to.
      TF_Tensor* owned = tensor.release();
      const std::vector<int64_t> dims = Dims(owned);
      new_values.emplace_back(TFE_NewTensorHandleFromDeviceMemory(
          context_, kHpu, TF_TensorType(owned), dims.data(), static_cast<int>(dims.size()),
          TF_TensorData(owned), TF_TensorByteSize(owned),
          [](void*, size_t, void* owner) { TF_DeleteTensor(static_cast<TF_Tensor*>(owner)); }, owned,
          status.get()));
      if (!status.ok()) return FromTf(status.get());
    }
    for (size_t i = 0; i < plan_->results.size(); ++i) {
      const Status given = execution->ToOutput(static_cast<size_t>(plan_->results[i]), static_cast<int>(i));
      if (!given.ok()) return given;
    }
    const Status ran = execution->Run();
    if (!ran.ok()) return ran;
    for (size_t k = 0; k < new_values.size(); ++k) {
      const OpInput& variable = inputs_[static_cast<size_t>(plan_->assigns[k].second)];
      AssignVariable(context_, kHpu, variable.handle, new_values[k], plan_->dtype, status.get());
      if (!status.ok()) return FromTf(status.get());
    }
    return {};
  }

  Status RunDataflow() {
    std::call_once(kernel_->once, [&] { kernel_->cluster = std::make_unique<ClusterKernel>(plan_->info); });
    Execution execution(kernel_->cluster.get(), &tensors_);
    Status status = Find(&execution);
    if (status.ok()) status = Update(&execution);
    locks_.Unlock();
    return status.ok() ? status : tensors_.Explained(std::move(status), execution.name());
  }

  // TensorFlow's own CPU kernel, on copies of the variables.
  Status RunStock() {
    locks_.Lock();
    Status status = ReadAll();
    if (status.ok()) status = UpdateByStock();
    locks_.Unlock();
    return status.ok() ? status : tensors_.Explained(std::move(status), plan_->op.op);
  }

  Status UpdateByStock() {
    TfStatus status;
    std::vector<Handle> copies(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].variable) continue;
      copies[i] = NewVariable(context_, kCpu, plan_->dtype, status.get());
      if (status.ok())
        AssignVariable(context_, kCpu, copies[i], inputs_[i].value, plan_->dtype, status.get());
      if (!status.ok()) return FromTf(status.get());
    }
    std::vector<const Handle*> inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs.push_back(inputs_[i].variable ? &copies[i] : &inputs_[i].handle);
    }
    const Status ran = RunOnCpu(context_, plan_->op, inputs, &tensors_);
    if (!ran.ok()) return ran;
    for (size_t i = 0; i < inputs_.size() && !plan_->read_only; ++i) {
      if (!inputs_[i].variable) continue;
      const Handle value = ReadVariable(context_, kCpu, copies[i], plan_->dtype, status.get());
      if (status.ok()) AssignVariable(context_, kHpu, inputs_[i].handle, value, plan_->dtype, status.get());
      if (!status.ok()) return FromTf(status.get());
    }
    return {};
  }

  VariableKernel* kernel_;
  TF_OpKernelContext* ctx_;
  TFE_Context* context_ = nullptr;
  std::shared_ptr<const VariablePlan> plan_;
  Tensors tensors_;
  std::vector<OpInput> inputs_;
  VariableLocks locks_;
};

void Compute(void* kernel, TF_OpKernelContext* ctx) {
  Finish(ctx, VariableOp(static_cast<VariableKernel*>(kernel), ctx).Run());
}

}  // namespace

const KernelFunctions kVariableOp{CreateFromNode<VariableKernel>, Compute, Destroy<VariableKernel>};

}  // namespace habana
