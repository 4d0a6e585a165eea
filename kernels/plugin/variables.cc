#include "plugin/variables.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "plugin/eager.h"
#include "plugin/launch.h"
#include "plugin/stock.h"
#include "runtime/callbacks.h"
#include "runtime/counters.h"
#include "runtime/resolver.h"

namespace habana {

namespace {

struct VariableKernel {
  std::string node_def;
  std::mutex mutex;
  std::shared_ptr<const VariablePlan> plan;
  std::unique_ptr<ClusterKernel> cluster;  // of the dataflow form
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
  bool variable = false;
  Handle handle;  // of the variable
  Handle value;   // of the variable, as last read
  std::vector<int64_t> dims;
  InputView view{};
};

// The state of one Compute.
class VariableOp {
 public:
  VariableOp(VariableKernel* kernel, TF_OpKernelContext* ctx) : kernel_(kernel), ctx_(ctx) {}

  Status Run() {
    Status status = Plan();
    if (status.ok()) status = GetEagerContext(&context_);
    if (status.ok()) status = GetInputs();
    if (!status.ok()) return status;
    GetCounters().variable_ops.fetch_add(1, std::memory_order_relaxed);
    const SynchronousOps synchronous(context_);
    return plan_->stock ? RunStock() : RunDataflow();
  }

 private:
  Status Plan() {
    {
      std::lock_guard<std::mutex> lock(kernel_->mutex);
      plan_ = kernel_->plan;
    }
    if (plan_ == nullptr) {
      auto plan = std::make_shared<VariablePlan>();
      {
        CallbackScope python;
        if (!python.status().ok()) return python.status();
        const Status status = python->variable_plan(kernel_->node_def, plan.get());
        if (!status.ok()) return status;
      }
      std::lock_guard<std::mutex> lock(kernel_->mutex);
      if (kernel_->plan == nullptr) {
        if (!plan->stock) kernel_->cluster = std::make_unique<ClusterKernel>(plan->info);
        kernel_->plan = std::move(plan);
      }
      plan_ = kernel_->plan;
    }
    return {};
  }

