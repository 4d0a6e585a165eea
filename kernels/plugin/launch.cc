#include "plugin/launch.h"

#include <algorithm>
#include <cstring>

#include "plugin/memory.h"
#include "plugin/status.h"
#include "runtime/callbacks.h"
#include "runtime/card.h"
#include "runtime/counters.h"
#include "runtime/host_memory.h"
#include "tensorflow/c/tf_buffer.h"

namespace habana {

namespace {

// Scratch space of a launching thread. A launch that starts inside another one on the same thread (the
// compiler may run TensorFlow ops) gets its own.
struct Scratch {
  std::vector<InputView> inputs;
  std::vector<int64_t> dims;
  std::vector<char*> outputs;
  std::vector<std::pair<char*, size_t>> copies_out;  // aligned stand-in, output index
  std::vector<RandomState> states;
  bool busy = false;
};

class ScratchLease {
 public:
  ScratchLease() {
    thread_local Scratch shared;
    if (shared.busy) {
      mine_ = std::make_unique<Scratch>();
      scratch_ = mine_.get();
    } else {
      scratch_ = &shared;
    }
    scratch_->busy = true;
    scratch_->inputs.clear();
    scratch_->dims.clear();
    scratch_->outputs.clear();
    scratch_->copies_out.clear();
    scratch_->states.clear();
  }
  ~ScratchLease() { scratch_->busy = false; }
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;
  Scratch* operator->() const { return scratch_; }

 private:
  Scratch* scratch_;
  std::unique_ptr<Scratch> mine_;
};

struct LaunchKernel {
  ClusterKernel cluster;
  bool in_place;

  LaunchKernel(std::string text, bool is_node, bool take_over)
      : cluster(std::move(text), is_node), in_place(take_over) {}
};

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; }

}  // namespace

Status Usable() {
  if (InForkedChild()) return ForkedChildStatus();
  if (CardReady() || ClaimCard()) return {};
  CallbackScope python;
  if (!python.status().ok()) return python.status();
  std::string text;
  const Status said = python->no_card(&text);
  return said.ok() ? Status(Code::kFailedPrecondition, text) : said;
}

Tensors::~Tensors() {
  for (TF_Tensor* tensor : tensors_) TF_DeleteTensor(tensor);
}

char* Tensors::Temporary(TF_OpKernelContext* ctx, size_t nbytes, TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  if (nbytes == 0) return nullptr;
  if (nbytes > static_cast<size_t>(GetCard().hbm_bytes) || BeyondHost(nbytes)) {
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "larger than the card or its host");
    return nullptr;
  }
  TF_AllocatorAttributes attributes;
  attributes.struct_size = TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE;
  attributes.on_host = 0;
  const int64_t dims[1] = {static_cast<int64_t>(nbytes)};
  TF_Tensor* tensor = TF_AllocateTemp(ctx, TF_UINT8, dims, 1, &attributes, status);
  if (tensor == nullptr) return nullptr;
  tensors_.push_back(tensor);
  if (TF_GetCode(status) != TF_OK) return nullptr;
  return static_cast<char*>(TF_TensorData(tensor));
}

bool ReadNodeDef(TF_OpKernelConstruction* ctx, std::string* node_def) {
  TfStatus status;
  TF_Buffer* buffer = TF_OpKernelConstruction_GetNodeDef(ctx, status.get());
  if (!status.ok() || buffer == nullptr) {
    TF_OpKernelConstruction_Failure(ctx, status.get());
    return false;
  }
  node_def->assign(static_cast<const char*>(buffer->data), buffer->length);
  TF_DeleteBuffer(buffer);
  return true;
}

