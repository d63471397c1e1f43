// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/connection_table.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "daemon/roce/cm/connection_state.hpp"

namespace softhca::management::cm {
namespace {

PeerKey peer_of(const Connection& c) {
  return {c.path.remote, c.remote_ca_guid, c.remote_comm_id, c.is_service_id_resolution()};
}

QueuePairKey queue_pair_of(const Connection& c) {
  return {c.path.remote, c.remote_ca_guid, c.queue_pair.remote_qpn};
}

/// Returns how a half-open connection counts: whether its peer is a stranger, and its address.
std::pair<bool, Gid> half_open_key(const Path& path) {
  const bool stranger = path.standing != Standing::kEstablished;
  Gid counted = path.remote;
  if (stranger && !counted.is_ipv4()) std::fill(counted.bytes.begin() + 8, counted.bytes.end(), 0);
  return {stranger, counted};
}

}  // namespace

void ConnectionTable::record_changes() {
  for (const std::uint64_t number : touched_.take()) {
    const auto at = connections_.find(CommId(static_cast<std::uint32_t>(number)));
    if (at == connections_.end()) {
      records_->forget(StateKind::kConnection, number);
      continue;
    }
    StateWriter state;
    state_of(state, std::as_const(at->second));
    records_->record(StateKind::kConnection, number, state.bytes());
  }
}

Connection* ConnectionTable::restore(std::span<const std::byte> state) {
  StateReader reader(state);
  Connection c;
  state_of(reader, c);
  if (!reader.is_complete() || c.state >= State::kCount || c.id.value == 0 ||
      connections_.contains(c.id))
    return nullptr;
  const Connection::Places places = std::exchange(c.places, {});
  const bool has_user = std::exchange(c.has_user, true);
  Connection& added = add(std::move(c));
  if (!has_user) release(added);
  if (places.peer_listed) list_peer(added);
  if (places.queue_pair_listed) list_queue_pair(added);
  arm(added, places.deadline);
  return &added;
}

Connection& ConnectionTable::add(Connection&& connection) {
  const CommId id = connection.id;
  const auto [at, added] = connections_.emplace(id, std::move(connection));
  assert(added);
  touched_.add(id.value);
  add_half_open(at->second);
  return at->second;
}

void ConnectionTable::add_half_open(Connection& c) {
  if (!c.is_half_open()) return;
  ++half_open_;
  const auto key = half_open_key(c.path);
  ++half_open_of_[key];
  half_open_of_strangers_ += key.first;
  if (c.path.standing != Standing::kUnknown) return;
  if (c.places.arrival == 0) c.places.arrival = ++arrivals_;
  unknown_.emplace(c.places.arrival, c.id);
}

void ConnectionTable::subtract_half_open(const Connection& c) {
  if (!c.is_half_open()) return;
  --half_open_;
  const auto peer = half_open_of_.find(half_open_key(c.path));
  half_open_of_strangers_ -= peer->first.first;
  if (--peer->second == 0) half_open_of_.erase(peer);
  if (c.path.standing == Standing::kUnknown) unknown_.erase({c.places.arrival, c.id});
}

bool ConnectionTable::may_open_half(const Path& path, std::uint32_t most) const {
  const auto key = half_open_key(path);
  if (key.first && half_open_of_strangers_ >= most - most / 8) return false;
  const auto at = half_open_of_.find(key);
  const std::uint32_t has = at == half_open_of_.end() ? 0 : at->second;
  return std::uint64_t{half_open_} + has < most;
}

Connection* ConnectionTable::oldest_unknown() {
  return unknown_.empty() ? nullptr : find(unknown_.begin()->second);
}

void ConnectionTable::remove(Connection& c) {
  arm(c, kNever);
  unlist_peer(c);
  unlist_queue_pair(c);
  subtract_half_open(c);
  if (c.places.lingers_since != 0) released_.erase({c.places.lingers_since, c.id});
  connections_.erase(c.id);
}

/// Its caller may change the connection.
Connection* ConnectionTable::find(CommId id) {
  const auto at = connections_.find(id);
  if (at != connections_.end()) touched_.add(id.value);
  return at == connections_.end() ? nullptr : &at->second;
}

const Connection* ConnectionTable::find(CommId id) const {
  const auto at = connections_.find(id);
  return at == connections_.end() ? nullptr : &at->second;
}

void ConnectionTable::set_state(Connection& c, State state) {
  subtract_half_open(c);
  c.state = state;
  add_half_open(c);
}

void ConnectionTable::release(Connection& c) {
  if (!c.has_user) return;
  subtract_half_open(c);
  c.has_user = false;
  c.places.lingers_since = ++releases_;
  released_.emplace(c.places.lingers_since, c.id);
}

Connection* ConnectionTable::oldest_released() {
  return released_.empty() ? nullptr : find(released_.begin()->second);
}

bool ConnectionTable::list_peer(Connection& c) {
  c.places.peer_listed = peers_.emplace(peer_of(c), c.id).second;
  return c.places.peer_listed;
}

void ConnectionTable::unlist_peer(Connection& c) {
  if (std::exchange(c.places.peer_listed, false)) peers_.erase(peer_of(c));
}

Connection* ConnectionTable::find_peer(const PeerKey& key) {
  const auto at = peers_.find(key);
  return at == peers_.end() ? nullptr : find(at->second);
}

bool ConnectionTable::list_queue_pair(Connection& c) {
  c.places.queue_pair_listed = queue_pairs_.emplace(queue_pair_of(c), c.id).second;
  return c.places.queue_pair_listed;
}

Connection* ConnectionTable::find_queue_pair(const QueuePairKey& key) {
  const auto at = queue_pairs_.find(key);
  return at == queue_pairs_.end() ? nullptr : find(at->second);
}

void ConnectionTable::unlist_queue_pair(Connection& c) {
  if (std::exchange(c.places.queue_pair_listed, false)) queue_pairs_.erase(queue_pair_of(c));
}

void ConnectionTable::arm(Connection& c, Time deadline) {
  if (c.places.deadline != kNever) timers_.erase({c.places.deadline, c.id});
  c.places.deadline = deadline;
  if (deadline != kNever) timers_.emplace(deadline, c.id);
}

Connection* ConnectionTable::take_due(Time now) {
  if (next_deadline() > now || timers_.empty()) return nullptr;
  Connection* c = find(timers_.begin()->second);
  arm(*c, kNever);
  return c;
}

}  // namespace softhca::management::cm
