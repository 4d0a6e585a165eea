// TensorFlow's C interface: statuses.
//
// The headers of this folder declare what kernels/plugin uses of it, so that the plugin is built without
// TensorFlow: names, types, layouts and values are those of TensorFlow 2.15 to 2.21, which
// tests/test_tensorflow_c.py compares with the headers of the TensorFlow at hand. Enums have a fixed type
// because values that are not named here occur.
#pragma once

extern "C" {

struct TSL_Status;
typedef TSL_Status TF_Status;

enum TSL_Code : unsigned {
  TF_OK = 0,
  TF_INVALID_ARGUMENT = 3,
  TF_RESOURCE_EXHAUSTED = 8,
  TF_ABORTED = 10,
};
typedef TSL_Code TF_Code;

TF_Status* TF_NewStatus(void);
void TF_DeleteStatus(TF_Status* status);
void TF_SetStatus(TF_Status* status, TF_Code code, const char* message);
TF_Code TF_GetCode(const TF_Status* status);
const char* TF_Message(const TF_Status* status);

}  // extern "C"