Status OutOfMemory(const std::string& name, const std::string& what, size_t asked, bool host_ran_short) {
  std::string usage;
  {
    CallbackScope python;
    if (!python.status().ok() || !python->memory_text(&usage).ok()) {
      usage = "total " + std::to_string(GetCard().hbm_bytes) + " bytes";
    }
  }
  std::string text = "HPU:0 is out of memory: " + what + " of launch '" + name + "' asks for " +
                     std::to_string(asked) + " bytes; " + usage;
  if (host_ran_short) {
    const HostMemory host = ReadHostMemory();
    text +=
        "; the host memory of this machine ran short first (" + std::to_string(host.available) + " of " +
        std::to_string(host.total) +
        " bytes available): the simulated card is larger than its host. Use a smaller batch or model, or a "
        "host with more memory";
  } else {
    text += ". Use a smaller batch or model";
  }
  return Status(Code::kResourceExhausted, text);
}

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
  if (!status.ok()) {
    TF_OpKernelConstruction_Failure(ctx, status.get());
    return nullptr;
  }
  return new LaunchKernel(std::move(cluster), /*is_node=*/false, /*take_over=*/false);
}

namespace {

void* CreateFromNode(TF_OpKernelConstruction* ctx, bool in_place) {
  std::string node_def;
  if (!ReadNodeDef(ctx, &node_def)) return nullptr;
  return new LaunchKernel(std::move(node_def), /*is_node=*/true, in_place);
}

// The copy of an input that an output begins as, if it is one.
const Copy* CopyTo(const Program& program, size_t output) {
  for (const Copy& copy : program.copies) {
    if (copy.output == output) return &copy;
  }
  return nullptr;
}

// What one launch needs besides its kernel object; fails by status.
Status Launch(LaunchKernel* kernel, TF_OpKernelContext* ctx) {
  const Status usable = Usable();
  if (!usable.ok()) return usable;
  ScratchLease scratch;
  Tensors tensors;
  TfStatus status;

  const Status prepared = kernel->cluster.Prepare();
  if (!prepared.ok()) return prepared;

  // Inputs, in the program's order. Extents go to one vector; pointers into it are set once it is complete.
  const std::vector<int>& order = kernel->cluster.order();
  const int num_inputs = order.empty() ? TF_NumInputs(ctx) : static_cast<int>(order.size());
  for (int k = 0; k < num_inputs; ++k) {
    const int i = order.empty() ? k : order[static_cast<size_t>(k)];
    TF_Tensor* tensor = nullptr;
    TF_GetInput(ctx, i, &tensor, status.get());
    if (!status.ok()) return FromTf(status.get());
    if (tensor == nullptr) return Status(Code::kInternal, "input " + std::to_string(i) + " has no tensor");
    InputView view;
    view.dtype = static_cast<int>(TF_TensorType(tensor));
    view.rank = TF_NumDims(tensor);
    view.dims = nullptr;
    for (int d = 0; d < view.rank; ++d) scratch->dims.push_back(TF_Dim(tensor, d));
    view.data = static_cast<char*>(TF_TensorData(tensor));
    view.nbytes = TF_TensorByteSize(tensor);
    TF_DeleteTensor(tensor);  // TensorFlow's context keeps it; our reference would forbid taking it over
    scratch->inputs.push_back(view);
  }
  const int64_t* dims = scratch->dims.data();
  for (InputView& view : scratch->inputs) {
    view.dims = dims;
    dims += view.rank;
  }

  ProgramPtr program;
  Status found = kernel->cluster.Find(scratch->inputs, &program);
  if (!found.ok()) return found;
  if (program->outputs.size() != static_cast<size_t>(TF_NumOutputs(ctx))) {
    return Status(Code::kInternal, "program '" + program->name + "' has " +
                                       std::to_string(program->outputs.size()) + " outputs, its op has " +
                                       std::to_string(TF_NumOutputs(ctx)));
  }

  const int64_t refusals = GetCounters().host_memory_refusals.load();
  const auto exhausted = [&](const std::string& what, size_t asked) {
    if (status.code() != TF_RESOURCE_EXHAUSTED) return FromTf(status.get());
    return OutOfMemory(program->name, what, asked, GetCounters().host_memory_refusals.load() != refusals);
  };

  // Outputs.
  for (size_t i = 0; i < program->outputs.size(); ++i) {
    const Output& output = program->outputs[i];
    TF_Tensor* tensor = nullptr;
    const int rank = static_cast<int>(output.dims.size());
    if (output.nbytes > static_cast<size_t>(GetCard().hbm_bytes)) {
      return OutOfMemory(program->name, "output " + std::to_string(i), output.nbytes, false);
    }
    if (BeyondHost(output.nbytes)) {
      return OutOfMemory(program->name, "output " + std::to_string(i), output.nbytes, true);
    }
    if (kernel->in_place && i == 0) {
      int candidates[8];
      int count = 0;
      for (size_t k = 0; k < scratch->inputs.size() && count < 8; ++k) {
        const InputView& in = scratch->inputs[k];
        if (in.dtype == output.dtype && in.rank == rank &&
            std::equal(output.dims.begin(), output.dims.end(), in.dims)) {
          candidates[count++] = order.empty() ? static_cast<int>(k) : order[k];
        }
      }
      int forwarded = -1;
      tensor = TF_ForwardInputOrAllocateOutput(ctx, candidates, count, 0, output.dims.data(), rank,
                                               &forwarded, status.get());
    } else if (const Copy* copy = CopyTo(*program, i)) {
      // A cache that a step updates: in place, if nobody else holds the old one.
      const int from = order.empty() ? copy->input : order[static_cast<size_t>(copy->input)];
      int forwarded = -1;
      tensor = TF_ForwardInputOrAllocateOutput(ctx, &from, 1, static_cast<int>(i), output.dims.data(), rank,
                                               &forwarded, status.get());
    } else {
      tensor = TF_AllocateOutput(ctx, static_cast<int>(i), static_cast<TF_DataType>(output.dtype),
                                 output.dims.data(), rank, output.nbytes, status.get());
    }
    if (tensor != nullptr) tensors.Add(tensor);
    if (!status.ok()) return exhausted("output " + std::to_string(i), output.nbytes);
    if (tensor == nullptr) return Status(Code::kInternal, "TensorFlow gave no tensor for an output");
    scratch->outputs.push_back(static_cast<char*>(TF_TensorData(tensor)));
  }

  // Generated code expects aligned addresses; slices of tensors may not be.
  for (InputView& in : scratch->inputs) {
    if (in.nbytes == 0 || Aligned(in.data)) continue;
    char* copy = tensors.Temporary(ctx, in.nbytes, status.get());
    if (copy == nullptr) return exhausted("an aligned copy of an input", in.nbytes);
    std::memcpy(copy, in.data, in.nbytes);
    in.data = copy;
    GetCounters().unaligned_copies.fetch_add(1, std::memory_order_relaxed);
  }
  for (size_t i = 0; i < scratch->outputs.size(); ++i) {
    const size_t nbytes = program->outputs[i].nbytes;
    if (nbytes == 0 || Aligned(scratch->outputs[i])) continue;
    char* stand_in = tensors.Temporary(ctx, nbytes, status.get());
    if (stand_in == nullptr) return exhausted("an aligned copy of an output", nbytes);
    scratch->copies_out.emplace_back(scratch->outputs[i], i);
    scratch->outputs[i] = stand_in;
    GetCounters().unaligned_copies.fetch_add(1, std::memory_order_relaxed);
  }

  char* workspace = nullptr;
  if (program->workspace > 0) {
    workspace = tensors.Temporary(ctx, program->workspace, status.get());
    if (workspace == nullptr) return exhausted("the workspace", program->workspace);
  }
  kernel->cluster.ReserveStates(*program, &scratch->states);
  Status ran = program->Run(
      {&scratch->inputs, scratch->outputs.data(), workspace, scratch->states.data(), scratch->states.size()});
  if (!ran.ok()) return ran;
  for (const auto& [address, index] : scratch->copies_out) {
    std::memcpy(address, scratch->outputs[index], program->outputs[index].nbytes);
  }
  return {};
}

}  // namespace

void* CreateOp(TF_OpKernelConstruction* ctx) { return CreateFromNode(ctx, false); }
void* CreateInPlaceOp(TF_OpKernelConstruction* ctx) { return CreateFromNode(ctx, true); }

void ComputeLaunch(void* kernel, TF_OpKernelContext* ctx) {
  const Status status = Launch(static_cast<LaunchKernel*>(kernel), ctx);
  if (!status.ok()) Fail(ctx, status);
}

void DeleteLaunch(void* kernel) { delete static_cast<LaunchKernel*>(kernel); }

}  // namespace habana
