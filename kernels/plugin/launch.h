// The kernel behind HpuLaunch and behind every op of the op table: one launch of one cluster.
#pragma once

#include <string>
#include <vector>

#include "runtime/program.h"
#include "runtime/resolver.h"
#include "tensorflow/c/kernels.h"

namespace habana {

// Kernel functions of TensorFlow's C ABI. HpuLaunch carries its cluster; an op's cluster is made from its
// NodeDef at the first use; an in-place op may take over the buffer of an input for its output.
void* CreateLaunch(TF_OpKernelConstruction* ctx);
void* CreateOp(TF_OpKernelConstruction* ctx);
void* CreateInPlaceOp(TF_OpKernelConstruction* ctx);
void ComputeLaunch(void* kernel, TF_OpKernelContext* ctx);
void DeleteLaunch(void* kernel);

// The serialized NodeDef of the kernel under construction; a failed status is given to TensorFlow as well.
bool ReadNodeDef(TF_OpKernelConstruction* ctx, std::string* node_def);

// This process may use the device: it was not forked off one that did, and it has a card, claimed now if need
// be. Takes the GIL to say who holds the cards when none is free.
Status Usable();

// Tensors of one launch; deleted at the end of the scope, which leaves TensorFlow's own references.
class Tensors {
 public:
  Tensors() = default;
  ~Tensors();
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  // Device memory for the time of this launch, 64-byte aligned; null and a status when there is none.
  char* Temporary(TF_OpKernelContext* ctx, size_t nbytes, TF_Status* status);
  void Add(TF_Tensor* tensor) { tensors_.push_back(tensor); }

 private:
  std::vector<TF_Tensor*> tensors_;
};

// "<what> of launch '<name>' asks for ...": the bytes asked, in use and total.
Status OutOfMemory(const std::string& name, const std::string& what, size_t asked, bool host_ran_short);

}  // namespace habana
