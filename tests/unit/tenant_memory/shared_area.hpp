// SPDX-License-Identifier: Apache-2.0

// Zeroed, cache-line aligned memory that plays a tenant's.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace softhca::shm {

class SharedArea {
 public:
  explicit SharedArea(std::size_t bytes)
      : bytes_(new (std::align_val_t{4096}) std::byte[bytes]()) {}

  std::byte* base() const { return bytes_.get(); }
  template <class T>
  T& at(std::size_t offset) const {
    return *reinterpret_cast<T*>(base() + offset);
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{4096}); }
  };
  std::unique_ptr<std::byte[], Free> bytes_;
};

}  // namespace softhca::shm
