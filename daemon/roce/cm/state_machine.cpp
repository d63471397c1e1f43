// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/state_machine.hpp"

#include <algorithm>
#include <cassert>

#include "daemon/roce/cm/compose.hpp"

namespace softhca::management::cm {
namespace {

/// Time for the program to decide, as reported to a peer that retransmits: 65 s.
constexpr std::uint8_t kServiceTimeout = 24;

/// Bounded, so that many connections that end together do not delay the caller's other work.
constexpr unsigned kTimersAtOnce = 32;

/// True if the state needs the message kept before.
bool uses_kept(State state) { return is_retrying(state) || state == State::kSidrRepSent; }

bool keeps_new(const Transition& t) {
  return t.send == Send::kGiven || t.send == Send::kRejConsumer || t.send == Send::kDreq ||
         t.send == Send::kSidrReject || t.then == Then::kDreq;
}

}  // namespace

bool StateMachine::run(Connection& c, Input input, Time now, const Details& details) {
  const Transition* t = find_transition(c.state, input);
  if (t == nullptr) return false;
  const State before = c.state;
  const bool had_user = c.has_user;
  Event event = details.message != nullptr ? *details.message : Event{};
  event.id = c.id;
  event.cookie = c.cookie;
  event.state = before;
  event.now = now;

  act(c, *t, now, details);
  if (t->next != before && !keeps_new(*t) && !uses_kept(t->next)) c.retransmission.forget();
  if (t->user_leaves) connections_.release(c);
  const bool is_new = t->next == State::kEstablished && before != t->next;
  if (is_new) ++counters_.established;
  if (t->next == State::kTimeWait) connections_.unlist_queue_pair(c);
  if (t->next == kOver) {
    connections_.remove(c);
  } else {
    connections_.set_state(c, t->next);
    if (is_new) {
      validation_.note_established(c.path.remote, now);
      c.path.standing = Standing::kEstablished;
    }
    set_timer(c, *t, before, now, input, details);
  }

  if (t->tell && had_user) {
    event.kind = *t->tell;
    user_.on_event(event);
  }
  return true;
}

void StateMachine::act(Connection& c, const Transition& t, Time now, const Details& details) {
  const Retransmission& kept = c.retransmission;
  switch (t.send) {
    case Send::kNothing:
      break;
    case Send::kGiven:
      assert(details.given != nullptr);
      keep_and_send(c, *details.given);
      break;
    case Send::kAgain:
      if (kept.has_message()) sender_.send(c.path, kept.message());
      break;
    case Send::kMra:
      sender_.send(c.path, compose_mra(c, details.service_timeout != 0 ? details.service_timeout
                                                                       : kServiceTimeout));
      break;
    case Send::kRejTimeout:
      sender_.send(c.path, compose_rej_timeout(c, local_.ca_guid));
      break;
    case Send::kRejConsumer:
      keep_and_send(c, compose_rej(c, {}));
      break;
    case Send::kRejStaleOrAgain:
      if (kept.is(wire::CmAttribute::kRej))
        sender_.send(c.path, kept.message());
      else
        sender_.reply_stateless(
            c.path, compose_rej(c, {.reason = wire::CmRejectReason::kStaleConnection}), now);
      break;
    case Send::kDreq:
      keep_dreq(c);
      sender_.send(c.path, kept.message());
      break;
    case Send::kDrep:
      sender_.send(c.path,
                   kept.is(wire::CmAttribute::kDrep) ? kept.message() : compose_drep(c, {}));
      break;
    case Send::kApr:
      sender_.send(c.path, compose_apr(c, details.transaction_id));
      break;
    case Send::kSidrReject:
      keep_and_send(c, compose_sidr_rep(c, {.status = wire::CmSidrStatus::kReject}));
      break;
  }
  if (t.then == Then::kDreq) keep_dreq(c);
}

void StateMachine::set_timer(Connection& c, const Transition& t, State before, Time now,
                             Input input, const Details& details) {
  const CmLimits& limits = local_.limits;
  if (c.state == State::kMraReqReceived || c.state == State::kMraRepReceived) {
    if (input == Input::kMra)
      arm_retry(c, now + limits.bounded(duration_of(details.service_timeout) +
                                        duration_of(c.queue_pair.packet_life_time)));
  } else if (is_retrying(c.state)) {
    if (input == Input::kAccept) c.give_up_at = now + limits.longest_half_open;
    if (c.state != before || t.send == Send::kAgain) arm_retry(c, now + c.retransmission.timeout());
  } else if (c.state == State::kTimeWait) {
    if (c.state == before) return;
    const bool refused = c.retransmission.is(wire::CmAttribute::kRej);
    connections_.arm(
        c, now + (refused ? c.linger : limits.bounded(duration_of(c.queue_pair.ack_timeout))));
  } else if (c.state == State::kSidrRepSent) {
    if (c.state != before) connections_.arm(c, now + c.linger);
  } else {
    connections_.arm(c, kNever);
  }
}

void StateMachine::arm_retry(Connection& c, Time at) {
  connections_.arm(c, c.is_half_open() ? std::min(at, c.give_up_at) : at);
}

void StateMachine::expire(Time now) {
  for (unsigned n = 0; n < kTimersAtOnce; ++n) {
    Connection* c = connections_.take_due(now);
    if (c == nullptr) return;
    Input input = Input::kExpired;
    if (is_retrying(c->state)) {
      const bool may_wait = !c->is_half_open() || now < c->give_up_at;
      if (may_wait && c->retransmission.retry()) {
        ++counters_.retries;
      } else {
        input = Input::kExhausted;
        ++counters_.timeouts;
      }
    }
    run(*c, input, now);
  }
}

void StateMachine::begin(Connection& c, const wire::Mad& mad, Time now) {
  keep_and_send(c, mad);
  connections_.arm(c, now + c.retransmission.timeout());
}

void StateMachine::keep_and_send(Connection& c, const wire::Mad& mad) {
  c.retransmission.keep(mad);
  sender_.send(c.path, mad);
}

void StateMachine::keep_dreq(Connection& c) {
  c.transaction_id = sender_.draw_transaction_id(c.id);
  c.retransmission.keep(compose_dreq(c, {}));
}

Connection* StateMachine::owned(CommId id) {
  Connection* c = connections_.find(id);
  return c != nullptr && c->has_user ? c : nullptr;
}

Result StateMachine::call(CommId id, Input input, Time now, const Details& details) {
  Connection* c = owned(id);
  if (c == nullptr) return Result::kUnknown;
  return run(*c, input, now, details) ? Result::kOk : Result::kWrongState;
}

}  // namespace softhca::management::cm
