// The kernel behind HpuLaunch and behind every op of the op table: one launch of one cluster.
//
// HpuLaunch carries its cluster; an op's cluster is made from its NodeDef at the first use; an in-place op
// may take over the buffer of an input for its output.
#pragma once

#include "plugin/register.h"

namespace habana {

extern const KernelFunctions kLaunch;
extern const KernelFunctions kOp;
extern const KernelFunctions kInPlaceOp;

}  // namespace habana
