// The function that a function of this library stands in front of.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace softhca::preload {

/// Looked up at the first call, which may come before this library's constructors would run.
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

// Names of our own, given the standard ones by an assembler label: so the declarations in the
// system's headers (which differ in attributes, and are macros in places) do not collide.
#define SOFTHCA_INTERPOSE __attribute__((visibility("default")))

}  // namespace softhca::preload
