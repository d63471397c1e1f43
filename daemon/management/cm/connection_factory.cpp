#include "daemon/management/cm/connection_factory.hpp"

#include <utility>

namespace softhca::management::cm {

Connection* ConnectionFactory::make(const Path& path, State state) {
  if (connections_.size() >= local_.limits.connections) {
    Connection* oldest = connections_.oldest_released();
    if (oldest == nullptr) return nullptr;
    connections_.remove(*oldest);
    ++counters_.given_up;
  }
  Connection c;
  c.id = draw_id();
  c.state = state;
  c.path = path;
  c.transaction_id = sender_.draw_transaction_id(c.id);
  return &connections_.add(std::move(c));
}

Connection* ConnectionFactory::make_half_open(const Path& path, State state) {
  const bool too_many = !connections_.may_open_half(path.remote, local_.limits.half_open);
  Connection* c = too_many ? nullptr : make(path, state);
  if (c != nullptr) return c;
  ++counters_.requests_over_limit;
  user_.on_over_limit(too_many ? OverLimit::kHalfOpen : OverLimit::kConnections);
  return nullptr;
}

CommId ConnectionFactory::draw_id() {
  for (;;) {
    const CommId id(environment_.random());
    if (id.value != 0 && connections_.find(id) == nullptr) return id;
  }
}

}  // namespace softhca::management::cm
