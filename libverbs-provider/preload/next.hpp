// SPDX-License-Identifier: Apache-2.0

// Finds the function that a function of this library replaces.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace softhca::preload {

/// Looks the function up at the first call, which may come before this library's constructors run.
template <typename Function>
class Next {
 public:
  explicit constexpr Next(const char* name) : name_(name) {}
  Function* get() {
    void* found = found_.load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = ::dlsym(RTLD_NEXT, name_);
      found_.store(found, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function*>(found);
  }

 private:
  const char* name_;
  std::atomic<void*> found_{nullptr};
};

// The replacements have their own names, with the standard ones as assembler labels. So they do not
// collide with the declarations in the system's headers, which differ in attributes, or are macros.
#define SOFTHCA_INTERPOSE __attribute__((visibility("default")))

}  // namespace softhca::preload
