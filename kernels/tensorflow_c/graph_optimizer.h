// TensorFlow's C interface: an optimizer of graphs (see status.h).
#pragma once

#include "tensorflow_c/status.h"
#include "tensorflow_c/tensor.h"

extern "C" {

enum TF_TriState : unsigned { TF_TriState_Default = 0, TF_TriState_Off, TF_TriState_On };

struct TF_GrapplerItem;
struct TF_GraphProperties;

// Which of TensorFlow's own optimizers run.
struct TP_OptimizerConfigs {
  size_t struct_size;
  void* ext;
  TF_TriState disable_model_pruning;
  TF_TriState implementation_selector;
  TF_TriState function_optimization;
  TF_TriState common_subgraph_elimination;
  TF_TriState arithmetic_optimization;
  TF_TriState debug_stripper;
  TF_TriState constant_folding;
  TF_TriState shape_optimization;
  TF_TriState auto_mixed_precision;
  TF_TriState auto_mixed_precision_onednn_bfloat16;
  TF_TriState auto_mixed_precision_mkl;
  TF_TriState pin_to_host_optimization;
  TF_TriState layout_optimizer;
  TF_TriState remapping;
  TF_TriState loop_optimization;
  TF_TriState dependency_optimization;
  TF_TriState auto_parallel;
  TF_TriState memory_optimization;
  TF_TriState scoped_allocator_optimization;
};
inline constexpr size_t TP_OPTIMIZER_CONFIGS_STRUCT_SIZE =
    offsetof(TP_OptimizerConfigs, scoped_allocator_optimization) + sizeof(TF_TriState);

struct TP_Optimizer {
  size_t struct_size;
  void* ext;
  void* (*create_func)();
  void (*optimize_func)(void* optimizer, const TF_Buffer* graph, const TF_GrapplerItem* item,
                        TF_Buffer* optimized, TF_Status* status);
  void (*destroy_func)(void* optimizer);
};
inline constexpr size_t TP_OPTIMIZER_STRUCT_SIZE =
    offsetof(TP_Optimizer, destroy_func) + sizeof(TP_Optimizer::destroy_func);

struct TP_OptimizerRegistrationParams {
  size_t struct_size;
  void* ext;
  int32_t major_version;
  int32_t minor_version;
  int32_t patch_version;
  const char* device_type;
  TP_OptimizerConfigs* optimizer_configs;
  TP_Optimizer* optimizer;
};
inline constexpr size_t TP_OPTIMIZER_REGISTRATION_PARAMS_STRUCT_SIZE =
    offsetof(TP_OptimizerRegistrationParams, optimizer) + sizeof(TP_OptimizerRegistrationParams::optimizer);

void TF_GetNodesToPreserveListSize(const TF_GrapplerItem* item, int* num_values, size_t* storage_size,
                                   TF_Status* status);
void TF_GetNodesToPreserveList(const TF_GrapplerItem* item, char** values, size_t* lengths, int num_values,
                               void* storage, size_t storage_size, TF_Status* status);
void TF_GetFetchNodesListSize(const TF_GrapplerItem* item, int* num_values, size_t* storage_size,
                              TF_Status* status);
void TF_GetFetchNodesList(const TF_GrapplerItem* item, char** values, size_t* lengths, int num_values,
                          void* storage, size_t storage_size, TF_Status* status);

TF_GraphProperties* TF_NewGraphProperties(const TF_GrapplerItem* item);
void TF_DeleteGraphProperties(TF_GraphProperties* properties);
void TF_InferStatically(TF_GraphProperties* properties, TF_Bool assume_valid_feeds,
                        TF_Bool aggressive_shape_inference, TF_Bool include_input_tensor_values,
                        TF_Bool include_output_tensor_values, TF_Status* status);
void TF_GetOutputPropertiesListSize(TF_GraphProperties* properties, const char* node, int* num_values,
                                    TF_Status* status);
void TF_GetOutputPropertiesList(TF_GraphProperties* properties, const char* node, TF_Buffer** values,
                                int num_values, TF_Status* status);

void TF_InitGraph(TP_OptimizerRegistrationParams* params, TF_Status* status);

}  // extern "C"
