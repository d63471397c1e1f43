// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/compose.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "daemon/base/endian.hpp"

namespace softhca::management::cm {
namespace {

template <std::size_t bytes>
wire::CmData<bytes> filled_up(PrivateData data) {
  assert(data.size() <= bytes);
  wire::CmData<bytes> field{};
  std::ranges::copy(data, field.begin());
  return field;
}

wire::CmTransport wire_transport(Transport transport) {
  switch (transport) {
    case Transport::kUc:
      return wire::CmTransport::kUnreliableConnected;
    case Transport::kXrc:
      return wire::CmTransport::kExtended;
    default:
      return wire::CmTransport::kReliableConnected;
  }
}

wire::CmPath wire_path(const Connection& c, const ConnectParameters& p) {
  return {.local_gid = c.path.local,
          .remote_gid = c.path.remote,
          .flow_label = c.path.flow_label,
          .packet_rate = p.packet_rate,
          .traffic_class = c.path.traffic_class,
          .hop_limit = c.path.hop_limit,
          .subnet_local = c.path.hop_limit <= 1,
          .local_ack_timeout = ack_timeout_of(p.packet_life_time, p.local_ack_delay)};
}

}  // namespace

wire::Mad compose_req(const Connection& c, const ConnectParameters& p, std::uint64_t ca_guid) {
  // An initiator receives nothing, and does not specify retries.
  const bool xrc = c.queue_pair.transport == Transport::kXrc;
  constexpr std::uint8_t kNone = 0;
  const wire::CmReq m{.local_comm_id = c.id.value,
                      .service_id = c.service_id,
                      .local_ca_guid = ca_guid,
                      .local_qpn = c.queue_pair.local_qpn,
                      .responder_resources = xrc ? kNone : p.responder_resources,
                      .initiator_depth = p.initiator_depth,
                      .remote_response_timeout = p.remote_response_timeout,
                      .transport = wire_transport(c.queue_pair.transport),
                      .end_to_end_flow_control = p.flow_control,
                      .starting_psn = p.starting_psn,
                      .local_response_timeout = p.local_response_timeout,
                      .retry_count = xrc ? kNone : p.retry_count,
                      .pkey = p.pkey,
                      .path_mtu = p.path_mtu,
                      .rnr_retry_count = xrc ? kNone : p.rnr_retry_count,
                      .max_cm_retries = p.max_cm_retries,
                      .srq = !xrc && p.srq,
                      .extended_transport = xrc,
                      .primary = wire_path(c, p),
                      .private_data = filled_up<92>(p.private_data)};
  return wire::encode_cm(m, c.transaction_id);
}

wire::Mad compose_rep(const Connection& c, const AcceptParameters& p, std::uint64_t ca_guid) {
  wire::CmRep m{.local_comm_id = c.id.value,
                .remote_comm_id = c.remote_comm_id,
                .local_qpn = p.local_qpn,
                .starting_psn = p.starting_psn,
                .responder_resources = p.responder_resources,
                .initiator_depth = p.initiator_depth,
                .target_ack_delay = p.target_ack_delay,
                .end_to_end_flow_control = p.flow_control,
                .rnr_retry_count = p.rnr_retry_count,
                .srq = p.srq,
                .local_ca_guid = ca_guid,
                .private_data = filled_up<196>(p.private_data)};
  if (c.queue_pair.transport == Transport::kXrc) {
    m.local_eecn = p.local_qpn.value;
    m.local_qpn = Qpn(0);
    m.initiator_depth = 0;
    m.end_to_end_flow_control = false;
    m.srq = true;
  }
  return wire::encode_cm(m, c.transaction_id);
}

wire::Mad compose_rtu(const Connection& c, PrivateData private_data) {
  const wire::CmRtu m{c.id.value, c.remote_comm_id, filled_up<224>(private_data)};
  return wire::encode_cm(m, c.transaction_id);
}

wire::Mad compose_rej(const Connection& c, const RejectParameters& p) {
  wire::CmRej m{.local_comm_id = c.id.value,
                .remote_comm_id = c.remote_comm_id,
                .message = wire::CmMessage::kOther,
                .info_length = static_cast<std::uint8_t>(p.info.size()),
                .reason = p.reason,
                .info = filled_up<72>(p.info),
                .private_data = filled_up<148>(p.private_data)};
  if (c.state == State::kReqReceived) m.local_comm_id = 0;  // the peer never received it
  if (c.state == State::kReqReceived || c.state == State::kMraReqSent)
    m.message = wire::CmMessage::kReq;
  if (c.state == State::kRepReceived) m.message = wire::CmMessage::kRep;
  // A connection that has ended rejects a retransmitted REQ or REP.
  if (c.state == State::kDreqSent || c.state == State::kTimeWait)
    m.message = c.active ? wire::CmMessage::kRep : wire::CmMessage::kReq;
  return wire::encode_cm(m, c.transaction_id);
}

wire::Mad compose_rej_timeout(const Connection& c, std::uint64_t ca_guid) {
  std::array<std::byte, 8> guid;
  store_be(guid.data(), ca_guid);
  return compose_rej(c, {.reason = wire::CmRejectReason::kTimeout, .info = guid});
}

wire::Mad compose_mra(const Connection& c, std::uint8_t service_timeout) {
  const wire::CmMra m{
      .local_comm_id = c.id.value,
      .remote_comm_id = c.remote_comm_id,
      .message = c.state == State::kRepReceived ? wire::CmMessage::kRep : wire::CmMessage::kReq,
      .service_timeout = service_timeout};
  return wire::encode_cm(m, c.transaction_id);
}

wire::Mad compose_dreq(const Connection& c, PrivateData private_data) {
  const wire::CmDreq m{c.id.value, c.remote_comm_id, c.queue_pair.remote_qpn,
                       filled_up<220>(private_data)};
  return wire::encode_cm(m, c.transaction_id);
}

wire::Mad compose_drep(const Connection& c, PrivateData private_data) {
  const wire::CmDrep m{c.id.value, c.remote_comm_id, filled_up<224>(private_data)};
  return wire::encode_cm(m, c.transaction_id);
}

wire::Mad compose_apr(const Connection& c, std::uint64_t transaction_id) {
  const wire::CmApr m{.local_comm_id = c.id.value,
                      .remote_comm_id = c.remote_comm_id,
                      .status = wire::CmAprStatus::kUnsupported};
  return wire::encode_cm(m, transaction_id);
}

wire::Mad compose_sidr_req(const Connection& c, const SidrParameters& p) {
  const wire::CmSidrReq m{c.id.value, p.pkey, c.service_id, filled_up<216>(p.private_data)};
  return wire::encode_cm(m, c.transaction_id);
}

wire::Mad compose_sidr_rep(const Connection& c, const SidrReplyParameters& p) {
  const wire::CmSidrRep m{.request_id = c.remote_comm_id,
                          .status = p.status,
                          .info_length = static_cast<std::uint8_t>(p.info.size()),
                          .qpn = p.qpn,
                          .service_id = c.service_id,
                          .qkey = p.qkey,
                          .info = filled_up<72>(p.info),
                          .private_data = filled_up<136>(p.private_data)};
  return wire::encode_cm(m, c.transaction_id);
}

}  // namespace softhca::management::cm
