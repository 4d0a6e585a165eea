#include "runtime/custom_kernel.h"

#include <cstring>

#include "runtime/kernel_crashes.h"

namespace habana {

namespace {

// Addresses of a call; kept by the thread, so that a call asks for no memory.
struct Scratch {
  std::vector<habana_tensor> tensors;
  std::vector<habana_attr> attrs;
};

void Fill(const std::vector<CustomTensor>& tensors, char** data, std::vector<habana_tensor>* out) {
  for (const CustomTensor& tensor : tensors) {
    out->push_back({*data++, tensor.dims.data(), static_cast<int32_t>(tensor.dims.size()), tensor.dtype});
  }
}

}  // namespace

Status CustomErrors::status() const {
  const CustomKernel* kernel = failed.load(std::memory_order_acquire);
  if (kernel == nullptr) return {};
  std::string text = kernel->op + ": its kernel in " + kernel->library;
  if (message[0] == '\0') {
    text += " returned " + std::to_string(code) + " and no message (habana_fail writes one)";
  } else {
    text += std::string(" says: ") + message;
  }
  return Status(Code::kInvalidArgument, text);
}

void RunCustom(char** buffers, const int64_t* /*dims*/, int64_t begin, int64_t end) {
  const CustomKernel& kernel = *reinterpret_cast<const CustomKernel*>(buffers[0]);
  CustomErrors& errors = *reinterpret_cast<CustomErrors*>(buffers[1]);
  if (errors.failed.load(std::memory_order_relaxed) != nullptr) return;  // the launch is an error already
  thread_local Scratch scratch;
  scratch.tensors.clear();
  scratch.attrs.clear();
  const size_t inputs = kernel.inputs.size();
  const size_t outputs = kernel.outputs.size();
  Fill(kernel.inputs, buffers + 2, &scratch.tensors);
  Fill(kernel.outputs, buffers + 2 + inputs, &scratch.tensors);
  for (const CustomAttr& attr : kernel.attrs) {
    const bool text = attr.kind == "text";
    const bool ints = attr.kind == "int";
    scratch.attrs.push_back({attr.name.c_str(), ints ? attr.ints.data() : nullptr,
                             ints || text ? nullptr : attr.floats.data(), text ? attr.text.c_str() : nullptr,
                             static_cast<int64_t>(text   ? 1
                                                  : ints ? attr.ints.size()
                                                         : attr.floats.size())});
  }
  char message[sizeof(errors.message)] = "";
  const habana_call call{HABANA_KERNEL_ABI,
                         static_cast<int32_t>(inputs),
                         static_cast<int32_t>(outputs),
                         static_cast<int32_t>(kernel.attrs.size()),
                         scratch.tensors.data(),
                         scratch.tensors.data() + inputs,
                         scratch.attrs.data(),
                         kernel.items,
                         buffers[2 + inputs + outputs],
                         kernel.workspace,
                         message,
                         static_cast<int64_t>(sizeof(message))};
  const int code = (kernel.checked ? RunChecked : RunWatched)(kernel, call, begin, end);
  const CustomKernel* none = nullptr;
  if (code == 0 || !errors.failed.compare_exchange_strong(none, &kernel)) return;
  errors.code = code;
  message[sizeof(message) - 1] = '\0';
  std::memcpy(errors.message, message, sizeof(message));
}

}  // namespace habana
