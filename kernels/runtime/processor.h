// What the runtime asks of the processor itself: all that differs between x86-64 and AArch64.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif !defined(__aarch64__)
#error "habana_tf is for x86-64 and AArch64: for another processor, write its Pause and its float mode here"
#endif

namespace habana {

// Tells the processor that this thread waits in a loop for what another one writes.
inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  asm volatile("yield");
#endif
}

// The control register of float arithmetic, of this thread: MXCSR, FPCR.
inline uint64_t FloatControl() {
#if defined(__x86_64__)
  return _mm_getcsr();
#else
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
#endif
}

inline void SetFloatControl(uint64_t control) {
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned>(control));
#else
  asm volatile("msr fpcr, %0" : : "r"(control));
#endif
}

// `control` with denormals, read and made, to zero, and rounding to nearest.
inline uint64_t WithoutDenormals(uint64_t control) {
#if defined(__x86_64__)
  // Flush-to-zero (bit 15), denormals-are-zero (bit 6), rounding mode nearest (bits 13 and 14 clear).
  return (control | 0x8040u) & ~uint64_t{0x6000u};
#else
  // Flush-to-zero, of operands too (bit 24), rounding mode nearest (bits 22 and 23 clear).
  return (control | (uint64_t{1} << 24)) & ~(uint64_t{3} << 22);
#endif
}

}  // namespace habana
