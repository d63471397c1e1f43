// SPDX-License-Identifier: Apache-2.0

#include "daemon/services/event_channel.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include "abi/rdma_cm_calls.hpp"
#include "daemon/device/adapter/control_clock.hpp"

namespace softhca::control {

EventChannel::~EventChannel() { EventChannel::take_back(Turn::endless()); }

bool EventChannel::take_back(const Turn& turn) {
  if (channel_ && !connections_.close_channel(tenant_, *channel_, turn)) return false;
  channel_.reset();
  return true;
}

int EventChannel::open(Connections& connections, engine::Tenant& tenant,
                       const ChannelRequest& request, const Peer& peer, Reply& reply,
                       std::unique_ptr<TenantChannel>& out) {
  const management::rdma_cm::ChannelOwner owner{.process = peer.identity().pid,
                                                .user = peer.identity().uid,
                                                .may_bind_low_ports = peer.may_bind_low_ports(),
                                                .level = request.level};
  std::unique_ptr<EventChannel> channel(new EventChannel(connections, tenant));
  if (const int error = channel->start(owner, request.protocol_version, peer, reply)) return error;
  out = std::move(channel);
  return 0;
}

int EventChannel::start(const management::rdma_cm::ChannelOwner& owner, std::uint32_t version,
                        const Peer& peer, Reply& reply) {
  if (const int error = peer.make_signal(signal_, reply)) return error;
  channel_ = connections_.open_channel(tenant_, owner, [this] { signal_->raise(); });
  if (!channel_) return ENODEV;
  process_ = owner.process;
  reply.write(abi::EventChannelReply{channel_->value, version});
  return 0;
}

void EventChannel::record(records::BodyWriter& body) const {
  TenantChannel::record(body);
  body.add(channel_->value).add(process_);
}

std::unique_ptr<TenantChannel> EventChannel::restore(Connections& connections,
                                                     engine::Tenant& tenant,
                                                     records::BodyReader& body, const Peer& peer) {
  std::unique_ptr<EventChannel> channel(new EventChannel(connections, tenant));
  std::uint32_t number = 0;
  if (!channel->restore_signal(body, peer) || !body.read(number) || !body.read(channel->process_))
    return nullptr;
  const management::rdma_cm::ChannelId id(number);
  if (!connections.restore_channel(tenant, id, [of = channel.get()] { of->signal_->raise(); }))
    return nullptr;
  channel->channel_ = id;
  // The earlier adapter ended between the record of an event and its signal.
  if (connections.find(tenant)->has_events(id) && !channel->signal_->is_raised())
    channel->signal_->raise();
  return channel;
}

std::optional<int> EventChannel::run(const abi::RequestHeader& header,
                                     std::span<const std::byte> body, Reply& reply) {
  if (header.operation != static_cast<std::uint32_t>(abi::Operation::kConnectionCommand))
    return std::nullopt;
  return command(header.tag, body, reply);
}

int EventChannel::command(std::uint32_t tag, std::span<const std::byte> body, Reply& reply) {
  abi::ConnectionCommandRequest request;
  if (!RequestBody(body).read(request, true) ||
      body.size() > sizeof request + abi::kMaxConnectionCommand)
    return EINVAL;
  management::rdma_cm::Service* service = connections_.find(tenant_);
  if (service == nullptr) return ENODEV;
  management::rdma_cm::ChannelReply answer;
  const int error = service->command(*channel_,
                                     {.tag = tag,
                                      .command = request.command,
                                      .other = management::rdma_cm::ChannelId(request.channel),
                                      .body = body.subspan(sizeof request)},
                                     answer, now());
  if (error != 0) {
    if (answer.refusal.empty()) return error;
    reply.write_refusal(answer.refusal);
    refused_.report(connections_.journal(), tenant_.name, process_,
                    abi::rdma_cm_call(request.command), answer.refusal);
    return error;
  }
  struct {
    abi::ConnectionCommandReply head;
    std::array<std::byte, abi::kMaxConnectionReply> bytes;
  } out{};
  out.head.bytes = static_cast<std::uint32_t>(answer.bytes);
  out.head.drained = answer.drained;
  std::memcpy(out.bytes.data(), answer.body.data(), answer.bytes);
  reply.write(out, sizeof out.head + answer.bytes);
  return 0;
}

}  // namespace softhca::control
