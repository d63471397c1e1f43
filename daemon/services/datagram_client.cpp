// SPDX-License-Identifier: Apache-2.0

#include "daemon/services/datagram_client.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/roce/wire/mad.hpp"
#include "daemon/services/tenant_paths.hpp"

namespace softhca::control {
namespace {

constexpr std::uint32_t kGreatestQpn = 0xfffffe;
constexpr std::uint8_t kHopLimit = 64;

}  // namespace

int DatagramClient::open(DatagramClients& clients, engine::Tenant& tenant,
                         const ChannelRequest& request, const Peer& peer, Reply& reply,
                         std::unique_ptr<TenantChannel>& out) {
  std::unique_ptr<DatagramClient> client(new DatagramClient(tenant));
  if (const int error = client->start(clients, request, peer, reply)) return error;
  out = std::move(client);
  return 0;
}

int DatagramClient::start(DatagramClients& clients, const ChannelRequest& request, const Peer& peer,
                          Reply& reply) {
  if (const int error = peer.make_signal(signal_, reply)) return error;
  request_ = request.datagrams;
  if (const int error = enter(clients, peer, false)) return error;
  reply.write(abi::DatagramQuotaBody{quota_, request.protocol_version});
  return 0;
}

int DatagramClient::enter(DatagramClients& clients, const Peer& peer, bool again) {
  const int error = clients.add(
      tenant_, peer.identity().pid, request_,
      {.name = {},
       .buffers = {},
       .receive = {},
       .tell =
           [this](const management::gsa::ShareChange& change) { quota_changed(change.new_share); },
       .keep = [this](std::uint32_t buffer) { keep(buffer); }},
      registration_, again);
  if (error == 0) quota_ = registration_->asked();
  return error;
}

void DatagramClient::record(records::BodyWriter& body) const {
  TenantChannel::record(body);
  body.add(request_);
}

std::unique_ptr<TenantChannel> DatagramClient::restore(DatagramClients& clients,
                                                       engine::Tenant& tenant,
                                                       records::BodyReader& body,
                                                       const Peer& peer) {
  std::unique_ptr<DatagramClient> client(new DatagramClient(tenant));
  if (!client->restore_signal(body, peer) || !body.read(client->request_)) return nullptr;
  client->announced_ = client->signal_->is_raised();
  client->tell_quota_ = true;  // an adapted share starts anew
  if (client->enter(clients, peer, true) != 0) return nullptr;
  return client;
}

DatagramClient::~DatagramClient() {
  for (const std::uint32_t buffer : queue_) registration_->service().release(buffer);
}

// --- received datagrams

void DatagramClient::keep(std::uint32_t buffer) {
  queue_.push_back(buffer);
  drop_surplus();
  announce();
}

void DatagramClient::quota_changed(std::uint32_t quota) {
  quota_ = quota;
  tell_quota_ = true;
  drop_surplus();
  announce();
}

/// Drops the oldest datagrams beyond the share, as their buffers may be another client's now.
/// Datagrams that were under way when the share shrank still arrive afterwards.
void DatagramClient::drop_surplus() {
  for (; queue_.size() > quota_; queue_.pop_front())
    registration_->service().release(queue_.front());
}

/// The process has not taken at most two signals at any time.
void DatagramClient::announce() {
  if (announced_) return;
  announced_ = true;
  signal_->raise();
}

// --- requests of the process

std::optional<int> DatagramClient::run(const abi::RequestHeader& header,
                                       std::span<const std::byte> body, Reply& reply) {
  switch (static_cast<abi::Operation>(header.operation)) {
    case abi::Operation::kSetDatagramBuffers:
      return set_buffers(RequestBody(body), reply);
    case abi::Operation::kSendDatagram:
      return send(body);
    case abi::Operation::kReceiveDatagram:
      return receive(RequestBody(body), reply);
    default:
      return std::nullopt;
  }
}

int DatagramClient::set_buffers(const RequestBody& body, Reply& reply) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  if (const int error = registration_->set_buffers(request.handle)) return error;
  request_.buffers = request.handle;
  quota_ = registration_->asked();
  tell_quota_ = false;
  drop_surplus();
  reply.write(abi::DatagramQuotaBody{quota_, 0});
  return 0;
}

