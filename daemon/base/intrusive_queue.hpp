// SPDX-License-Identifier: Apache-2.0

// Lists of objects that live in tables and are named by their index. They use no pointers and
// allocate nothing; every operation is O(1), also removal from the middle. An object knows whether
// it is linked.
#pragma once

#include <cassert>
#include <cstdint>

namespace softhca {

inline constexpr std::uint32_t kNoIndex = 0xffffffff;

/// Member of a table element that can stand in one IndexList at a time.
struct IndexLink {
  static constexpr std::uint32_t kUnlinked = 0xfffffffe;

  std::uint32_t next = kUnlinked;
  std::uint32_t prev = kNoIndex;

  bool linked() const { return next != kUnlinked; }
};

/// Doubly linked list of elements of a table `T items[]`, linked through member `link`. The caller
/// passes the table to each call, so that lists are relocatable PODs of 8 bytes.
template <class T, IndexLink T::*link>
class IndexList {
 public:
  bool empty() const { return head_ == kNoIndex; }
  std::uint32_t front() const { return head_; }  ///< kNoIndex when empty
  std::uint32_t back() const { return tail_; }   ///< kNoIndex when empty

  /// REQUIRES: i is not linked.
  void push_back(T* items, std::uint32_t i) {
    IndexLink& l = items[i].*link;
    assert(!l.linked());
    l = {kNoIndex, tail_};
    (tail_ == kNoIndex ? head_ : (items[tail_].*link).next) = i;
    tail_ = i;
  }

  /// REQUIRES: i is not linked.
  void push_front(T* items, std::uint32_t i) {
    IndexLink& l = items[i].*link;
    assert(!l.linked());
    l = {head_, kNoIndex};
    (head_ == kNoIndex ? tail_ : (items[head_].*link).prev) = i;
    head_ = i;
  }

  /// REQUIRES: i is not linked.
  void push(T* items, std::uint32_t i, bool at_front) {
    at_front ? push_front(items, i) : push_back(items, i);
  }

  /// REQUIRES: i is linked in this list.
  void remove(T* items, std::uint32_t i) {
    IndexLink& l = items[i].*link;
    assert(l.linked());
    (l.prev == kNoIndex ? head_ : (items[l.prev].*link).next) = l.next;
    (l.next == kNoIndex ? tail_ : (items[l.next].*link).prev) = l.prev;
    l = IndexLink{};
  }

  /// Removes the front and returns it; kNoIndex when empty.
  std::uint32_t pop_front(T* items) {
    const std::uint32_t i = head_;
    if (i != kNoIndex) remove(items, i);
    return i;
  }

  /// Moves the front to the back.
  void rotate(T* items) {
    if (head_ == tail_) return;
    push_back(items, pop_front(items));
  }

  /// Returns the element before i; kNoIndex at the beginning.
  std::uint32_t prev(const T* items, std::uint32_t i) const { return (items[i].*link).prev; }
  /// Returns the element after i; kNoIndex at the end.
  std::uint32_t next(const T* items, std::uint32_t i) const { return (items[i].*link).next; }

 private:
  std::uint32_t head_ = kNoIndex;
  std::uint32_t tail_ = kNoIndex;
};

}  // namespace softhca
