// Objects of one process by the small handles it names them with.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace softhca::control {

template <class T>
class HandleTable {
 public:
  std::uint32_t size() const { return used_; }

  std::uint32_t add(std::unique_ptr<T> object) {
    ++used_;
    if (!free_.empty()) {
      const std::uint32_t handle = free_.back();
      free_.pop_back();
      slots_[handle] = std::move(object);
      return handle;
    }
    slots_.push_back(std::move(object));
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }

  /// Null when there is no such object.
  T* find(std::uint32_t handle) const {
    return handle < slots_.size() ? slots_[handle].get() : nullptr;
  }

  std::unique_ptr<T> remove(std::uint32_t handle) {
    if (find(handle) == nullptr) return nullptr;
    --used_;
    free_.push_back(handle);
    return std::move(slots_[handle]);
  }

  /// Calls f(handle, object) for each object.
  template <class F>
  void for_each(F&& f) const {
    for (std::uint32_t handle = 0; handle < slots_.size(); ++handle)
      if (slots_[handle]) f(handle, *slots_[handle]);
  }

 private:
  std::uint32_t used_ = 0;
  std::vector<std::unique_ptr<T>> slots_;
  std::vector<std::uint32_t> free_;
};

template <class T>
std::vector<T*> all_of(const HandleTable<T>& table) {
  std::vector<T*> objects;
  objects.reserve(table.size());
  table.for_each([&](std::uint32_t, T& object) { objects.push_back(&object); });
  return objects;
}

}  // namespace softhca::control
