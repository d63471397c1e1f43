// From queue pair numbers (24 bits) to queue pairs: a three-level tree, 8 bits a level, so that
// polling finds a queue pair without a lock while others come and go.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {

struct Qp;

class QpTable {
 public:
  QpTable() = default;
  QpTable(const QpTable&) = delete;
  QpTable& operator=(const QpTable&) = delete;
  ~QpTable() {
    for (auto& middle : root_) {
      Middle* m = middle.load(std::memory_order_relaxed);
      if (m == nullptr) continue;
      for (auto& leaf : m->leaves) dispose(leaf.load(std::memory_order_relaxed));
      dispose(m);
    }
  }

  Qp* find(std::uint32_t qpn) const {
    const Middle* middle = root_[qpn >> 16 & 0xff].load(std::memory_order_acquire);
    if (middle == nullptr) return nullptr;
    const Leaf* leaf = middle->leaves[qpn >> 8 & 0xff].load(std::memory_order_acquire);
    return leaf == nullptr ? nullptr : leaf->qps[qpn & 0xff].load(std::memory_order_acquire);
  }

  /// False when memory is short. Nodes stay until the table goes.
  bool insert(std::uint32_t qpn, Qp* qp) {
    Guard guard(mutex_);
    Middle* middle = child(root_[qpn >> 16 & 0xff]);
    Leaf* leaf = middle == nullptr ? nullptr : child(middle->leaves[qpn >> 8 & 0xff]);
    if (leaf == nullptr) return false;
    leaf->qps[qpn & 0xff].store(qp, std::memory_order_release);
    return true;
  }

  /// REQUIRES: inserted before.
  void remove(std::uint32_t qpn) {
    Guard guard(mutex_);
    Middle* middle = child(root_[qpn >> 16 & 0xff]);
    child(middle->leaves[qpn >> 8 & 0xff])
        ->qps[qpn & 0xff]
        .store(nullptr, std::memory_order_release);
  }

 private:
  struct Leaf {
    std::atomic<Qp*> qps[256];
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

}  // namespace softhca::provider