  Status GetInputs() {
    TfStatus status;
    const int count = TF_NumInputs(ctx_);
    inputs_.resize(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      OpInput& input = inputs_[static_cast<size_t>(i)];
      TF_Tensor* tensor = nullptr;
      TF_GetInput(ctx_, i, &tensor, status.get());
      if (!status.ok()) return FromTf(status.get());
      if (tensor == nullptr) return Status(Code::kInternal, "input " + std::to_string(i) + " has no tensor");
      tensors_.Add(tensor);
      input.variable = TF_TensorType(tensor) == TF_RESOURCE;
      input.view.dtype = static_cast<int>(TF_TensorType(tensor));
      input.view.rank = TF_NumDims(tensor);
      for (int d = 0; d < input.view.rank; ++d) input.dims.push_back(TF_Dim(tensor, d));
      input.view.data = static_cast<char*>(TF_TensorData(tensor));
      input.view.nbytes = TF_TensorByteSize(tensor);
      if (input.variable) locks_.Want(input.view.data, input.view.nbytes);
      if (input.variable || plan_->stock) {
        input.handle = Handle(TFE_NewTensorHandle(tensor, status.get()));
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

  // The program's inputs, in its order, with the variables' values as last read.
  Status ProgramInputs(std::vector<InputView>* views) {
    TfStatus status;
    views->clear();
    for (int index : kernel_->cluster->order()) {
      OpInput& input = inputs_[static_cast<size_t>(index)];
      InputView view = input.view;
      if (input.variable) {
        view.dtype = plan_->dtype;
        view.rank = TFE_TensorHandleNumDims(input.value.get(), status.get());
        input.dims.clear();
        int64_t elements = 1;
        for (int d = 0; d < view.rank; ++d) {
          input.dims.push_back(TFE_TensorHandleDim(input.value.get(), d, status.get()));
          elements *= input.dims.back();
        }
        view.nbytes = static_cast<size_t>(elements) * DataTypeSize(plan_->dtype);
        view.data = view.nbytes == 0
                        ? nullptr
                        : static_cast<char*>(TFE_TensorHandleDevicePointer(input.value.get(), status.get()));
        if (!status.ok()) return FromTf(status.get());
      }
      view.dims = input.dims.data();
      views->push_back(view);
    }
    return {};
  }

  Status RunDataflow() {
    ClusterKernel& cluster = *kernel_->cluster;
    std::vector<InputView> views;
    ProgramPtr program;
    for (;;) {
      locks_.Lock();
      Status status = ReadAll();
      if (status.ok()) status = ProgramInputs(&views);
      if (!status.ok()) return status;
      program = cluster.FindKnown(views);
      if (program != nullptr) break;
      locks_.Unlock();  // compiling takes the GIL
      status = cluster.Find(views, &program);
      if (!status.ok()) return status;
    }
    TfStatus status;
    const int64_t refusals = GetCounters().host_memory_refusals.load();
    const auto exhausted = [&](const std::string& what, size_t asked) {
      locks_.Unlock();
      if (status.code() != TF_RESOURCE_EXHAUSTED) return FromTf(status.get());
      return OutOfMemory(program->name, what, asked, GetCounters().host_memory_refusals.load() != refusals);
    };

    std::vector<char*> outputs(program->outputs.size(), nullptr);
    std::vector<Handle> new_values(program->outputs.size());
    for (const auto& [output, variable] : plan_->assigns) {
      const Output& out = program->outputs[static_cast<size_t>(output)];
      TF_AllocatorAttributes attributes;
      attributes.struct_size = TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE;
      attributes.on_host = 0;
      const int rank = static_cast<int>(out.dims.size());
      TF_Tensor* tensor = TF_AllocateTemp(ctx_, static_cast<TF_DataType>(out.dtype), out.dims.data(), rank,
                                          &attributes, status.get());
      if (tensor != nullptr && !status.ok()) TF_DeleteTensor(tensor);
      if (!status.ok()) return exhausted("the new value of a variable", out.nbytes);
      outputs[static_cast<size_t>(output)] = static_cast<char*>(TF_TensorData(tensor));
      // The handle owns the tensor from here on, and with it the variable it is assigned to.
      new_values[static_cast<size_t>(output)] = Handle(TFE_NewTensorHandleFromDeviceMemory(
          context_, kHpu, static_cast<TF_DataType>(out.dtype), out.dims.data(), rank, TF_TensorData(tensor),
          out.nbytes, [](void*, size_t, void* owner) { TF_DeleteTensor(static_cast<TF_Tensor*>(owner)); },
          tensor, status.get()));
      if (!status.ok()) return FromTf(status.get());
    }
    for (size_t i = 0; i < plan_->results.size(); ++i) {
      const size_t from = static_cast<size_t>(plan_->results[i]);
      const Output& out = program->outputs[from];
      TF_Tensor* tensor =
          TF_AllocateOutput(ctx_, static_cast<int>(i), static_cast<TF_DataType>(out.dtype), out.dims.data(),
                            static_cast<int>(out.dims.size()), out.nbytes, status.get());
      if (tensor != nullptr) tensors_.Add(tensor);
      if (!status.ok()) return exhausted("output " + std::to_string(i), out.nbytes);
      outputs[from] = static_cast<char*>(TF_TensorData(tensor));
    }
    for (InputView& view : views) {
      if (view.nbytes == 0 || reinterpret_cast<uintptr_t>(view.data) % kAlignment == 0) continue;
      char* copy = tensors_.Temporary(ctx_, view.nbytes, status.get());
      if (copy == nullptr) return exhausted("an aligned copy of an input", view.nbytes);
      std::memcpy(copy, view.data, view.nbytes);
      view.data = copy;
    }
    char* workspace = nullptr;
    if (program->workspace > 0) {
      workspace = tensors_.Temporary(ctx_, program->workspace, status.get());
      if (workspace == nullptr) return exhausted("the workspace", program->workspace);
    }
    std::vector<RandomState> states;
    cluster.ReserveStates(*program, &states);
    const Status ran = program->Run({&views, outputs.data(), workspace, states.data(), states.size()});
    if (!ran.ok()) return ran;
    for (const auto& [output, variable] : plan_->assigns) {
      AssignVariable(context_, kHpu, inputs_[static_cast<size_t>(variable)].handle,
                     new_values[static_cast<size_t>(output)], plan_->dtype, status.get());
      if (!status.ok()) return FromTf(status.get());
    }
    return {};
  }

  // TensorFlow's own CPU kernel, on copies of the variables.
  Status RunStock() {
    locks_.Lock();
    Status read = ReadAll();
    if (!read.ok()) return read;
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
    const Status ran = RunOnCpu(context_, plan_->op, inputs, ctx_, &tensors_);
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

}  // namespace

void* CreateVariableOp(TF_OpKernelConstruction* ctx) {
  auto kernel = std::make_unique<VariableKernel>();
  if (!ReadNodeDef(ctx, &kernel->node_def)) return nullptr;
  return kernel.release();
}

void ComputeVariableOp(void* kernel, TF_OpKernelContext* ctx) {
  Status status = Usable();
  if (status.ok()) status = VariableOp(static_cast<VariableKernel*>(kernel), ctx).Run();
  if (!status.ok()) Fail(ctx, status);
}

void DeleteVariableOp(void* kernel) { delete static_cast<VariableKernel*>(kernel); }

}  // namespace habana
