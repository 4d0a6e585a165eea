// Arithmetic on sizes that says when int64_t cannot hold the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace habana {

// A sum or product of sizes; empty once a step does not fit.
class Checked {
 public:
  Checked(int64_t value) : value_(value) {}
  Checked& operator*=(const Checked& by) {
    if (!ok_ || !by.ok_ || __builtin_mul_overflow(value_, by.value_, &value_)) ok_ = false;
    return *this;
  }
  Checked& operator+=(const Checked& more) {
    if (!ok_ || !more.ok_ || __builtin_add_overflow(value_, more.value_, &value_)) ok_ = false;
    return *this;
  }
  friend Checked operator*(Checked a, const Checked& b) { return a *= b; }
  friend Checked operator+(Checked a, const Checked& b) { return a += b; }

  bool ok() const { return ok_; }
  int64_t value() const { return value_; }
  // Whether it is a number from `least` to `most`.
  bool Within(int64_t least, int64_t most) const { return ok_ && value_ >= least && value_ <= most; }

 private:
  int64_t value_;
  bool ok_ = true;
};

// Bytes of a tensor. As TensorFlow does, it multiplies in order: a zero behind a product that does not fit is
// too late. A negative extent does not fit either.
inline Checked NumBytes(size_t element, const std::vector<int64_t>& dims) {
  Checked elements(1);
  for (int64_t d : dims) elements *= d < 0 ? Checked(INT64_MAX) * 2 : Checked(d);
  return elements * static_cast<int64_t>(element);
}

}  // namespace habana
