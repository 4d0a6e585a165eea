// A TensorFlow status code with its text, without TensorFlow.
#pragma once

#include <string>
#include <utility>

namespace habana {

// Those of TensorFlow's codes (TF_Code) that the runtime uses.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kInternal = 13,
};

struct Status {
  int code = 0;
  std::string message;

  Status() = default;
  Status(Code c, std::string text) : code(static_cast<int>(c)), message(std::move(text)) {}
  bool ok() const { return code == 0; }
};

// Ends a function with the error of an expression, if it is one; as TF_RETURN_IF_ERROR in TensorFlow.
#define HABANA_RETURN_IF_ERROR(...)               \
  do {                                            \
    ::habana::Status error_or_ok = (__VA_ARGS__); \
    if (!error_or_ok.ok()) return error_or_ok;    \
  } while (false)

}  // namespace habana
