// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/reliable/replays.hpp"

#include <cassert>
#include <new>

namespace softhca::transport {

void ReplayStore::reserve(std::size_t places) {
  const std::size_t wanted = reserved_ + places;
  while (slabs_.size() * kSlab < wanted)
    slabs_.push_back(std::make_unique_for_overwrite<std::byte[]>(kSlab * sizeof(Replay)));
  reserved_ = wanted;
}

std::uint32_t ReplayStore::take() {
  assert(taken_ < reserved_);
  ++taken_;
  std::uint32_t index = free_;
  if (index != kNoIndex)
    free_ = (*this)[index].younger;
  else
    index = fresh_++;
  new (&(*this)[index]) Replay();
  return index;
}

void ReplayStore::give_back(std::uint32_t index) {
  --taken_;
  (*this)[index].younger = free_;
  free_ = index;
}

void Replays::open(ReplayStore& store, std::uint32_t limit) {
  close();
  store.reserve(limit);
  store_ = &store;
  limit_ = limit;
}

void Replays::close() {
  if (store_ == nullptr) return;
  clear();
  store_->release(limit_);
  store_ = nullptr;
  limit_ = 0;
}

void Replays::clear() {
  while (!empty()) pop();
  due_ = 0;
  oldest_due_ = kNoIndex;
}

Replay* Replays::remember() {
  if (limit_ == 0) return nullptr;
  if (full()) {
    Replay& oldest = (*this)[oldest_];
    if (oldest.due && !oldest.replay) return nullptr;
    settle(oldest);
    pop();
  }
  return &push();
}

Replay* Replays::find(Psn psn) {
  for (std::uint32_t i = youngest_; i != kNoIndex; i = (*this)[i].older) {
    Replay& r = (*this)[i];
    if ((psn - r.first.value()).value() < r.packets) return &r;
  }
  return nullptr;
}

void Replays::owe(Replay& r, std::uint32_t from, std::uint32_t end) {
  if (r.replay)
    oldest_due_ = kNoIndex;
  else if (due_ == 0)
    oldest_due_ = youngest_;
  if (!r.due) ++due_;
  r.due = true;
  r.start = r.next = from;
  r.end = end;
}

void Replays::owe_part(Replay& r, std::uint32_t from, std::uint32_t end) {
  if (r.next <= from) return;  // it is owed anyway
  r.begun = false;
  const Replay::Rest rest{r.next, r.end};
  const bool is_apart = r.rest.end == 0 && end <= r.next;
  const std::uint32_t last = r.rest.end != 0 ? r.rest.end : r.end;
  r.rest = is_apart ? rest : Replay::Rest();
  r.replay = true;
  owe(r, from, is_apart ? end : last);
}

void Replays::settle_all() {
  for (std::uint32_t i = oldest_; i != kNoIndex; i = (*this)[i].younger) (*this)[i].due = false;
  due_ = 0;
  oldest_due_ = kNoIndex;
}

Replay& Replays::push() {
  assert(!full());
  const std::uint32_t index = store_->take();
  Replay& replay = (*store_)[index];
  replay.older = youngest_;
  (empty() ? oldest_ : (*store_)[youngest_].younger) = index;
  youngest_ = index;
  ++count_;
  return replay;
}

void Replays::pop() {
  assert(!empty());
  const std::uint32_t index = oldest_;
  oldest_ = (*store_)[index].younger;
  (oldest_ == kNoIndex ? youngest_ : (*store_)[oldest_].older) = kNoIndex;
  --count_;
  store_->give_back(index);
}

}  // namespace softhca::transport
