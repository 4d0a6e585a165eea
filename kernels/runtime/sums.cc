#include "runtime/sums.h"

#include <cstdint>
#include <cstring>

namespace habana {
namespace {

float FromBf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

uint16_t ToBf16(float value) {  // to the nearest, ties to even
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
void SumInto(char* into, const std::vector<char*>& slots, size_t begin, size_t end) {
  T* total = reinterpret_cast<T*>(into);
  for (size_t r = 1; r < slots.size(); ++r) {
    const T* more = reinterpret_cast<const T*>(slots[r]);
    for (size_t i = begin; i < end; ++i) total[i] = static_cast<T>(total[i] + more[i]);
  }
}

void SumBf16(char* into, const std::vector<char*>& slots, size_t begin, size_t end) {
  uint16_t* total = reinterpret_cast<uint16_t*>(into);
  for (size_t i = begin; i < end; ++i) {
    float sum = FromBf16(total[i]);
    for (size_t r = 1; r < slots.size(); ++r) sum += FromBf16(reinterpret_cast<const uint16_t*>(slots[r])[i]);
    total[i] = ToBf16(sum);  // rounded once
  }
}

}  // namespace

void SumSlots(Element element, const std::vector<char*>& slots, size_t begin, size_t end) {
  switch (element) {
    case Element::kFloat:
      return SumInto<float>(slots[0], slots, begin, end);
    case Element::kDouble:
      return SumInto<double>(slots[0], slots, begin, end);
    case Element::kInt64:
      return SumInto<int64_t>(slots[0], slots, begin, end);
    case Element::kBfloat16:
      return SumBf16(slots[0], slots, begin, end);
  }
}

}  // namespace habana
