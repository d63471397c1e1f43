// The manager's machine: a transition is looked up, its message goes, the state changes, the timer
// is set, and at last the user is told.
#include <algorithm>
#include <cassert>
#include <chrono>

#include "daemon/management/cm/compose.hpp"
#include "daemon/management/cm/manager.hpp"

namespace softhca::management::cm {
namespace {

/// How long the program may think, as told to a peer that asks again: 65 s.
constexpr std::uint8_t kServiceTimeout = 24;

/// So that a storm of connections that end together does not hold up what else the caller does.
constexpr unsigned kTimersAtOnce = 256;

/// States that need what was kept before.
bool uses_kept(State state) { return is_retrying(state) || state == State::kSidrRepSent; }

bool keeps_new(const Transition& t) {
  return t.send == Send::kGiven || t.send == Send::kRejConsumer || t.send == Send::kDreq ||
         t.send == Send::kSidrReject || t.then == Then::kDreq;
}

}  // namespace

Manager::Manager(Environment& environment, User& user, std::uint64_t ca_guid, const Limits& limits)
    : environment_(environment), user_(user), ca_guid_(ca_guid), limits_(limits) {}

bool Manager::run(Connection& c, Input input, Time now, const Details& details) {
  const Transition* t = find_transition(c.state, input);
  if (t == nullptr) return false;
  const State before = c.state;
  const bool had_user = c.has_user;
  Event event = details.message != nullptr ? *details.message : Event{};
  event.id = c.id;
  event.cookie = c.cookie;
  event.state = before;

  act(c, *t, now, details);
  if (t->next != before && !keeps_new(*t) && !uses_kept(t->next)) c.kept.clear();
  if (t->user_leaves) connections_.release(c);
  if (t->next == State::kEstablished && before != t->next) ++counters_.established;
  if (t->next == State::kTimeWait) connections_.unlist_queue_pair(c);
  if (t->next == kOver) {
    connections_.remove(c);
  } else {
    connections_.set_state(c, t->next);
    set_timer(c, *t, before, now, input, details);
  }

  if (t->tell && had_user) {
    event.kind = *t->tell;
    user_.on_event(event);
  }
  return true;
}

void Manager::act(Connection& c, const Transition& t, Time now, const Details& details) {
  switch (t.send) {
    case Send::kNothing:
      break;
    case Send::kGiven:
      assert(details.given != nullptr);
      keep_and_send(c, *details.given);
      break;
    case Send::kAgain:
      if (!c.kept.empty()) send(c.path, c.kept.get());
      break;
    case Send::kMra:
      send(c.path, compose_mra(c, details.service_timeout != 0 ? details.service_timeout
                                                               : kServiceTimeout));
      break;
    case Send::kRejTimeout:
      send(c.path, compose_rej_timeout(c, ca_guid_));
      break;
    case Send::kRejConsumer:
      keep_and_send(c, compose_rej(c, {}));
      break;
    case Send::kRejStaleOrAgain:
      if (c.kept.is(wire::CmAttribute::kRej))
        send(c.path, c.kept.get());
      else if (may_reply_stateless(now))
        send(c.path, compose_rej(c, {.reason = wire::CmRejectReason::kStaleConnection}));
      break;
    case Send::kDreq:
      keep_dreq(c);
      send(c.path, c.kept.get());
      break;
    case Send::kDrep:
      send(c.path, c.kept.is(wire::CmAttribute::kDrep) ? c.kept.get() : compose_drep(c, {}));
      break;
    case Send::kApr:
      send(c.path, compose_apr(c, details.transaction_id));
      break;
    case Send::kSidrReject:
      keep_and_send(c, compose_sidr_rep(c, {.status = wire::CmSidrStatus::kReject}));
      break;
  }
  if (t.then == Then::kDreq) keep_dreq(c);
}

void Manager::set_timer(Connection& c, const Transition& t, State before, Time now, Input input,
                        const Details& details) {
  if (c.state == State::kMraReqReceived || c.state == State::kMraRepReceived) {
    if (input == Input::kMra)
      connections_.arm(
          c, now + bounded(duration_of(details.service_timeout) + duration_of(c.packet_life_time)));
  } else if (is_retrying(c.state)) {
    if (c.state != before || t.send == Send::kAgain) connections_.arm(c, now + c.response_timeout);
  } else if (c.state == State::kTimeWait) {
    if (c.state == before) return;
    const bool refused = c.kept.is(wire::CmAttribute::kRej);
    connections_.arm(c, now + (refused ? c.linger : bounded(duration_of(c.ack_timeout))));
  } else if (c.state == State::kSidrRepSent) {
    if (c.state != before) connections_.arm(c, now + c.linger);
  } else {
    connections_.arm(c, kNever);
  }
}

void Manager::expire(Time now) {
  for (unsigned n = 0; n < kTimersAtOnce; ++n) {
    Connection* c = connections_.take_due(now);
    if (c == nullptr) return;
    Input input = Input::kExpired;
    if (is_retrying(c->state)) {
      if (c->retries_left == 0) {
        input = Input::kExhausted;
        ++counters_.timeouts;
      } else {
        --c->retries_left;
        ++counters_.retries;
      }
    }
    run(*c, input, now, {});
  }
}

void Manager::send(const Path& path, const wire::Mad& mad) {
  ++counters_.sent;
  environment_.send(path, mad);
}

void Manager::keep_and_send(Connection& c, const wire::Mad& mad) {
  c.kept.keep(mad);
  c.retries_left = c.max_retries;
  send(c.path, mad);
}

void Manager::keep_dreq(Connection& c) {
  c.transaction_id = draw_transaction_id(c.id);
  c.kept.keep(compose_dreq(c, {}));
  c.retries_left = c.max_retries;
}

/// What belongs to no connection is answered so many times a second.
bool Manager::may_reply_stateless(Time now) {
  if (now - replies_since_ >= std::chrono::seconds(1)) {
    replies_since_ = now;
    replies_ = 0;
  }
  if (replies_ < limits_.stateless_replies) {
    ++replies_;
    return true;
  }
  ++counters_.replies_over_limit;
  return false;
}

/// Null: no place. Those that nobody waits for give way.
Connection* Manager::make_connection(const Path& path, State state) {
  if (connections_.size() >= limits_.connections) {
    Connection* oldest = connections_.oldest_released();
    if (oldest == nullptr) return nullptr;
    connections_.remove(*oldest);
    ++counters_.given_up;
  }
  Connection c;
  c.id = draw_id();
  c.state = state;
  c.path = path;
  c.transaction_id = draw_transaction_id(c.id);
  return &connections_.add(std::move(c));
}

CommId Manager::draw_id() {
  for (;;) {
    const CommId id(environment_.random());
    if (id.value != 0 && connections_.find(id) == nullptr) return id;
  }
}

std::uint64_t Manager::draw_transaction_id(CommId id) {
  return std::uint64_t{environment_.random()} << 32 | id.value;
}

Duration Manager::bounded(Duration wait) const { return std::min(wait, limits_.longest_wait); }

Connection* Manager::owned(CommId id) {
  Connection* c = connections_.find(id);
  return c != nullptr && c->has_user ? c : nullptr;
}

Result Manager::call(CommId id, Input input, Time now, const Details& details) {
  Connection* c = owned(id);
  if (c == nullptr) return Result::kUnknown;
  return run(*c, input, now, details) ? Result::kOk : Result::kWrongState;
}

}  // namespace softhca::management::cm
