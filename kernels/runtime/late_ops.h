// Registers ops and kernels that a program defines after the plugin is loaded.
//
// The bridge knows no TensorFlow, so it calls the functions that the plugin sets here when it is loaded.
// TensorFlow cannot unregister: ops and kernels stay.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/callbacks.h"
#include "runtime/export.h"
#include "runtime/status.h"

namespace habana {

// Axes of an output: those of an input from `begin` to `end`, or (input -1) one of `length`, -1 if unknown.
struct ShapePart {
  int input;
  int64_t begin;
  int64_t end;
  int64_t length;
};

struct OutputShape {
  bool known;
  std::vector<ShapePart> parts;
};

// An op in TensorFlow's words. It must not be there yet, and be well formed: TensorFlow ends the process over
// one that is not (see habana_tf/custom/signature.py).
struct NewOp {
  std::string name;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> attrs;
  std::vector<OutputShape> shapes;  // one per output, or none
};

struct Registrar {
  Status (*op)(const NewOp& op);
  Status (*kernel)(const Registration& kernel);
};

HABANA_EXPORT void SetRegistrar(const Registrar& registrar);
HABANA_EXPORT Status RegisterOp(const NewOp& op);
HABANA_EXPORT Status RegisterKernel(const Registration& kernel);

}  // namespace habana
