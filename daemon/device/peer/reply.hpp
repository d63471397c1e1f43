// SPDX-License-Identifier: Apache-2.0

// The reply to a request: bytes, and what the process gets besides. A front end sends it.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "abi/control.hpp"
#include "daemon/base/sealed_memory.hpp"

namespace softhca::control {

/// What a process gets with a reply besides its bytes. The front end of the process makes it and
/// sends it. Only this front end knows what the number names.
struct PassedHandle {
  int number = -1;
  /// Owns what the number names, and gives it up with the reply. Null: another object owns it.
  std::shared_ptr<void> owner{};
};

class Reply {
 public:
  Reply() = default;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  static constexpr std::size_t kRoom = 512;  ///< bytes of body
  static_assert(abi::kMaxRefusalText <= kRoom);

  /// Writes the first `size` bytes of `body`.
  template <class T>
  void write(const T& body, std::size_t size = sizeof(T)) {
    static_assert(std::is_trivially_copyable_v<T>);
    static_assert(sizeof(T) <= kRoom);
    std::memcpy(bytes_, &body, size);
    size_ = size;
  }
  /// Writes the text that says why the request is refused.
  void write_refusal(std::string_view text) {
    size_ = text.copy(reinterpret_cast<char*>(bytes_), abi::kMaxRefusalText);
  }
  /// Adds memory that the process is to map. `memory`: number of the caller's memfd, which must
  /// stay open until the reply is sent.
  void share(int memory) { handles_.push_back({.number = memory}); }
  /// Does the same with memory that may be a piece of a virtual machine's region.
  void share(const SealedMemory& memory) {
    share(memory.fd());
    places_.memory = place_of(memory);
  }
  /// Adds the place of VCB pages, which are in the same region.
  void share_vcbs(const SealedMemory& pages) { places_.vcbs = place_of(pages); }
  /// Adds what the front end has made for the process.
  void give(PassedHandle handle) { handles_.push_back(std::move(handle)); }

  std::span<const std::byte> bytes() const { return {bytes_, size_}; }
  /// Returns the places of memory that follow the bytes. Null: the memory is not in a region.
  const abi::MemoryPlaces* places() const { return places_.memory.bytes != 0 ? &places_ : nullptr; }
  /// Returns what the process gets, in the order in which it was added.
  std::span<const PassedHandle> handles() const { return handles_; }

 private:
  static abi::MemoryPlace place_of(const SealedMemory& memory) {
    return {memory.piece().offset, memory.piece().bytes};
  }

  std::byte bytes_[kRoom] = {};
  std::size_t size_ = 0;
  std::vector<PassedHandle> handles_;
  abi::MemoryPlaces places_{};
};

}  // namespace softhca::control
