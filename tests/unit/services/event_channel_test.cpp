// SPDX-License-Identifier: Apache-2.0

// Commands of rdma_cm that are refused: the text of the answer, and the event for the operator.
#include "daemon/services/event_channel.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/frontend/unix/server/socket_channel.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

/// A process that has an event channel, and what serves it, in one thread.
class ChannelProcess : public ProcessEnd {
 public:
  ChannelProcess(Daemon& daemon, Connections& connections) {
    engine::Tenant& tenant = *daemon.adapter.tenants.front();
    PeerSocket served(take_served_end(), daemon.adapter.blocking_calls, tenant.name);
    const PeerIdentity peer = *peer_identity(served.get());
    ChannelRequest asked{.operation = Operation::kOpenEventChannel,
                         .level = {},
                         .descriptors = tenant.control.accounts.take(
                             configuration::Kind::kDescriptors, ChannelRequest::kDescriptors)};
    channel_ = SocketChannel::open(
        std::make_unique<SocketPeer>(daemon.adapter, tenant, std::move(served), peer),
        std::move(asked), [&](const auto& opening, const Peer& process, Reply& reply, auto& out) {
          return EventChannel::open(connections, tenant, opening, process, reply, out);
        });
    std::vector<std::byte> reply;
    EXPECT_EQ(receive(reply), 0);
  }

  template <class Body>
  int command(std::uint32_t command, const Body& body) {
    struct {
      abi::ConnectionCommandRequest head;
      Body body;
    } request{{command, 0}, body};
    put(Operation::kConnectionCommand, std::as_bytes(std::span(&request, 1)));
    EXPECT_TRUE(channel_->serve());
    std::vector<std::byte> reply;
    return receive(reply);
  }
  int create_id(std::uint16_t space) {
    rdma_ucm_create_id body{};
    body.ps = space;
    return command(RDMA_USER_CM_CMD_CREATE_ID, body);
  }

 private:
  std::unique_ptr<SocketChannel> channel_;
};

class EventChannels : public ::testing::Test {
 protected:
  EventChannels() { EXPECT_TRUE(connections.add(*daemon.adapter.tenants.front())); }
  ~EventChannels() override { connections.remove(*daemon.adapter.tenants.front()); }

  std::vector<JournalEntry> events() const {
    std::vector<JournalEntry> all = daemon.adapter.journal.after(0, 1000).entries;
    std::erase_if(all, [](const JournalEntry& entry) { return entry.kind != "request_refused"; });
    return all;
  }

  Daemon daemon;
  Connections connections{daemon.adapter, *daemon.general_services};
};

TEST_F(EventChannels, RefusedCommand_AnswerAndEventSayWhy) {
  ChannelProcess process(daemon, connections);
  EXPECT_EQ(process.create_id(0x99), EINVAL);
  const std::string why = "port space 0x99, must be RDMA_PS_TCP, RDMA_PS_UDP or RDMA_PS_IPOIB";
  EXPECT_EQ(process.why(), why);
  ASSERT_EQ(events().size(), 1u);
  const auto pid = static_cast<std::uint32_t>(::getpid());
  EXPECT_EQ(events()[0].text, "process " + std::to_string(pid) + ": rdma_create_id: " + why);
  EXPECT_EQ(events()[0].tenant, daemon.adapter.tenants.front()->name);
  EXPECT_EQ(events()[0].process, pid);
}

TEST_F(EventChannels, UnreachableDestination_NetworksNamed) {
  ChannelProcess process(daemon, connections);
  ASSERT_EQ(process.create_id(RDMA_PS_TCP), 0);
  rdma_ucm_resolve_ip body{};
  body.dst_addr =
      management::rdma_cm::to_sockaddr({.family = AF_INET, .address = Gid::from_ipv4(0xcb007109)});
  EXPECT_EQ(process.command(RDMA_USER_CM_CMD_RESOLVE_IP, body), ENETUNREACH);
  const Gid own = daemon.adapter.tenants.front()->addresses.front().gid;
  EXPECT_EQ(process.why(), "no route to dst_addr 203.0.113.9: the tenant has " +
                               configuration::to_string(own) + " (inside this daemon only)");
}

TEST_F(EventChannels, AnswersThatLibrariesExpect_RaiseNoEvent) {
  ChannelProcess process(daemon, connections);
  EXPECT_EQ(process.create_id(RDMA_PS_IB), EINVAL);
  EXPECT_EQ(process.command(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}), EAGAIN);
  EXPECT_EQ(events().size(), 0u);
}

TEST_F(EventChannels, ManyRefusalsOnOneChannel_FewEvents) {
  constexpr std::size_t kMost = 8;
  ChannelProcess process(daemon, connections);
  for (std::size_t i = 0; i < 5 * kMost; ++i) EXPECT_EQ(process.create_id(0x99), EINVAL);
  ASSERT_EQ(events().size(), kMost);
  EXPECT_EQ(events()[kMost - 2].text.find("not reported"), std::string::npos);
  EXPECT_NE(events()[kMost - 1].text.find("this event channel are not reported"),
            std::string::npos);
  EXPECT_NE(process.why(), "") << "the program always learns why";
}

}  // namespace
}  // namespace softhca::control
