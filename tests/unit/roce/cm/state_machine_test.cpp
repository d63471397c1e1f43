// SPDX-License-Identifier: Apache-2.0

// The machine alone: what an input sends, changes and tells. The table of all states and inputs is
// that of states_test.
#include "tests/unit/roce/cm/parts.hpp"

namespace softhca::management::cm {
namespace {

struct Machine : Parts {
  Machine() : c(*factory.make(world.path(), State::kReqSent)), id(c.id) {
    c.active = true;
    c.cookie = 33;
    c.retransmission.set_retries(1);
    c.retransmission.set_timeout(std::chrono::seconds(2));
    machine.begin(c, wire::encode_cm(wire::CmReq{.local_comm_id = id.value}, 1), now);
    EXPECT_EQ(world.take_sent(), "REQ");
  }
  Connection& c;
  const CommId id;
};

TEST_F(Machine, AMessageGoesAgainUntilNoRetryIsLeft) {
  machine.expire(now + std::chrono::seconds(1));
  EXPECT_EQ(world.take_sent(), "");
  now += std::chrono::seconds(2);
  machine.expire(now);
  EXPECT_EQ(world.take_sent(), "REQ");
  EXPECT_EQ(counters.retries, 1u);
  machine.expire(now + std::chrono::seconds(2));
  EXPECT_EQ(counters.timeouts, 1u);
  EXPECT_EQ(world.take_events(), "unreachable in req-sent");
  EXPECT_EQ(connections.find(id), nullptr);
}

TEST_F(Machine, WhatMeansNothingInAStateIsNotDone) {
  EXPECT_FALSE(machine.run(c, Input::kRtu, now));
  EXPECT_EQ(state(id), State::kReqSent);
  EXPECT_EQ(machine.call(id, Input::kAccept, now), Result::kWrongState);
}

TEST_F(Machine, OneWithoutAUserIsNotTheUsers) {
  EXPECT_EQ(machine.owned(id), &c);
  connections.release(c);
  EXPECT_EQ(machine.owned(id), nullptr);
  EXPECT_EQ(machine.call(id, Input::kDestroy, now), Result::kUnknown);
  const wire::CmMra mra;
  const Event event{.mra = &mra};
  EXPECT_TRUE(machine.run(c, Input::kMra, now, {.service_timeout = 8, .message = &event}));
  EXPECT_EQ(world.take_events(), "") << "no user is notified";
}

TEST_F(Machine, AnEventTellsTheStateBeforeAndTheTime) {
  connections.set_state(c, State::kEstablished);
  const wire::CmDreq dreq;
  const Event event{.dreq = &dreq};
  machine.run(c, Input::kDreq, now, {.message = &event});
  EXPECT_EQ(world.take_events(), "disconnect requested");
  EXPECT_EQ(world.last_event.state, State::kEstablished);
  EXPECT_EQ(world.last_event.cookie, 33u);
  EXPECT_EQ(world.last_event.now, now);
}

}  // namespace
}  // namespace softhca::management::cm
