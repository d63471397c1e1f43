#include "daemon/engine/intake.hpp"

#include <cassert>

namespace softhca::engine {

void Intake::reserve(std::uint16_t tenants, std::uint16_t parties) {
  tenants_ = tenants;
  parties_.resize(parties);
  present_.reserve(parties);
  order_.reserve(0, tenants, parties);
}

void Intake::add(Session& session) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(sessions_.size()));
    sessions_.push_back(nullptr);
    order_.reserve(static_cast<std::uint32_t>(sessions_.size()), tenants_,
                   static_cast<std::uint16_t>(parties_.size()));
  }
  session.intake.slot = free_slots_.back();
  free_slots_.pop_back();
  sessions_[session.intake.slot] = &session;
  order_.join(session.party, session.tenant->id);
  wake(session);
}

void Intake::remove(Session& session) {
  rest(session);
  sessions_[session.intake.slot] = nullptr;
  free_slots_.push_back(session.intake.slot);
}

void Intake::wake(Session& session) {
  if (session.intake.place != kNoIndex) return;
  Party& party = parties_[session.party.value];
  session.intake.place = static_cast<std::uint32_t>(party.awake.size());
  party.awake.push_back(session.intake.slot);
  if (party.awake.size() != 1) return;
  present_.push_back(session.party.value);
  share_looks();
}

void Intake::rest(Session& session) {
  if (session.intake.place == kNoIndex) return;
  order_.remove(session.intake.slot);
  Party& party = parties_[session.party.value];
  const std::uint32_t last = party.awake.back();
  party.awake[session.intake.place] = last;
  sessions_[last]->intake.place = session.intake.place;
  party.awake.pop_back();
  session.intake.place = kNoIndex;
  if (party.next >= party.awake.size()) party.next = 0;
  if (!party.awake.empty()) return;
  std::erase(present_, session.party.value);
  share_looks();
}

Session* Intake::pop() {
  const auto slot = order_.pop();
  return slot ? sessions_[*slot] : nullptr;
}

void Intake::share_looks() {
  looks_ = std::max<std::size_t>(1, kLooks / std::max<std::size_t>(1, present_.size()));
}

}  // namespace softhca::engine
