// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/diagnostics/faults.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/engine/records/tenant.hpp"

namespace softhca::engine {
namespace {

/// The fault number of copies, which no fault holds.
constexpr std::uint32_t kNoFault = 0;

/// Faults of different kinds with the same seed draw different numbers.
std::uint64_t seed_of(const FaultTerms& terms) {
  constexpr std::uint64_t kApart = 0x9e3779b97f4a7c15;
  return terms.seed + kApart * static_cast<std::uint64_t>(terms.kind);
}

FaultPassage passage_of(const QueuePair& qp, FaultDirection direction) {
  std::optional<PortId> port;
  if (!qp.is_local() && qp.connection.route.path.port) port = *qp.connection.route.path.port;
  return {.tenant = qp.tenant, .port = port, .qpn = qp.qpn, .direction = direction};
}

}  // namespace

// --- one fault

Fault::Fault(std::uint32_t number, const FaultTerms& terms)
    : number_(number), terms_(terms), random_(seed_of(terms)) {
  assert(number != kNoFault);
}

bool Fault::fits(const FaultPassage& passage, Time now) const {
  if (is_over(now) || (terms_.kind == FaultKind::kMark && !passage.ecn_capable)) return false;
  if (terms_.direction != FaultDirection::kBoth && terms_.direction != passage.direction)
    return false;
  if (terms_.port && terms_.port != passage.port) return false;
  if (terms_.qpn && terms_.qpn != passage.qpn) return false;
  return !terms_.tenant || (passage.tenant != nullptr && passage.tenant->id == *terms_.tenant);
}

/// Counts a match. True if the fault takes effect. Every matching packet draws a random number, so
/// one seed always selects the same packets.
bool Fault::strikes() {
  met_.add();
  const bool hit = terms_.every != 0
                       ? met_.value() % terms_.every == 0
                       : static_cast<double>(random_() >> 11) * 0x1p-53 < terms_.probability;
  if (!hit || (terms_.count != 0 && injected_.value() >= terms_.count)) return false;
  injected_.add();
  return true;
}

// --- all of them

void Faults::add(Fault& fault, std::unique_ptr<Room> room) {
  assert(faults_.size() < kMost);
  if (room_ == nullptr) room_ = std::move(room);
  const auto later = std::find_if(faults_.begin(), faults_.end(), [&](const Fault* other) {
    return other->terms().kind > fault.terms().kind;
  });
  faults_.insert(later, &fault);
  look_again();
}

void Faults::remove(const Fault& fault) {
  std::erase(faults_, &fault);
  if (room_ != nullptr)
    for (const auto which : {FaultDirection::kSent, FaultDirection::kReceived})
      held_by(which).release(fault.number(), clock_.now);
  look_again();
}

void Faults::forget(const Tenant& tenant) {
  for (Fault* fault : faults_)
    if (fault->terms().tenant == tenant.id) fault->lost_ = true;
}

std::unique_ptr<Faults::Room> Faults::take_room() {
  return on_ ? nullptr : std::exchange(room_, nullptr);
}

void Faults::look_again() {
  const std::size_t held = room_ == nullptr ? 0 : room_->sent.size() + room_->received.size();
  on_ = !faults_.empty() || held != 0;
  active_.set(static_cast<std::uint32_t>(faults_.size()));
  held_.set(static_cast<std::uint32_t>(held));
}

bool Faults::strikes(Fault& fault) {
  if (!fault.strikes()) return false;
  injected_[static_cast<std::size_t>(fault.terms().kind)].add();
  return true;
}

FaultKind Faults::Fate::kind() const {
  if (drop) return FaultKind::kDrop;
  if (damager != nullptr) return FaultKind::kCorrupt;
  if (holder != nullptr) return holder->terms().kind;
  return duplicate ? FaultKind::kDuplicate : FaultKind::kMark;
}

bool Faults::concern(const FaultPassage& passage) const {
  return std::any_of(faults_.begin(), faults_.end(), [&](const Fault* fault) {
    return fault->terms().kind != FaultKind::kRnr && fault->fits(passage, clock_.now);
  });
}

/// Decides what happens to a packet. A packet that is dropped meets no other fault.
Faults::Fate Faults::decide(const FaultPassage& passage) {
  Fate fate;
  for (Fault* fault : faults_) {
    const FaultKind kind = fault->terms().kind;
    if (kind == FaultKind::kRnr || !fault->fits(passage, clock_.now) || !strikes(*fault)) continue;
    switch (kind) {
      case FaultKind::kDrop:
        return {.drop = true};
      case FaultKind::kDuplicate:
        fate.duplicate = true;
        break;
      case FaultKind::kCorrupt:
        fate.damager = fault;
        break;
      case FaultKind::kMark:
        fate.mark = true;
        break;
      default:
        fate.holder = fault;
    }
  }
  return fate;
}

void Faults::corrupt(const Fate& fate, std::span<std::byte> datagram) {
  // The ICRC does not cover this byte of the base transport header (FECN, BECN, reserved).
  constexpr std::size_t kUncovered = 4;
  std::mt19937_64& random = fate.damager->random_;
  std::size_t at = random() % (datagram.size() - 1);
  if (at >= kUncovered) ++at;
  datagram[at] ^= std::byte(1 << random() % 8);
}

bool Faults::hold(const Fate& fate, const FaultPassage& passage, Qpn to,
                  std::span<const HeldPackets::Part> parts) {
  Fault& fault = *fate.holder;
  const FaultTerms& terms = fault.terms();
  Duration wait = terms.delay;
  if (terms.jitter != Duration::zero())
    wait += Duration(fault.random_() % static_cast<std::uint64_t>(terms.jitter.count() + 1));
  const bool held = held_by(passage.direction)
                        .hold({.fault = fault.number(),
                               .port = *passage.port,
                               .due = std::min(clock_.now + wait, terms.until),
                               .passing = terms.kind == FaultKind::kReorder ? terms.by : 0,
                               .flow = to.value},
                              parts);
  if (!held) no_room_.add();
  look_again();
  return held;
}

void Faults::repeat(const FaultPassage& passage, std::span<const HeldPackets::Part> parts) {
  const HeldPackets::Terms terms{.fault = kNoFault, .port = *passage.port, .due = clock_.now};
  if (!held_by(passage.direction).hold(terms, parts)) no_room_.add();
  look_again();
}

void Faults::passed(const FaultPassage& passage, Qpn to) {
  if (room_ != nullptr) held_by(passage.direction).passed(to.value, clock_.now);
}

Time Faults::next_deadline() const {
  return room_ == nullptr ? kNever
                          : std::min(room_->sent.next_deadline(), room_->received.next_deadline());
}

bool Faults::loses(const QueuePair& from, const QueuePair& to, bool again) {
  const FaultPassage out = passage_of(from, FaultDirection::kSent);
  const FaultPassage in = passage_of(to, FaultDirection::kReceived);
  return std::any_of(faults_.begin(), faults_.end(), [&](Fault* fault) {
    const bool meets = fault->terms().kind == FaultKind::kDrop &&
                       (fault->fits(out, clock_.now) || fault->fits(in, clock_.now));
    return meets && (again || strikes(*fault));
  });
}

bool Faults::withholds(const QueuePair& qp, bool again) {
  if (!is_reliable(qp.type)) return false;
  const FaultPassage in = passage_of(qp, FaultDirection::kReceived);
  return std::any_of(faults_.begin(), faults_.end(), [&](Fault* fault) {
    const bool meets = fault->terms().kind == FaultKind::kRnr && fault->fits(in, clock_.now);
    return meets && (again || strikes(*fault));
  });
}

}  // namespace softhca::engine
