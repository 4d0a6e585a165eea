// The variables that a kernel of HPU updates, and the one lock protocol of all such kernels.
//
// The protocol. An op that TensorFlow's CPU kernel does in one step (assign_add, scatter updates, optimizers,
// draws from a generator) is one step here too, in whichever form it runs: by itself, in a launch, or by a
// CPU kernel on a copy.
//  - The lock of a variable is TensorFlow's own mutex of it, which TensorFlow's kernels for every device
//    (AssignAddVariableOp, AssignVariableOp, ReadVariableOp) take too. An op takes those of all its variables
//    at once, in the order of their addresses, as TensorFlow's optimizers do.
//  - It is held from the read of the present value until the new one stands. The value is read under it,
//    never taken from a read before.
//  - It is never held while Python's lock is taken: a program that is not known yet is compiled without it,
//    and the values are read again. A body that is interpreted runs without it on the values as they were;
//    the new value counts only if the variable still has the old one, else the body runs again.
//  - Under it there is no wait for another op: a CPU kernel is run on this thread, a program on it and the
//    pool.
//
// What it does not cover. TensorFlow from 2.19 on lets a plugin take no mutex of a variable: there ops by
// themselves take locks of ours (`variables.cc`), AssignAddVariableOp and AssignSubVariableOp TensorFlow's
// mutex, and launches, which read and assign as nodes of the graph, none. On all releases, an update in a
// function is not one step where it cannot be part of the launch that computes it: a second update of a
// variable behind another launch, one that waits for a check of that launch's result or for an op on strings,
// and one beside a `numpy_function`.
//
// New values. Where nothing else holds the present value, the new one may be written over it. Otherwise the
// variable gets new memory: a reader keeps the old.
#pragma once

#include <vector>

#include "plugin/tensors.h"

struct TF_VariableInputLockHolder;

namespace habana {

class UpdatedVariables {
 public:
  // inputs: those of the op that are handles of the variables. Both outlive this.
  UpdatedVariables(Tensors* tensors, const std::vector<int>& inputs) : tensors_(tensors), inputs_(inputs) {}
  ~UpdatedVariables() { Unlock(); }
  UpdatedVariables(const UpdatedVariables&) = delete;
  UpdatedVariables& operator=(const UpdatedVariables&) = delete;

  // Whether this TensorFlow lets a plugin do so: some export no functions for it.
  static bool Possible();

  bool empty() const { return inputs_.empty(); }
  // Waits for all that read or update one of them now, and reads them; after it others wait.
  Status Lock();
  // The value of variable `k` as it was when it was locked.
  TF_Tensor* value(size_t k) const { return variables_[k].value.get(); }
  // Where the new value of variable `k` is to be written, while it is locked: its value's memory where it may
  // be `over` that and nothing else holds it, or new memory, which is the variable's from here on.
  Status Memory(size_t k, bool over, TF_Tensor** memory);
  // All new values are written. Without it `Unlock` gives the variables their old ones.
  void Keep() { kept_ = true; }
  // Others may use the variables again; the values as they were are still there.
  void Yield();
  // Locks them again after `Yield`. same: whether each still has the value it had; if not, `value` is the new
  // one.
  Status LockAgain(bool* same);
  void Unlock();

 private:
  struct Variable {
    TensorPtr value;
    TensorPtr memory;        // the variable's, where that is not the memory of `value`
    int twin = -1;           // an input before this one that is the same variable
    bool is_former = false;  // a later one is
  };

  static void Replace(TF_OpKernelContext* ctx, TF_Tensor* source, TF_Tensor* dest);
  Status Get(size_t k, Variable* variable);
  int Twin(size_t k, const TF_Tensor* memory) const;
  TF_Tensor* FirstRead(size_t k) const;

  Tensors* tensors_;
  const std::vector<int>& inputs_;
  TF_VariableInputLockHolder* locks_ = nullptr;
  std::vector<Variable> variables_;
  bool kept_ = false;
};

}  // namespace habana
