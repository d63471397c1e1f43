// SPDX-License-Identifier: Apache-2.0

// Lists of objects that stay at their addresses. They allocate nothing; every operation is O(1),
// also removal from the middle. An object knows whether it is linked. (intrusive_queue.hpp is for
// objects that live in tables and are named by their index.)
#pragma once

#include <cassert>

namespace softhca {

/// Member of a `T` that can stand in one LinkedList at a time.
template <class T>
struct ListLink {
  T* next = nullptr;
  T* prev = nullptr;
  bool linked = false;
};

/// Doubly linked list of `T`, linked through member `link`. It owns no object.
template <class T, ListLink<T> T::*link>
class LinkedList {
 public:
  bool empty() const { return head_ == nullptr; }
  T* front() const { return head_; }                           ///< null when empty
  static T* next(const T& item) { return (item.*link).next; }  ///< null at the end

  /// REQUIRES: `item` is not linked.
  void push_back(T& item) {
    ListLink<T>& l = item.*link;
    assert(!l.linked);
    l = {nullptr, tail_, true};
    (tail_ == nullptr ? head_ : (tail_->*link).next) = &item;
    tail_ = &item;
  }

  /// Removes `item`, unless it is not linked. REQUIRES: it is in no other list of this link.
  void remove(T& item) {
    ListLink<T>& l = item.*link;
    if (!l.linked) return;
    (l.prev == nullptr ? head_ : (l.prev->*link).next) = l.next;
    (l.next == nullptr ? tail_ : (l.next->*link).prev) = l.prev;
    l = {};
  }

  /// Removes the front and returns it; null when empty.
  T* pop_front() {
    T* item = head_;
    if (item != nullptr) remove(*item);
    return item;
  }

  /// Moves the first to the end.
  void rotate() {
    if (T* item = pop_front()) push_back(*item);
  }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (T* item = head_; item != nullptr; item = next(*item)) visit(*item);
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace softhca
