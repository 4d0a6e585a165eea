// The op HpuToHost: what Python reads of a tensor of the card, by the thread that asks
// (habana_tf/tensorflow_changes/reads.py).
//
// TensorFlow's own copy to the host is made by a thread of its event manager, for which the one that asks
// sleeps: some hundred microseconds for the four bytes of a loss. An op runs on the thread that asks for it.
// Its result, the tensor's bytes, or nothing if they are more than `most`, is called int32: of all types only
// that one is handed over in host memory by ops that TensorFlow runs eagerly (it wraps each in a function).
// And it is stateless, or TensorFlow would run that function on another thread.
#pragma once

namespace habana {

void RegisterHostReads();

}  // namespace habana
