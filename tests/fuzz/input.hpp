// SPDX-License-Identifier: Apache-2.0

// What a fuzz target makes of its input: numbers and bytes, taken from the front. Past the end
// everything is zero, so that any input means something, and a short one the same as if zeros
// followed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace softhca::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  bool done() const { return rest_.empty(); }

  template <class T>
  T take() {
    T value{};
    const auto from = bytes(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), from.size());
    return value;
  }
  std::uint8_t byte() { return take<std::uint8_t>(); }
  /// Less than `n`, which is not 0.
  std::uint32_t below(std::uint32_t n) { return (n <= 0x100 ? byte() : take<std::uint16_t>()) % n; }
  bool flag() { return (byte() & 1) != 0; }

  /// The next `n`, or what is left.
  std::span<const std::uint8_t> bytes(std::size_t n) {
    const auto out = rest_.first(std::min(n, rest_.size()));
    rest_ = rest_.subspan(out.size());
    return out;
  }
  std::span<const std::uint8_t> rest() { return bytes(rest_.size()); }

 private:
  std::span<const std::uint8_t> rest_;
};

/// What must hold whatever the input; else the fuzzer has found a bug.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace softhca::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