int DatagramClient::send(std::span<const std::byte> body) {
  abi::DatagramHead head;
  if (!RequestBody(body).read(head, true)) return EINVAL;
  const auto payload = body.subspan(sizeof head);
  const bool of_class = registration_->is_of_class();
  const std::size_t least = of_class ? abi::kDatagramBytes : 0;
  if (payload.size() != head.bytes || head.bytes < least || head.bytes > abi::kDatagramBytes)
    return EINVAL;
  if (head.qpn == 0 || head.qpn > kGreatestQpn) return EINVAL;
  if (of_class && static_cast<std::uint32_t>(payload[engine::kClassOffset]) !=
                      engine::class_of(registration_->selector()))
    return EACCES;
  // The Q_Key of management is allowed only to clients of a class.
  const bool of_management = of_class && head.qkey == engine::kGeneralServicesQkey;
  if (wire::is_controlled_qkey(head.qkey) && !of_management &&
      !registration_->adapter().settings(tenant_).programs.controlled_qkeys)
    return EPERM;
  engine::Datagram datagram;
  if (const int error = path_of(head, datagram.path)) return error;
  if (const int error = registration_->charge()) return error;
  datagram.peer = Qpn(head.qpn);
  datagram.qkey = head.qkey;
  datagram.tenant = tenant_.id;
  datagram.gives_way = true;
  datagram.length = static_cast<std::uint16_t>(payload.size());
  std::ranges::copy(payload, datagram.payload.begin());
  return registration_->service().send(datagram) ? 0 : EAGAIN;
}

int DatagramClient::path_of(const abi::DatagramHead& head, engine::AddressPath& path) const {
  Gid local, peer;
  std::memcpy(local.bytes.data(), head.local, sizeof head.local);
  std::memcpy(peer.bytes.data(), head.peer, sizeof head.peer);
  if (peer.is_zero() || peer.is_multicast()) return EINVAL;
  const Adapter& adapter = registration_->adapter();
  if (local.is_zero()) {
    const auto chosen = source_for(adapter, tenant_, peer);
    if (!chosen) return ENETUNREACH;
    local = *chosen;
  }
  if (std::ranges::none_of(tenant_.addresses,
                           [&](const auto& address) { return address.gid == local; }))
    return EADDRNOTAVAIL;
  // RoCE v2 puts both addresses into one IP header.
  if (local.is_ipv4() != peer.is_ipv4()) return EINVAL;
  path = path_between(adapter, tenant_, local, peer);
  path.flow_label = head.flow_label & 0xfffff;
  path.traffic_class = head.traffic_class;
  path.hop_limit = head.hop_limit == 0 ? kHopLimit : head.hop_limit;
  return 0;
}

int DatagramClient::receive(const RequestBody& body, Reply& reply) {
  if (!body.empty()) return EINVAL;
  if (std::exchange(tell_quota_, false)) {
    struct {
      abi::ReceiveDatagramReply head;
      abi::DatagramQuotaBody body;
    } out{{static_cast<std::uint32_t>(abi::DatagramEvent::kQuota), take_drained()}, {quota_, 0}};
    reply.write(out);
  } else if (!queue_.empty()) {
    const std::uint32_t buffer = queue_.front();
    queue_.pop_front();
    reply_datagram(buffer, reply);
    registration_->service().release(buffer);
  } else {
    reply.write(abi::ReceiveDatagramReply{static_cast<std::uint32_t>(abi::DatagramEvent::kNothing),
                                          take_drained()});
  }
  return 0;
}

/// Returns 1 if the process has to read the byte that announced what it has taken now.
std::uint32_t DatagramClient::take_drained() {
  if (!queue_.empty() || tell_quota_ || !announced_) return 0;
  announced_ = false;
  return 1;
}

void DatagramClient::reply_datagram(std::uint32_t buffer, Reply& reply) {
  const engine::Datagram& datagram = registration_->service().datagram(buffer);
  struct {
    abi::ReceiveDatagramReply head;
    abi::DatagramHead from;
    std::array<std::byte, abi::kDatagramBytes> payload;
  } out{};
  out.head = {static_cast<std::uint32_t>(abi::DatagramEvent::kReceived), take_drained()};
  std::memcpy(out.from.local, datagram.path.source.bytes.data(), sizeof out.from.local);
  std::memcpy(out.from.peer, datagram.path.destination.bytes.data(), sizeof out.from.peer);
  out.from.qpn = datagram.peer.value;
  out.from.flow_label = datagram.path.flow_label;
  out.from.traffic_class = datagram.path.traffic_class;
  out.from.pkey = 0xffff;
  out.from.bytes = datagram.length;
  std::memcpy(out.payload.data(), datagram.payload.data(), datagram.length);
  reply.write(out, sizeof out.head + sizeof out.from + datagram.length);
}

}  // namespace softhca::control
