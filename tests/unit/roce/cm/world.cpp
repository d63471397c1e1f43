// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/roce/cm/world.hpp"

#include <stdexcept>

namespace softhca::management::cm {
namespace {

const char* about(wire::CmMessage message) {
  constexpr const char* kNames[] = {"REQ", "REP", "other"};
  return kNames[static_cast<unsigned>(message)];
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace

std::string text_of(const wire::Mad& mad) {
  const auto attribute = wire::CmAttribute{wire::decode_mad_header(mad)->attribute_id};
  std::string text = wire::name_of(attribute);
  if (attribute == wire::CmAttribute::kRej) {
    const auto m = wire::decode_cm<wire::CmRej>(mad);
    text += " " + std::to_string(static_cast<unsigned>(m.reason)) + " about " + about(m.message);
  }
  if (attribute == wire::CmAttribute::kMra)
    text += std::string(" about ") + about(wire::decode_cm<wire::CmMra>(mad).message);
  if (attribute == wire::CmAttribute::kSidrRep)
    text +=
        " " + std::to_string(static_cast<unsigned>(wire::decode_cm<wire::CmSidrRep>(mad).status));
  if (attribute == wire::CmAttribute::kApr)
    text += " " + std::to_string(static_cast<unsigned>(wire::decode_cm<wire::CmApr>(mad).status));
  return text;
}

std::string text_of(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kReplied:
      return "replied";
    case Event::Kind::kEstablished:
      return event.rtu != nullptr ? "established" : "established early";
    case Event::Kind::kRejected:
      return "rejected " + std::to_string(static_cast<unsigned>(event.rej->reason));
    case Event::Kind::kDelayed:
      return "delayed";
    case Event::Kind::kUnreachable:
      return std::string("unreachable in ") + name_of(event.state);
    case Event::Kind::kDisconnectRequested:
      return "disconnect requested";
    case Event::Kind::kDisconnected:
      return "disconnected";
    case Event::Kind::kTimeWaitOver:
      return "time wait over";
    case Event::Kind::kSidrReplied:
      return "sidr replied " + std::to_string(static_cast<unsigned>(event.sidr_rep->status));
  }
  return "?";
}

std::string Surroundings::take_sent() {
  std::vector<std::string> parts;
  for (const wire::Mad& mad : mads) parts.push_back(text_of(mad));
  mads.clear();
  paths.clear();
  return join(parts);
}

std::string Surroundings::take_events() {
  const std::string text = join(events);
  events.clear();
  return text;
}

CommId World::connect() {
  return manager
      .connect({.cookie = 33,
                .path = path(),
                .service_id = kService,
                .local_qpn = kOurQpn,
                .starting_psn = Psn(0x100),
                .responder_resources = 3,
                .initiator_depth = 4},
               now)
      .id;
}

wire::CmReq Surroundings::peer_req() const {
  return {.local_comm_id = kPeerId,
          .service_id = kService,
          .local_ca_guid = kPeerGuid,
          .local_qpn = kPeerQpn,
          .responder_resources = 5,
          .initiator_depth = 6,
          .remote_response_timeout = 20,
          .starting_psn = Psn(0x200),
          .local_response_timeout = 20,
          .retry_count = 7,
          .path_mtu = 3,
          .rnr_retry_count = 6,
          .max_cm_retries = 15,
          .primary = {.local_gid = kThere,
                      .remote_gid = kHere,
                      .flow_label = 0x12345,
                      .traffic_class = 8,
                      .hop_limit = 63,
                      .local_ack_timeout = 19}};
}

wire::CmRep Surroundings::peer_rep(CommId id) const {
  return {.local_comm_id = kPeerId,
          .remote_comm_id = id.value,
          .local_qpn = kPeerQpn,
          .starting_psn = Psn(0x200),
          .responder_resources = 1,
          .initiator_depth = 2,
          .target_ack_delay = 15,
          .rnr_retry_count = 5,
          .local_ca_guid = kPeerGuid};
}

void World::establish(const Path& from, std::uint32_t peer_id) {
  auto req = peer_req();
  req.primary.local_gid = from.remote;
  req.local_comm_id = peer_id;
  req.local_qpn = Qpn(0xf00000 + peer_id);
  manager.receive(wire::encode_cm(req, 7), from, Qpn(1), now);
  const CommId id = requests.back();
  manager.accept(id, {.local_qpn = kOurQpn}, now);
  manager.receive(wire::encode_cm(wire::CmRtu{peer_id, id.value, {}}, 7), from, Qpn(1), now);
  if (manager.state(id) != State::kEstablished) throw std::logic_error("not established");
  take_sent();
  take_events();
}

CommId World::take_request() {
  receive(peer_req());
  return requests.back();
}

CommId World::enter(State state, bool active) {
  const auto mra = [this](CommId id, wire::CmMessage message) {
    receive(wire::CmMra{.local_comm_id = kPeerId,
                        .remote_comm_id = id.value,
                        .message = message,
                        .service_timeout = 24});
  };
  const bool connected = state >= State::kEstablished && state <= State::kTimeWait;
  CommId id;
  if (state == State::kSidrReqSent) {
    id = manager.sidr_request({.cookie = 33, .path = path(), .service_id = kService}, now).id;
  } else if (state == State::kSidrReqReceived || state == State::kSidrRepSent) {
    receive(wire::CmSidrReq{.request_id = kPeerId, .service_id = kService});
    id = sidr_requests.back();
    if (state == State::kSidrRepSent) manager.sidr_reply(id, {.qpn = kOurQpn}, now);
  } else if (state <= State::kRepReceived || (connected && active)) {
    id = connect();
    if (state == State::kMraReqReceived) mra(id, wire::CmMessage::kReq);
    if (state >= State::kRepReceived) receive(peer_rep(id));
    if (connected) manager.confirm(id, now);
  } else {
    id = take_request();
    if (state == State::kMraReqSent) manager.send_mra(id, 24, now);
    if (state >= State::kRepSent)
      manager.accept(id, {.local_qpn = kOurQpn, .starting_psn = Psn(0x100)}, now);
    if (state == State::kMraRepReceived) mra(id, wire::CmMessage::kRep);
    if (connected) receive(wire::CmRtu{kPeerId, id.value, {}});
  }
  if (state == State::kDreqReceived) receive(wire::CmDreq{kPeerId, id.value, kOurQpn, {}});
  if (state == State::kDreqSent || state == State::kTimeWait) manager.disconnect(id, now);
  if (state == State::kTimeWait) receive(wire::CmDrep{kPeerId, id.value, {}});
  if (manager.state(id) != state)
    throw std::logic_error(std::string("no way to ") + name_of(state));
  take_sent();
  take_events();
  return id;
}

}  // namespace softhca::management::cm
