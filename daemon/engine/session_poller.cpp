#include "daemon/engine/session_poller.hpp"

#include <cassert>

namespace softhca::engine {

void SessionPoller::reserve(std::uint16_t tenants, std::uint16_t parties) {
  tenants_ = tenants;
  parties_.resize(parties);
  present_.reserve(parties);
  order_.reserve(0, tenants, parties);
}

void SessionPoller::add(Session& session) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(sessions_.size()));
    sessions_.push_back(nullptr);
    order_.reserve(static_cast<std::uint32_t>(sessions_.size()), tenants_,
                   static_cast<std::uint16_t>(parties_.size()));
  }
  session.poll.slot = free_slots_.back();
  free_slots_.pop_back();
  sessions_[session.poll.slot] = &session;
  order_.join(session.party, session.tenant->id);
  wake(session);
}

void SessionPoller::remove(Session& session) {
  rest(session);
  sessions_[session.poll.slot] = nullptr;
  free_slots_.push_back(session.poll.slot);
}

void SessionPoller::wake(Session& session) {
  if (session.poll.place != kNoIndex) return;
  Party& party = parties_[session.party.value];
  session.poll.place = static_cast<std::uint32_t>(party.awake.size());
  party.awake.push_back(session.poll.slot);
  if (party.awake.size() != 1) return;
  present_.push_back(session.party.value);
  share_looks();
}

void SessionPoller::rest(Session& session) {
  if (session.poll.place == kNoIndex) return;
  order_.remove(session.poll.slot);
  Party& party = parties_[session.party.value];
  const std::uint32_t last = party.awake.back();
  party.awake[session.poll.place] = last;
  sessions_[last]->poll.place = session.poll.place;
  party.awake.pop_back();
  session.poll.place = kNoIndex;
  if (party.next >= party.awake.size()) party.next = 0;
  if (!party.awake.empty()) return;
  std::erase(present_, session.party.value);
  share_looks();
}

Session* SessionPoller::pop() {
  const auto slot = order_.pop();
  return slot ? sessions_[*slot] : nullptr;
}

void SessionPoller::share_looks() {
  looks_ = std::max<std::size_t>(1, kLooks / std::max<std::size_t>(1, present_.size()));
}

}  // namespace softhca::engine
