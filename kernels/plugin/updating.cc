#include "plugin/updating.h"

#include <string>

namespace habana {

namespace {

// One of the threads that update a variable at the same time always gets on: so many tries are for nothing
// only where others are far quicker.
constexpr int kMostTries = 1000;

std::string Text(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (int64_t n : dims) text += (text.size() > 1 ? "," : "") + std::to_string(n);
  return text + "]";
}

}  // namespace

Status SameShape(const TF_Tensor* value, const Program& program, size_t k) {
  if (Dims(value) == program.outputs[k].dims) return {};
  return Status(Code::kInvalidArgument, "a value of shape " + Text(program.outputs[k].dims) +
                                            " is assigned to a variable of shape " + Text(Dims(value)) +
                                            ", in launch '" + program.name + "'");
}

Status RunYielded(UpdatedVariables* variables, Execution* execution, const std::function<Status()>& moved) {
  for (int tries = 0; tries < kMostTries; ++tries) {
    variables->Yield();  // which may give a variable other memory with the same value
    Status status = moved();
    if (status.ok()) status = execution->Run();
    bool same = false;
    if (status.ok()) status = variables->LockAgain(&same);
    if (!status.ok() || same) return status;
  }
  return Status(Code::kAborted,
                "other threads updated the variables of an interpreted launch " + std::to_string(kMostTries) +
                    " times while it ran, so that its values were old each time: update them from one "
                    "thread, or see why the launch is not compiled (habana_tf.recompilation_report())");
}

}  // namespace habana
