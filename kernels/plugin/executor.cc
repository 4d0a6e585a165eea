#include "plugin/executor.h"

#include <algorithm>
#include <cstring>

#include "runtime/callbacks.h"
#include "runtime/card.h"
#include "runtime/counters.h"

namespace habana {

namespace {

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; }

}  // namespace

Status Usable() {
  if (InForkedChild()) return ForkedChildStatus();
  if (CardReady() || ClaimCard()) return {};
  if (const std::string file = DamagedFile(); !file.empty()) {
    return Status(Code::kFailedPrecondition,
                  "the file of the simulated machine, " + file +
                      ", was cut short while this process held a card of it: leave it alone while programs "
                      "run, and start this one anew");
  }
  CallbackScope python;
  HABANA_RETURN_IF_ERROR(python.status());
  std::string text;
  const Status said = python->no_card(&text);
  return said.ok() ? Status(Code::kFailedPrecondition, text) : said;
}

// A launch that starts inside another one on the same thread (the compiler may run TensorFlow ops) gets a
// scratch of its own.
Execution::Execution(ClusterKernel* cluster, Tensors* tensors) : cluster_(cluster), tensors_(tensors) {
  thread_local Scratch shared;
  if (shared.busy) own_ = std::make_unique<Scratch>();
  scratch_ = own_ != nullptr ? own_.get() : &shared;
  scratch_->busy = true;
  scratch_->copies_out.clear();
  ClearInputs();
}

Execution::~Execution() {
  scratch_->busy = false;
  if (warning_.empty()) return;
  CallbackScope python;
  if (python.status().ok()) static_cast<void>(python->warn_of_index(warning_));
}

void Execution::ClearInputs() {
  scratch_->inputs.clear();
  scratch_->dims.clear();
}

void Execution::AddInput(const TF_Tensor* tensor) {
  const int rank = TF_NumDims(tensor);
  for (int d = 0; d < rank; ++d) scratch_->dims.push_back(TF_Dim(tensor, d));
  scratch_->inputs.push_back({static_cast<int>(TF_TensorType(tensor)), rank, nullptr,
                              static_cast<char*>(TF_TensorData(tensor)), TF_TensorByteSize(tensor)});
}

void Execution::AddInput(int dtype, const std::vector<int64_t>& dims, char* data, size_t nbytes) {
  scratch_->dims.insert(scratch_->dims.end(), dims.begin(), dims.end());
  scratch_->inputs.push_back({dtype, static_cast<int>(dims.size()), nullptr, data, nbytes});
}

void Execution::MoveInput(size_t k, const TF_Tensor* tensor) {
  scratch_->inputs[k].data = static_cast<char*>(TF_TensorData(tensor));
}

// The extents of all inputs are in one vector; pointers into it are set once it is complete.
const std::vector<InputView>& Execution::Inputs() {
  const int64_t* dims = scratch_->dims.data();
  for (InputView& view : scratch_->inputs) {
    view.dims = dims;
    dims += view.rank;
  }
  return scratch_->inputs;
}

Status Execution::Find() {
  const Status status = cluster_->Find(Inputs(), &program_);
  if (status.ok()) scratch_->outputs.assign(program_->outputs.size(), nullptr);
  return status;
}

bool Execution::FindKnown() {
  program_ = cluster_->FindKnown(Inputs());
  if (program_ != nullptr) scratch_->outputs.assign(program_->outputs.size(), nullptr);
  return program_ != nullptr;
}

Status Execution::OutputOf(size_t k, const Output** output) const {
  if (k < program_->outputs.size()) {
    *output = &program_->outputs[k];
    return {};
  }
  return Status(Code::kInternal, "program '" + name() + "' has " + std::to_string(program_->outputs.size()) +
                                     " outputs, and its op wants number " + std::to_string(k));
}

Status Execution::ToOutput(size_t k, int at, const int* candidates, int count) {
  const Output* out = nullptr;
  HABANA_RETURN_IF_ERROR(OutputOf(k, &out));
  return tensors_->Output(at, {out->dtype, out->dims, out->nbytes}, candidates, count, &scratch_->outputs[k]);
}

Status Execution::ToMemory(size_t k, char* data) {
  const Output* out = nullptr;
  HABANA_RETURN_IF_ERROR(OutputOf(k, &out));
  scratch_->outputs[k] = data;
  return {};
}

int Execution::OpInput(size_t input) const {
  const std::vector<int>& order = cluster_->order();
  return order.empty() ? static_cast<int>(input) : order[input];
}

int Execution::Alike(size_t k, int* candidates, int most) const {
  const Output& out = program_->outputs[k];
  int count = 0;
  for (size_t i = 0; i < scratch_->inputs.size() && count < most; ++i) {
    const InputView& in = scratch_->inputs[i];
    if (in.dtype == out.dtype && static_cast<size_t>(in.rank) == out.dims.size() &&
        std::equal(out.dims.begin(), out.dims.end(), in.dims)) {
      candidates[count++] = OpInput(i);
    }
  }
  return count;
}

// Generated code expects aligned addresses; slices of tensors may not be.
Status Execution::Align() {
  std::atomic<int64_t>& copies = GetCounters().unaligned_copies;
  for (InputView& in : scratch_->inputs) {
    if (in.nbytes == 0 || Aligned(in.data)) continue;
    char* copy = nullptr;
    HABANA_RETURN_IF_ERROR(tensors_->Temporary(in.nbytes, "an aligned copy of an input", &copy));
    std::memcpy(copy, in.data, in.nbytes);
    in.data = copy;
    copies.fetch_add(1, std::memory_order_relaxed);
  }
  for (size_t k = 0; k < scratch_->outputs.size(); ++k) {
    char*& out = scratch_->outputs[k];
    const size_t nbytes = program_->outputs[k].nbytes;
    if (nbytes == 0) continue;
    if (out == nullptr) {
      return Status(Code::kInternal,
                    "output " + std::to_string(k) + " of program '" + program_->name + "' goes nowhere");
    }
    if (Aligned(out)) continue;
    scratch_->copies_out.emplace_back(out, k);
    HABANA_RETURN_IF_ERROR(tensors_->Temporary(nbytes, "an aligned copy of an output", &out));
    copies.fetch_add(1, std::memory_order_relaxed);
  }
  return {};
}

Status Execution::Run() {
  HABANA_RETURN_IF_ERROR(Align());
  char* workspace = nullptr;
  HABANA_RETURN_IF_ERROR(tensors_->Temporary(program_->workspace, "the workspace", &workspace));
  std::vector<RandomState>& states = scratch_->states;
  cluster_->ReserveStates(*program_, &states);
  HABANA_RETURN_IF_ERROR(program_->Run(
      {&scratch_->inputs, scratch_->outputs.data(), workspace, states.data(), states.size(), &warning_}));
  for (const auto& [address, k] : scratch_->copies_out) {
    std::memcpy(address, scratch_->outputs[k], program_->outputs[k].nbytes);
  }
  return {};
}

}  // namespace habana
