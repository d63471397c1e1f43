// SPDX-License-Identifier: Apache-2.0

// Maps numbers of 24 bits to queue pairs or XRC shared receive queues. The table is a three-level
// tree with 8 bits per level, so that polling needs no lock while other threads insert and remove
// objects.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {

struct Qp;
struct Srq;

template <class Object>
class NumberTable {
 public:
  NumberTable() = default;
  NumberTable(const NumberTable&) = delete;
  NumberTable& operator=(const NumberTable&) = delete;
  ~NumberTable() {
    for (auto& middle : root_) {
      Middle* m = middle.load(std::memory_order_relaxed);
      if (m == nullptr) continue;
      for (auto& leaf : m->leaves) dispose(leaf.load(std::memory_order_relaxed));
      dispose(m);
    }
  }

  Object* find(std::uint32_t number) const {
    const Middle* middle = root_[number >> 16 & 0xff].load(std::memory_order_acquire);
    if (middle == nullptr) return nullptr;
    const Leaf* leaf = middle->leaves[number >> 8 & 0xff].load(std::memory_order_acquire);
    return leaf == nullptr ? nullptr : leaf->objects[number & 0xff].load(std::memory_order_acquire);
  }

  /// Inserts an object. False: out of memory. Nodes stay until the table is destroyed.
  bool insert(std::uint32_t number, Object* object) {
    Guard guard(mutex_);
    Middle* middle = child(root_[number >> 16 & 0xff]);
    Leaf* leaf = middle == nullptr ? nullptr : child(middle->leaves[number >> 8 & 0xff]);
    if (leaf == nullptr) return false;
    leaf->objects[number & 0xff].store(object, std::memory_order_release);
    return true;
  }

  /// Removes an object. REQUIRES: it was inserted.
  void remove(std::uint32_t number) {
    Guard guard(mutex_);
    Middle* middle = child(root_[number >> 16 & 0xff]);
    child(middle->leaves[number >> 8 & 0xff])
        ->objects[number & 0xff]
        .store(nullptr, std::memory_order_release);
  }

 private:
  struct Leaf {
    std::atomic<Object*> objects[256];
  };
  struct Middle {
    std::atomic<Leaf*> leaves[256];
  };

  template <class Node>
  static Node* child(std::atomic<Node*>& slot) {
    Node* node = slot.load(std::memory_order_relaxed);
    if (node == nullptr) {
      node = make<Node>();
      slot.store(node, std::memory_order_release);
    }
    return node;
  }

  Mutex mutex_;
  std::atomic<Middle*> root_[256] = {};
};

using QpNumberTable = NumberTable<Qp>;
using SrqNumberTable = NumberTable<Srq>;

}  // namespace softhca::provider
