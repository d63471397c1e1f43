#include "daemon/management/cm/connection_table.hpp"

#include <cassert>
#include <utility>

namespace softhca::management::cm {
namespace {

PeerKey peer_of(const Connection& c) {
  return {c.path.remote, c.remote_ca_guid, c.remote_comm_id, c.is_question()};
}

QueuePairKey queue_pair_of(const Connection& c) {
  return {c.path.remote, c.remote_ca_guid, c.remote_qpn};
}

}  // namespace

Connection& ConnectionTable::add(Connection&& connection) {
  const CommId id = connection.id;
  const auto [at, added] = connections_.emplace(id, std::move(connection));
  assert(added);
  half_open_ += at->second.is_half_open();
  return at->second;
}

void ConnectionTable::remove(Connection& c) {
  arm(c, kNever);
  unlist_peer(c);
  unlist_queue_pair(c);
  half_open_ -= c.is_half_open();
  if (c.lingers_since != 0) released_.erase({c.lingers_since, c.id});
  connections_.erase(c.id);
}

Connection* ConnectionTable::find(CommId id) {
  const auto at = connections_.find(id);
  return at == connections_.end() ? nullptr : &at->second;
}

const Connection* ConnectionTable::find(CommId id) const {
  const auto at = connections_.find(id);
  return at == connections_.end() ? nullptr : &at->second;
}

void ConnectionTable::set_state(Connection& c, State state) {
  half_open_ -= c.is_half_open();
  c.state = state;
  half_open_ += c.is_half_open();
}

void ConnectionTable::release(Connection& c) {
  if (!c.has_user) return;
  half_open_ -= c.is_half_open();
  c.has_user = false;
  c.lingers_since = ++releases_;
  released_.emplace(c.lingers_since, c.id);
}

Connection* ConnectionTable::oldest_released() {
  return released_.empty() ? nullptr : find(released_.begin()->second);
}

bool ConnectionTable::list_peer(Connection& c) {
  c.peer_listed = peers_.emplace(peer_of(c), c.id).second;
  return c.peer_listed;
}

void ConnectionTable::unlist_peer(Connection& c) {
  if (std::exchange(c.peer_listed, false)) peers_.erase(peer_of(c));
}

Connection* ConnectionTable::find_peer(const PeerKey& key) {
  const auto at = peers_.find(key);
  return at == peers_.end() ? nullptr : find(at->second);
}

bool ConnectionTable::list_queue_pair(Connection& c) {
  c.queue_pair_listed = queue_pairs_.emplace(queue_pair_of(c), c.id).second;
  return c.queue_pair_listed;
}

Connection* ConnectionTable::find_queue_pair(const QueuePairKey& key) {
  const auto at = queue_pairs_.find(key);
  return at == queue_pairs_.end() ? nullptr : find(at->second);
}

void ConnectionTable::unlist_queue_pair(Connection& c) {
  if (std::exchange(c.queue_pair_listed, false)) queue_pairs_.erase(queue_pair_of(c));
}

void ConnectionTable::arm(Connection& c, Time deadline) {
  if (c.deadline != kNever) timers_.erase({c.deadline, c.id});
  c.deadline = deadline;
  if (deadline != kNever) timers_.emplace(deadline, c.id);
}

Connection* ConnectionTable::take_due(Time now) {
  if (next_deadline() > now || timers_.empty()) return nullptr;
  Connection* c = find(timers_.begin()->second);
  arm(*c, kNever);
  return c;
}

}  // namespace softhca::management::cm
