// SPDX-License-Identifier: Apache-2.0

// Our connection manager and one of a peer, which exchange messages. Tests of the parts that use
// connections need no service.
#pragma once

#include <vector>

#include "daemon/roce/cm/manager.hpp"
#include "daemon/roce/rdma_cm/connections/admission_control.hpp"
#include "daemon/roce/rdma_cm/connections/connection_commands.hpp"
#include "tests/unit/roce/rdma_cm/parts.hpp"

namespace softhca::management::rdma_cm {

/// Takes every request, and records the events.
struct RecordingUser final : cm::User {
  cm::Answer on_request(const cm::ConnectionRequest& request) override {
    taken = request.id;
    request_message = request.message;
    return cm::Answer::take(cookie);
  }
  cm::Answer on_sidr_request(const cm::SidrRequest& request) override {
    taken = request.id;
    return cm::Answer::take(cookie);
  }
  void on_event(const cm::Event& event) override {
    events.push_back(event.kind);
    if (event.rep != nullptr) rep = *event.rep;
    if (event.rej != nullptr) reject_reason = event.rej->reason;
    if (event.sidr_rep != nullptr) sidr_status = event.sidr_rep->status;
  }

  cm::Cookie cookie = 0;
  cm::CommId taken;
  wire::CmReq request_message;
  wire::CmRep rep;
  std::vector<cm::Event::Kind> events;
  std::optional<wire::CmRejectReason> reject_reason;
  std::optional<wire::CmSidrStatus> sidr_status;
};

struct WithPeer : Parts {
  WithPeer() {
    id.local = at(kOwn, 7000);
    id.source = kOwn;
    id.remote = at(kPeer, 9);
    id.route = ResolvedRoute{.mtu = 4};
    id.state = IdentifierState::kRouteResolved;
  }

  /// Delivers messages until none is under way.
  void exchange() {
    while (!environment.mads.empty() || !peer_environment.mads.empty()) {
      for (const wire::Mad& mad : std::exchange(environment.mads, {}))
        peer.receive(mad, {.local = kPeer, .remote = kOwn}, Qpn(1), now);
      for (const wire::Mad& mad : std::exchange(peer_environment.mads, {}))
        manager.receive(mad, {.local = kOwn, .remote = kPeer}, Qpn(1), now);
    }
  }

  rdma_ucm_connect connect_body(const Identifier& of) const {
    rdma_ucm_connect body{};
    body.id = of.number.value;
    body.conn_param.valid = 1;
    body.conn_param.qp_num = 0x55;
    body.conn_param.retry_count = 200;
    body.conn_param.rnr_retry_count = 6;
    return body;
  }
  int connect() { return commands.connect(command(channel, connect_body(id))); }
  int accept(bool given, std::uint8_t private_data_bytes = 0) {
    rdma_ucm_accept body{};
    body.uid = 99;
    body.id = id.number.value;
    body.conn_param.valid = given ? 1 : 0;
    body.conn_param.qp_num = 0x66;
    body.conn_param.private_data_len = private_data_bytes;
    return commands.accept(command(channel, body));
  }

  /// Connected by us, up to the peer's REP.
  void be_replied() {
    ASSERT_EQ(connect(), 0);
    exchange();
    ASSERT_EQ(peer.accept(peer_user.taken, {.local_qpn = Qpn(0x77)}, now), cm::Result::kOk);
    exchange();
  }
  void be_established() {
    be_replied();
    ASSERT_EQ(accept(false), 0);
    exchange();
  }
  /// Asked for by the peer, and taken.
  void be_asked() {
    user.cookie = id.cookie();
    const cm::Path path{.local = kPeer, .remote = kOwn};
    const auto started = id.is_datagram() ? peer.sidr_request({.path = path}, now)
                                          : peer.connect({.path = path}, now);
    ASSERT_EQ(started.result, cm::Result::kOk);
    exchange();
    id.connection.id = user.taken;
    id.connection.role = Role::kPassive;
    id.connection.began = now;
    id.state = IdentifierState::kConnect;
  }
  std::optional<cm::State> connection_state() const {
    return id.connection.id ? manager.state(*id.connection.id) : std::nullopt;
  }

  Channel& channel = open();
  Identifier& id = make(channel);
  RecordingUser user, peer_user;
  RecordingEnvironment peer_environment;
  cm::Manager manager{environment, user, 7};
  cm::Manager peer{peer_environment, peer_user, 8};
  AdmissionControl admission{environment, limits};
  ConnectionCommands commands{environment, addresses, identifiers, admission, manager};
};

}  // namespace softhca::management::rdma_cm
