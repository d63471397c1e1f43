#include "daemon/engine/async_events.hpp"

namespace softhca::engine {

void AsyncEvents::raise(Session& session, std::uint64_t element, EventType type) {
  const auto number = static_cast<std::uint32_t>(type);
  session.tenant->counters.completion.events.add();
  if (session.events_deferred == 0 && sink_.async_event(session.async_fd, element, number)) return;
  session.tenant->counters.completion.events_deferred.add();
  if (session.events_deferred == kMostDeferred) return;
  ++session.events_deferred;
  deferred_.push_back({&session, element, number});
  retry_.wait(clock_.now);
}

void AsyncEvents::raise(const QueuePair& qp, EventType type) {
  raise(*qp.session, qp.user_handle, type);
  for (const QpHolder& other : qp.other_holders) raise(*other.session, other.user_handle, type);
}

void AsyncEvents::forget(Session& session, std::uint64_t element) {
  if (session.events_deferred == 0) return;
  session.events_deferred -=
      static_cast<std::uint32_t>(std::erase_if(deferred_, [&](const Deferred& event) {
        return event.session == &session && event.element == element;
      }));
}

void AsyncEvents::forget(const Session& session) {
  std::erase_if(deferred_, [&](const Deferred& event) { return event.session == &session; });
}

/// Events go in order, and no socket that was found full is tried again in the same step.
void AsyncEvents::retry() {
  const std::size_t before = deferred_.size();
  std::erase_if(deferred_, [this](const Deferred& event) {
    Session& session = *event.session;
    if (session.events_refused == clock_.now) return false;
    if (sink_.async_event(session.async_fd, event.element, event.type)) {
      --session.events_deferred;
      return true;
    }
    session.events_refused = clock_.now;
    return false;
  });
  retry_.tried(before, deferred_.size(), clock_.now);
}

}  // namespace softhca::engine
