// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/connections/peer_requests.hpp"

#include <algorithm>

#include "daemon/roce/rdma_cm/addresses/resolved_route.hpp"
#include "daemon/roce/rdma_cm/connections/private_data.hpp"

namespace softhca::management::rdma_cm {

struct PeerRequests::Inquiry {
  cm::CommId connection;
  cm::Path path;
  std::uint64_t service_id = 0;
  bool datagram = false;        ///< SIDR_REQ
  bool right_transport = true;  ///< REQ: reliable connected
  wire::CmIpHeader header;
  Time now;

  PortSpace space() const { return static_cast<PortSpace>(service_id >> 16); }
  std::uint16_t port() const { return static_cast<std::uint16_t>(service_id); }
  Gid source() const { return from_header(header.source, header.ip_version); }
  Gid destination() const { return from_header(header.destination, header.ip_version); }
  bool is_ipv4() const { return header.ip_version == 4; }
  sa_family_t family() const { return is_ipv4() ? AF_INET : AF_INET6; }

  /// True if the header is valid and has the addresses of the message itself.
  bool header_is_true() const {
    return header.version == 0 && (is_ipv4() || header.ip_version == 6) &&
           source() == path.remote && destination() == path.local;
  }
};

namespace {

constexpr std::uint64_t kMostServiceId = 0xffffffff;  // 16 bits of port space, 16 of port

template <class Data>
wire::CmIpHeader header_of(const Data& private_data) {
  return wire::decode_cm_ip_header(
      std::span(private_data).template first<wire::CmIpHeader::kBytes>());
}

template <class Data>
std::span<const std::byte> program_part(const Data& private_data) {
  return std::span(private_data).subspan(wire::CmIpHeader::kBytes);
}

/// True if the listener serves `destination`. `ours`: it is an address of the tenant.
bool serves(const Identifier& listener, const Gid& destination, bool ours) {
  const SocketAddress& own = listener.local;
  if (!own.is_any()) return own.address == destination;
  if (!ours) return false;
  return !listener.keeps_to_family() || own.address.is_ipv4() == destination.is_ipv4();
}

}  // namespace

// --- choice of the listener

Identifier* PeerRequests::find_listener(const Inquiry& inquiry, cm::Answer& why) {
  const auto refuse = [&](wire::CmRejectReason reason, wire::CmSidrStatus status) {
    environment_.note_reject_sent(reason);
    why = inquiry.datagram ? cm::Answer::refuse(status) : cm::Answer::refuse(reason);
    return nullptr;
  };
  const auto* const here = inquiry.service_id > kMostServiceId
                               ? nullptr
                               : listeners_.at(inquiry.space(), inquiry.port());
  if (here == nullptr)
    return refuse(wire::CmRejectReason::kInvalidServiceId, wire::CmSidrStatus::kUnsupported);

  const bool right_kind =
      inquiry.right_transport && inquiry.datagram == (inquiry.space() != PortSpace::kTcp);
  const bool from_here = addresses_.has(inquiry.path.remote);
  const bool ours = addresses_.has(inquiry.path.local);
  if (right_kind && inquiry.header_is_true())
    for (const IdentifierNumber number : *here) {
      Identifier* const listener = identifiers_.find(number.value);
      if (serves(*listener, inquiry.path.local, ours) && (from_here || !listener->loopback_only))
        return listener;
    }
  return refuse(wire::CmRejectReason::kConsumer, wire::CmSidrStatus::kReject);
}

/// Returns the listener if it has room for one more request.
Identifier* PeerRequests::admit(const Inquiry& inquiry, cm::Answer& why) {
  Identifier* const listener = find_listener(inquiry, why);
  if (listener == nullptr) return nullptr;
  why = cm::Answer::silence();
  if (listener->listener.waiting >= listener->listener.backlog) {
    environment_.note_refused(Refusal::kBacklog);
    return nullptr;
  }
  if (identifiers_.size() >= limits_.identifiers) {
    environment_.note_refused(Refusal::kIdentifiers);
    return nullptr;
  }
  if (inquiry.datagram)
    return admission_.rate_allows(inquiry.now, inquiry.path.standing) ? listener : nullptr;
  const std::string& level = channels_.of(*listener)->owner.level;
  const bool admitted = admission_.admit_request(level, inquiry.path, inquiry.now, why);
  return admitted ? listener : nullptr;
}

// --- the new identifier

Identifier& PeerRequests::make(const Inquiry& inquiry, const Identifier& listener) {
  Identifier& id = identifiers_.make();
  id.space = listener.space;
  id.state = IdentifierState::kConnect;
  id.connection.role = Role::kPassive;
  id.connection.id = inquiry.connection;
  id.local = {.family = inquiry.family(),
              .port = inquiry.port(),
              .address = inquiry.path.local,
              .scope = listener.local.scope};
  id.remote = {.family = inquiry.family(),
               .port = inquiry.header.source_port,
               .address = inquiry.path.remote,
               .scope = listener.local.scope};
  id.source = inquiry.path.local;
  id.options.traffic_class = inquiry.path.traffic_class;
  id.route = route_to(id, environment_.adapter(id.source));
  id.route->flow_label = inquiry.path.flow_label;
  id.route->hop_limit = inquiry.path.hop_limit;
  id.connection.local_psn = Psn(environment_.random());
  id.connection.began = inquiry.now;
  return id;
}

void PeerRequests::report(Identifier& listener, const Identifier& request,
                          rdma_ucm_event_resp response) {
  response.uid = listener.uid;
  response.id = request.number.value;
  response.event = static_cast<std::uint32_t>(EventType::kConnectRequest);
  ++listener.listener.waiting;
  events_.push(*channels_.of(listener), listener,
               {.request = request.number, .response = response});
}

cm::Answer PeerRequests::on_request(const cm::ConnectionRequest& request) {
  const wire::CmReq& req = request.message;
  const Inquiry inquiry{.connection = request.id,
                        .path = request.path,
                        .service_id = req.service_id,
                        .right_transport = req.transport == wire::CmTransport::kReliableConnected,
                        .header = header_of(req.private_data),
                        .now = request.now};
  cm::Answer answer;
  Identifier* const listener = admit(inquiry, answer);
  if (listener == nullptr) return answer;

  Identifier& id = make(inquiry, *listener);
  AdmissionControl::admitted(id, channels_.of(*listener)->owner.level, inquiry.path);
  id.connection.remote_psn = req.starting_psn;
  id.route->mtu = std::min(id.route->mtu, req.path_mtu);
  id.route->rate = req.primary.packet_rate;
  const std::uint8_t timeout = req.primary.local_ack_timeout;
  id.route->packet_life_time = timeout == 0 ? timeout : static_cast<std::uint8_t>(timeout - 1);

  rdma_ucm_event_resp response{};
  rdma_ucm_conn_param& parameters = response.param.conn;
  // The requests that one end initiates, the other end answers.
  parameters.responder_resources = req.initiator_depth;
  parameters.initiator_depth = req.responder_resources;
  parameters.flow_control = req.end_to_end_flow_control;
  parameters.retry_count = req.retry_count;
  parameters.rnr_retry_count = req.rnr_retry_count;
  parameters.srq = req.srq;
  parameters.qp_num = req.local_qpn.value;
  copy_private_data(program_part(req.private_data), parameters);
  report(*listener, id, response);
  return cm::Answer::take(id.cookie());
}

void PeerRequests::on_over_limit(cm::OverLimit limit) {
  environment_.note_refused(limit == cm::OverLimit::kHalfOpen ? Refusal::kHalfOpen
                                                              : Refusal::kConnections);
}

cm::Answer PeerRequests::on_sidr_request(const cm::SidrRequest& request) {
  const Inquiry inquiry{.connection = request.id,
                        .path = request.path,
                        .service_id = request.message.service_id,
                        .datagram = true,
                        .header = header_of(request.message.private_data),
                        .now = request.now};
  cm::Answer answer;
  Identifier* const listener = admit(inquiry, answer);
  if (listener == nullptr) return answer;
  const Identifier& id = make(inquiry, *listener);
  rdma_ucm_event_resp response{};
  copy_private_data(program_part(request.message.private_data), response.param.ud);
  report(*listener, id, response);
  return cm::Answer::take(id.cookie());
}

}  // namespace softhca::management::rdma_cm
