// TF_InitGraph: hands TensorFlow's placed graphs to the graph pass in Python.
//
// Core rewrites that make ops HPU has no kernel for, after placement, are switched off. An error of the pass
// leaves the graph as it was; TensorFlow does not tell the user, so it is printed and counted here.
#include <cstdio>
#include <string>
#include <vector>

#include "plugin/status.h"
#include "runtime/callbacks.h"
#include "runtime/counters.h"
#include "runtime/timeline.h"
#include "tensorflow_c/graph_optimizer.h"
#include "tensorflow_c/tensor.h"

namespace habana {
namespace {

class TfGraphItem : public GraphItem {
 public:
  explicit TfGraphItem(const TF_GrapplerItem* item) : item_(item) {}
  ~TfGraphItem() override {
    if (properties_ != nullptr) TF_DeleteGraphProperties(properties_);
  }

  Status NodesToPreserve(std::vector<std::string>* names) override {
    return List(TF_GetNodesToPreserveListSize, TF_GetNodesToPreserveList, names);
  }

  Status FetchNodes(std::vector<std::string>* names) override {
    return List(TF_GetFetchNodesListSize, TF_GetFetchNodesList, names);
  }

  Status OutputProperties(const std::string& node, std::vector<std::string>* properties) override {
    TfStatus status;
    if (properties_ == nullptr) {
      properties_ = TF_NewGraphProperties(item_);
      TF_InferStatically(properties_, /*assume_valid_feeds=*/true, /*aggressive_shape_inference=*/false,
                         /*include_input_tensor_values=*/false, /*include_output_tensor_values=*/false,
                         status.get());
      if (!status.ok()) return FromTf(status.get());
    }
    int count = 0;
    TF_GetOutputPropertiesListSize(properties_, node.c_str(), &count, status.get());
    if (!status.ok()) return FromTf(status.get());
    std::vector<TF_Buffer*> buffers;
    for (int i = 0; i < count; ++i) buffers.push_back(TF_NewBuffer());
    TF_GetOutputPropertiesList(properties_, node.c_str(), buffers.data(), count, status.get());
    for (TF_Buffer* buffer : buffers) {
      if (status.ok()) properties->emplace_back(static_cast<const char*>(buffer->data), buffer->length);
      TF_DeleteBuffer(buffer);
    }
    return FromTf(status.get());
  }

 private:
  template <typename Size, typename Get>
  Status List(Size size, Get get, std::vector<std::string>* names) {
    TfStatus status;
    int count = 0;
    size_t storage_size = 0;
    size(item_, &count, &storage_size, status.get());
    if (!status.ok()) return FromTf(status.get());
    std::vector<char*> values(static_cast<size_t>(count));
    std::vector<size_t> lengths(static_cast<size_t>(count));
    std::vector<char> storage(storage_size);
    get(item_, values.data(), lengths.data(), count, storage.data(), storage_size, status.get());
    if (!status.ok()) return FromTf(status.get());
    for (size_t i = 0; i < values.size(); ++i) names->emplace_back(values[i], lengths[i]);
    return {};
  }

  const TF_GrapplerItem* item_;
  TF_GraphProperties* properties_ = nullptr;
};

void* CreateOptimizer() {
  static char optimizer;  // it has no state, but TensorFlow wants an address
  return &optimizer;
}

void DestroyOptimizer(void*) {}

void DeleteText(void* data, size_t) { delete[] static_cast<char*>(data); }

void OptimizeGraph(void*, const TF_Buffer* graph, const TF_GrapplerItem* item, TF_Buffer* out,
                   TF_Status* tf_status) {
  Counters& counters = GetCounters();
  counters.optimize_calls.fetch_add(1, std::memory_order_relaxed);
  RecordedScope recorded(EventKind::kGraphPass, static_cast<int64_t>(graph->length),
                         &counters.optimize_nanoseconds);
  std::string text;
  bool changed = false;
  Status status;
  {
    TfGraphItem view(item);
    CallbackScope python;
    status = python.status();
    if (status.ok()) {
      status = python->optimize(static_cast<const char*>(graph->data), graph->length, &view, &text, &changed);
    }
  }
  if (!status.ok()) {
    counters.optimize_errors.fetch_add(1, std::memory_order_relaxed);
    std::fprintf(stderr, "habana_tf: the graph pass failed, the graph runs as TensorFlow made it: %s\n",
                 status.message.c_str());
    Assign(status, tf_status);
    return;
  }
  if (!changed) {
    TF_SetStatus(tf_status, TF_ABORTED, "nothing for HPU to do in this graph");
    return;
  }
  char* data = new char[text.size()];
  text.copy(data, text.size());
  out->data = data;
  out->length = text.size();
  out->data_deallocator = DeleteText;
  TF_SetStatus(tf_status, TF_OK, "");
}

}  // namespace
}  // namespace habana

extern "C" __attribute__((visibility("default"))) void TF_InitGraph(TP_OptimizerRegistrationParams* params,
                                                                    TF_Status* status) {
  params->struct_size = TP_OPTIMIZER_REGISTRATION_PARAMS_STRUCT_SIZE;
  params->device_type = "HPU";
  TP_OptimizerConfigs* configs = params->optimizer_configs;
  configs->struct_size = TP_OPTIMIZER_CONFIGS_STRUCT_SIZE;
  configs->arithmetic_optimization = TF_TriState_Off;
  configs->remapping = TF_TriState_Off;
  configs->layout_optimizer = TF_TriState_Off;
  configs->auto_mixed_precision = TF_TriState_Off;
  configs->memory_optimization = TF_TriState_Off;
  params->optimizer->struct_size = TP_OPTIMIZER_STRUCT_SIZE;
  params->optimizer->create_func = habana::CreateOptimizer;
  params->optimizer->optimize_func = habana::OptimizeGraph;
  params->optimizer->destroy_func = habana::DestroyOptimizer;
  TF_SetStatus(status, TF_OK, "");
}
