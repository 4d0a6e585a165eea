// The bytes of a fuzzer's input, drawn as numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace habana {

// The input as numbers; zeros behind its end.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  int64_t Below(int64_t n) { return n <= 1 ? 0 : static_cast<int64_t>(Word(n > 256 ? 4 : 1) % n); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  template <class T>
  T& Of(std::vector<T>& items) {
    return items[static_cast<size_t>(Below(static_cast<int64_t>(items.size())))];
  }

  // A number in the place of `now`: near it, or one that arithmetic stumbles over.
  int64_t Another(int64_t now) {
    static constexpr int64_t kOdd[] = {-1,        0,         1,         2,         4,         7,
                                       8,         24,        64,        1 << 20,   INT32_MAX, 1ll << 31,
                                       1ll << 32, 1ll << 40, 1ll << 62, INT64_MAX, INT64_MIN};
    constexpr int64_t kCount = sizeof(kOdd) / sizeof(kOdd[0]);
    const int64_t choice = Below(kCount + 4);
    const auto near = static_cast<uint64_t>(now);
    if (choice == 0) return static_cast<int64_t>(near + 1);
    if (choice == 1) return static_cast<int64_t>(near - 1);
    if (choice == 2) return static_cast<int64_t>(near * 2);
    if (choice == 3) return static_cast<int64_t>(0 - near);
    return kOdd[choice - 4];
  }

 private:
  uint64_t Word(int count) {
    uint64_t word = 0;
    for (int i = 0; i < count; ++i) word = word << 8 | (at_ < size_ ? data_[at_++] : 0);
    return word;
  }

  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

}  // namespace habana
