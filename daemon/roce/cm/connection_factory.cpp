// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/connection_factory.hpp"

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

Connection* ConnectionFactory::make_half_open(const Path& path, State state,
                                              const wire::Mad& request, Time now) {
  if (!connections_.may_open_half(path, local_.limits.half_open))
    return refuse(OverLimit::kHalfOpen);
  if (path.standing == Standing::kUnknown) {
    if (!validation_.may_offer_unasked(now)) {
      validation_.ask(path, request, now);
      return nullptr;
    }
    // Made-up addresses never answer. The latest requests get as much time as those before them.
    if (connections_.unknown_half_open() >= AddressValidation::kUnasked.burst)
      machine_.run(*connections_.oldest_unknown(), Input::kGiveWay, now);
  }
  Connection* c = make(path, state);
  return c != nullptr ? c : refuse(OverLimit::kConnections);
}

Connection* ConnectionFactory::refuse(OverLimit limit) {
  ++counters_.requests_over_limit;
  user_.on_over_limit(limit);
  return nullptr;
}

CommId ConnectionFactory::draw_id() {
  for (;;) {
    const CommId id(environment_.random());
    if (id.value != 0 && connections_.find(id) == nullptr) return id;
  }
}

}  // namespace softhca::management::cm
