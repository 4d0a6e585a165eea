// TensorFlow's C interface: a profiler (see status.h).
#pragma once

#include "tensorflow_c/status.h"
#include "tensorflow_c/tensor.h"

extern "C" {

struct TP_Profiler {
  size_t struct_size;
  void* ext;
  const char* device_type;
};
inline constexpr size_t TP_PROFILER_STRUCT_SIZE =
    offsetof(TP_Profiler, device_type) + sizeof(TP_Profiler::device_type);

struct TP_ProfilerFns {
  size_t struct_size;
  void* ext;
  void (*start)(const TP_Profiler* profiler, TF_Status* status);
  void (*stop)(const TP_Profiler* profiler, TF_Status* status);
  void (*collect_data_xspace)(const TP_Profiler* profiler, uint8_t* buffer, size_t* nbytes,
                              TF_Status* status);
};
inline constexpr size_t TP_PROFILER_FNS_STRUCT_SIZE =
    offsetof(TP_ProfilerFns, collect_data_xspace) + sizeof(TP_ProfilerFns::collect_data_xspace);

struct TF_ProfilerRegistrationParams {
  size_t struct_size;
  void* ext;
  int32_t major_version;
  int32_t minor_version;
  int32_t patch_version;
  TP_Profiler* profiler;
  TP_ProfilerFns* profiler_fns;
  void (*destroy_profiler)(TP_Profiler* profiler);
  void (*destroy_profiler_fns)(TP_ProfilerFns* fns);
};
inline constexpr size_t TF_PROFILER_REGISTRATION_PARAMS_STRUCT_SIZE =
    offsetof(TF_ProfilerRegistrationParams, destroy_profiler_fns) +
    sizeof(TF_ProfilerRegistrationParams::destroy_profiler_fns);

void TF_InitProfiler(TF_ProfilerRegistrationParams* params, TF_Status* status);

}  // extern "C"
