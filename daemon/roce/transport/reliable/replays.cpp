// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/reliable/replays.hpp"

#include <algorithm>
#include <cassert>
#include <new>

namespace softhca::transport {
namespace {

/// True if an engine may have left this replay, and the peer may ask for it again. PSNs of an old
/// one have wrapped around. The atomic at `expected` may have run.
bool is_consistent(const Replay& r, Psn expected) {
  const std::int32_t behind = expected.distance_from(r.first);
  if (behind == 0 && r.state != AtomicState::kNone) return r.packets == 1;
  return r.packets != 0 && behind >= 0 && static_cast<std::uint32_t>(behind) >= r.packets;
}

/// Takes up what is owed of a replay. The peer may have the next response already, and may have
/// sent another request since: so it counts as one that is owed again. What was owed again may be
/// recorded in part, and the peer asks once more.
void resume_due(Replay& r, Psn expected) {
  if (r.replay || r.start > r.next) r.due = false;
  const bool was_sent = r.due && r.next == r.end && !r.resume();
  const bool was_counted = r.first != expected;
  if (was_sent || !was_counted || r.next >= r.end || r.end > r.packets) r.due = false;
  if (r.due) r.replay = true;
}

}  // namespace

void Replays::open(const ReplayPlaces& places, std::uint32_t limit) {
  places_ = places.all;
  used_ = places.used;
  *used_ = 0;
  limit_ = std::min(limit, static_cast<std::uint32_t>(places_.size()));
  count_ = oldest_ = due_ = 0;
  oldest_due_ = kUnknown;
}

void Replays::resume(const ReplayPlaces& places, Psn expected) {
  places_ = places.all;
  used_ = places.used;
  count_ = oldest_ = due_ = 0;
  oldest_due_ = kUnknown;
  const std::uint32_t used = std::min<std::uint32_t>(*used_, limit_);
  std::int32_t farthest = -1;
  for (std::uint32_t i = 0; i < used; ++i) {
    if (places_[i].taken && !is_consistent(places_[i], expected)) places_[i].taken = false;
    if (!places_[i].taken) continue;
    ++count_;
    const std::int32_t behind = expected.distance_from(places_[i].first);
    resume_due(places_[i], expected);
    if (behind <= farthest) continue;
    farthest = behind;
    oldest_ = i;
  }
  bool good = true;
  for (std::uint32_t age = 0; age < count_ && good; ++age) {
    const Replay& r = (*this)[age];
    good = r.taken && (age == 0 || !r.first.is_before((*this)[age - 1].first));
    due_ += r.due;
  }
  if (good) return;
  for (std::uint32_t i = 0; i < used; ++i) places_[i].taken = false;
  count_ = due_ = 0;
}

void Replays::close() {
  if (used_ == nullptr) return;
  clear();
  used_ = nullptr;
  limit_ = 0;
}

void Replays::clear() {
  while (!empty()) pop();
  due_ = 0;
  oldest_due_ = kUnknown;
}

Replay* Replays::remember() {
  if (limit_ == 0) return nullptr;
  if (full()) {
    Replay& oldest = (*this)[0];
    if (oldest.due && !oldest.replay) return nullptr;
    settle(oldest);
    pop();
  }
  return &push();
}

Replay* Replays::find(Psn psn) {
  for (std::uint32_t age = count_; age-- > 0;) {
    Replay& r = (*this)[age];
    if ((psn - r.first.value()).value() < r.packets) return &r;
  }
  return nullptr;
}

void Replays::owe(Replay& r, std::uint32_t from, std::uint32_t end) {
  if (r.replay)
    oldest_due_ = kUnknown;
  else if (due_ == 0)
    oldest_due_ = count_ - 1;
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
  r.begin_again();
  r.rest = is_apart ? rest : Replay::Rest();
  owe(r, from, is_apart ? end : last);
}

void Replays::settle_all() {
  for (std::uint32_t age = 0; age < count_; ++age) (*this)[age].due = false;
  due_ = 0;
  oldest_due_ = kUnknown;
}

std::uint32_t Replays::age_of(const Replay& replay) const {
  const auto at = static_cast<std::uint32_t>(&replay - places_.data());
  return at >= oldest_ ? at - oldest_ : at + limit_ - oldest_;
}

/// Finds the oldest one that is owed, from this age on. REQUIRES: there is one.
void Replays::find_due(std::uint32_t from) {
  oldest_due_ = from;
  while (!(*this)[oldest_due_].due) ++oldest_due_;
}

Replay& Replays::push() {
  assert(!full());
  const std::uint32_t at = index(count_++);
  Replay& replay = places_[at];
  new (&replay) Replay();
  replay.taken = true;
  if (at >= *used_) *used_ = static_cast<std::uint8_t>(at + 1);
  return replay;
}

void Replays::drop_youngest() {
  youngest().taken = false;
  --count_;
  oldest_due_ = kUnknown;
}

void Replays::pop() {
  assert(!empty());
  places_[oldest_].taken = false;
  oldest_ = index(1);
  --count_;
  // Ages count from the oldest one.
  oldest_due_ = kUnknown;
}

}  // namespace softhca::transport
