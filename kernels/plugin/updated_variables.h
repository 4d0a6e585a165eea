// The variables that a kernel of HPU updates, and the one lock protocol of all such kernels.
//
// The protocol. An op that TensorFlow's CPU kernel does in one step (assign_add, scatter updates, optimizers,
// draws from a generator) is one step here too, in whichever form it runs: by itself, in a launch, or by a
// CPU kernel on a copy.
//  - The lock of a variable is TensorFlow's own mutex of it, which TensorFlow's kernels for every device
//    (AssignAddVariableOp, AssignVariableOp, ReadVariableOp) take too. An op takes those of all its variables
//    at once, in the order of their addresses, as TensorFlow's optimizers do.
//  - TensorFlow from 2.19 on lets a plugin take no mutex of a variable. There the lock is one of ours
//    (`handle_variables.h`), AssignAddVariableOp and AssignSubVariableOp have kernels of ours that take it,
//    and values are read and assigned by nested eager ops.
//  - It is held from the read of the present value until the new one stands. The value is read under it,
//    never taken from a read before.
//  - It is never held while Python's lock is taken: a program that is not known yet is compiled without it,
//    and the values are read again. A body that is interpreted runs without it on the values as they were;
//    the new value counts only if the variable still has the old one, else the body runs again.
//  - Under it there is no wait for another op: a CPU kernel is run on this thread, a program on it and the
//    pool.
//
// What it does not cover. From 2.19 on, AssignVariableOp takes no lock of ours: a value that it assigns while
// an update computes is overwritten by that update. On all releases, an update in a function is not one step
// where it cannot be part of the launch that computes it: a second update of a variable behind another
// launch, one that waits for a check of that launch's result, for an op on strings, or for Python, and one of
// a variable whose value from before is used both in that launch and outside.
//
// New values. Where nothing else holds the present value, the new one may be written over it. Otherwise the
// variable gets new memory: a reader keeps the old.
#pragma once

#include <memory>
#include <vector>

#include "plugin/tensors.h"

namespace habana {

class UpdatedVariables {
 public:
  // inputs: those of the op that are handles of the variables. dtypes: of the variables. All outlive the
  // result.
  static std::unique_ptr<UpdatedVariables> Of(Tensors* tensors, const std::vector<int>& inputs,
                                              const std::vector<int>& dtypes);
  virtual ~UpdatedVariables() = default;
  UpdatedVariables(const UpdatedVariables&) = delete;
  UpdatedVariables& operator=(const UpdatedVariables&) = delete;

  // Whether this TensorFlow lets a plugin take its mutex of a variable.
  static bool ByMutex();

  bool empty() const { return inputs_.empty(); }
  // Waits for all that read or update one of them now, and reads them; after it others wait.
  virtual Status Lock() = 0;
  // The value of variable `k` as it was when it was locked.
  virtual TF_Tensor* value(size_t k) const = 0;
  // Where the new value of variable `k` is to be written, while it is locked: its value's memory where it may
  // be `over` that and nothing else holds it, or new memory, which is the variable's from `Keep` on.
  virtual Status Memory(size_t k, bool over, TF_Tensor** memory) = 0;
  // All new values are written. Without it `Unlock` leaves the variables their old ones.
  virtual Status Keep() = 0;
  // Others may use the variables again; the values as they were are still there.
  virtual void Yield() = 0;
  // Locks them again after `Yield`. same: whether each still has the value it had; if not, `value` is the new
  // one.
  virtual Status LockAgain(bool* same) = 0;
  virtual void Unlock() = 0;

 protected:
  UpdatedVariables(Tensors* tensors, const std::vector<int>& inputs) : tensors_(tensors), inputs_(inputs) {}

  Tensors* tensors_;
  const std::vector<int>& inputs_;
};

}  // namespace habana
