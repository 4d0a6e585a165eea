// Runs a cluster's program on the inputs of a TensorFlow kernel: shared by launches and ops on variables.
//
// A caller adds the inputs, finds the program, says where each output goes, and runs it. This class aligns
// buffers, and provides random states and the workspace. Only `Find`, `Run` of an interpreted program, and
// the end of an Execution with a warning take the GIL.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugin/tensors.h"
#include "runtime/program.h"
#include "runtime/resolver.h"
#include "tensorflow_c/kernels.h"

namespace habana {

// Whether this process may use the device: it is no fork of one that does, and it holds a card, claimed now
// if need be. Takes the GIL to name the holders of the cards when none is free.
Status Usable();

class Execution {
 public:
  // Both outlive this.
  Execution(ClusterKernel* cluster, Tensors* tensors);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // The program's inputs, in its order. Their memory outlives this.
  void ClearInputs();
  void AddInput(const TF_Tensor* tensor);
  void AddInput(int dtype, const std::vector<int64_t>& dims, char* data, size_t nbytes);

  // Input `k` of the program is now another tensor of the same type and shape.
  void MoveInput(size_t k, const TF_Tensor* tensor);

  // The program for these inputs; without Python only one that was met before.
  Status Find();
  bool FindKnown();
  const Program& program() const { return *program_; }
  // Of the program; empty before one is found.
  std::string name() const { return program_ == nullptr ? "" : program_->name; }

  // Memory for output `k` of the program: output `at` of the op, or memory of the caller's.
  Status ToOutput(size_t k, int at, const int* candidates = nullptr, int count = 0);
  Status ToMemory(size_t k, char* data);

  // The inputs, by their number in the op, whose buffers could serve as output `k`; at most `most`.
  int Alike(size_t k, int* candidates, int most) const;
  // The op's number of an input of the program.
  int OpInput(size_t input) const;

  Status Run();

 private:
  // Memory of a launching thread, so that a launch takes none.
  struct Scratch {
    std::vector<InputView> inputs;
    std::vector<int64_t> dims;
    std::vector<char*> outputs;
    std::vector<std::pair<char*, size_t>> copies_out;  // where a stand-in is to be copied, output
    std::vector<RandomState> states;
    bool busy = false;
  };

  const std::vector<InputView>& Inputs();
  Status OutputOf(size_t k, const Output** output) const;
  Status Align();

  ClusterKernel* cluster_;
  Tensors* tensors_;
  ProgramPtr program_;
  std::unique_ptr<Scratch> own_;
  std::string warning_;  // of the launch, told when the caller holds no lock
  Scratch* scratch_;
};

}  // namespace habana
