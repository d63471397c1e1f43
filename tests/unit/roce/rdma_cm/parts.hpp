// SPDX-License-Identifier: Apache-2.0

// Fixtures for tests of single parts of the rdma_cm service: an environment that records its calls,
// the tables that parts share, and commands in the format that processes write.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "daemon/roce/rdma_cm/addresses/address_binding.hpp"
#include "daemon/roce/rdma_cm/addresses/port_spaces.hpp"
#include "daemon/roce/rdma_cm/addresses/tenant_gids.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/channel_table.hpp"
#include "daemon/roce/rdma_cm/event_queues.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/service_core.hpp"

namespace softhca::management::rdma_cm {

inline const Gid kOwn = Gid::from_ipv4(0x0a000001);
inline const Gid kOwnToo = Gid::from_ipv4(0x0a000002);
inline const Gid kPeer = Gid::from_ipv4(0x0a000009);

class RecordingEnvironment final : public RdmaCmEnvironment {
 public:
  void send(const cm::Path&, const wire::Mad& mad) override {
    ++sent;
    mads.push_back(mad);
  }
  std::uint32_t random() override { return next_random++; }
  void signal(ChannelId channel) override { signalled.push_back(channel); }
  std::span<const TenantGid> addresses() const override { return own; }
  TenantAdapter adapter(const std::optional<Gid>&) const override {
    return {.node_guid = 7, .path_mtu = 4, .packet_rate = 3};
  }
  std::optional<Gid> source_for(const Gid&) const override { return kOwn; }
  std::string networks(bool) const override { return "10.0.0.1/24"; }
  void resolve(const Gid& source, const Gid& destination, ResolveCookie cookie) override {
    asked.push_back({source, destination});
    last_cookie = cookie;
  }
  bool may_name_queue_pair(Qpn qpn, uid_t) const override { return qpn != foreign; }
  void note_refused(Refusal refusal) override { ++refused[refusal]; }
  void note_reject_sent(wire::CmRejectReason reason) override { ++rejects_sent[reason]; }
  void note_reject_received(wire::CmRejectReason reason) override { ++rejects_received[reason]; }
  void note_unreachable(Role) override { ++unreachable; }
  void note_established(Role, Duration took) override { established.push_back(took); }

  Qpn foreign{0xffffff};  ///< a queue pair of another user
  std::uint32_t next_random = 1;
  unsigned sent = 0;
  std::vector<wire::Mad> mads;  ///< sent, but not delivered
  std::vector<ChannelId> signalled;
  std::vector<TenantGid> own{{kOwn, 1}, {kOwnToo, 2, 2}};
  std::vector<std::pair<Gid, Gid>> asked;
  ResolveCookie last_cookie;
  std::map<Refusal, int> refused;
  std::map<wire::CmRejectReason, int> rejects_sent, rejects_received;
  unsigned unreachable = 0;
  std::vector<Duration> established;
};

inline SocketAddress at(const Gid& gid, std::uint16_t port) {
  return {.family = AF_INET, .port = port, .address = gid};
}

struct Parts : testing::Test {
  Channel& open(const ChannelOwner& owner = {.process = 1, .user = 1000}) {
    return *channels.find(channels.open(owner));
  }
  Identifier& make(Channel& channel, PortSpace space = PortSpace::kTcp, std::uint64_t uid = 77) {
    Identifier& id = identifiers.make();
    id.channel = channel.id;
    id.uid = uid;
    id.space = space;
    channel.identifiers.insert(id.number);
    return id;
  }
  Identifier& make_bound(Channel& channel, PortSpace space = PortSpace::kTcp) {
    Identifier& id = make(channel, space);
    EXPECT_EQ(binding.bind(command(channel), id, at(kOwn, 0)), 0);
    return id;
  }
  /// A command without body.
  ChannelCommand command(Channel& channel) {
    return {.channel = channel, .other = nullptr, .body = {}, .reply = reply, .now = now};
  }
  template <class Body>
  ChannelCommand command(Channel& channel, const Body& body) {
    ChannelCommand all = command(channel);
    all.body = std::as_bytes(std::span(&body, 1));
    return all;
  }
  /// The types of the events that wait, which are taken.
  std::vector<EventType> events_of(Channel& channel) {
    std::vector<EventType> types;
    while (const auto event = events.pop(channel))
      types.push_back(EventType{event->response.event});
    return types;
  }

  RecordingEnvironment environment;
  RdmaCmLimits limits;
  ChannelTable channels{environment};
  IdentifierTable identifiers;
  TenantGids addresses{environment};
  PortSpaces ports{environment, channels, identifiers, PortRange{}};
  EventQueues events{environment, channels, identifiers};
  ServiceCore core{environment, limits, addresses, channels, identifiers, events};
  AddressBinding binding{addresses, ports, identifiers};
  ChannelReply reply;
  Time now{std::chrono::seconds(100)};
};

using Events = std::vector<EventType>;

}  // namespace softhca::management::rdma_cm
