// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/turns/session_poller.hpp"

#include <cassert>

namespace softhca::engine {

void SessionPoller::reserve(std::uint16_t tenants, std::uint16_t classes) {
  tenants_ = tenants;
  classes_.resize(classes);
  present_.reserve(classes);
  order_.reserve(0, tenants, classes);
}

void SessionPoller::add(Session& session) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(sessions_.size()));
    sessions_.push_back(nullptr);
    order_.reserve(static_cast<std::uint32_t>(sessions_.size()), tenants_,
                   static_cast<std::uint16_t>(classes_.size()));
  }
  session.poll.slot = free_slots_.back();
  free_slots_.pop_back();
  sessions_[session.poll.slot] = &session;
  order_.join(session.qos_class, session.tenant->id);
  wake(session);
}

void SessionPoller::remove(Session& session) {
  rest(session);
  sessions_[session.poll.slot] = nullptr;
  free_slots_.push_back(session.poll.slot);
}

void SessionPoller::wake(Session& session) {
  if (session.poll.place != kNoIndex) return;
  QosClass& qos_class = classes_[session.qos_class.value];
  session.poll.place = static_cast<std::uint32_t>(qos_class.awake.size());
  qos_class.awake.push_back(session.poll.slot);
  if (qos_class.awake.size() != 1) return;
  present_.push_back(session.qos_class.value);
  share_looks();
}

void SessionPoller::rest(Session& session) {
  if (session.poll.place == kNoIndex) return;
  order_.remove(session.poll.slot);
  QosClass& qos_class = classes_[session.qos_class.value];
  const std::uint32_t last = qos_class.awake.back();
  qos_class.awake[session.poll.place] = last;
  sessions_[last]->poll.place = session.poll.place;
  qos_class.awake.pop_back();
  session.poll.place = kNoIndex;
  if (qos_class.next >= qos_class.awake.size()) qos_class.next = 0;
  if (!qos_class.awake.empty()) return;
  std::erase(present_, session.qos_class.value);
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
