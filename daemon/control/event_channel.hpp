// An event channel of rdma_cm that a process has opened: what the device of the kernel's connection
// manager would be to it. Serves its commands on the control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "abi/control.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/control/connections.hpp"
#include "daemon/control/message.hpp"
#include "daemon/control/unix_socket.hpp"
#include "daemon/resource/accounts.hpp"

namespace softhca::control {

/// A connection to the tenant's socket whose first request asks for an event channel.
struct ChannelRequest {
  std::uint32_t tag = 0;
  UniqueFd socket;
  PeerIdentity peer;
  int refusal = 0;    ///< errno value: there is no level for it
  std::string level;  ///< of the program; empty: of none
  resource::Charge descriptors;
};

class EventChannel {
 public:
  /// Descriptors that each keeps open: the socket and our end of the signal.
  static constexpr std::uint64_t kDescriptors = 2;

  /// Answers the request. Null: with an error, or the process has gone.
  static std::unique_ptr<EventChannel> open(Connections& connections, engine::Tenant& tenant,
                                            ChannelRequest request);
  ~EventChannel();
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;

  /// Answers the requests that wait, not too many of them. False: the channel is over.
  bool serve();

  int socket() const { return socket_.get(); }
  const engine::Tenant& tenant() const { return tenant_; }

 private:
  EventChannel(Connections& connections, engine::Tenant& tenant, ChannelRequest request);
  int start(const management::rdma_cm::ChannelOwner& owner, int refusal, Reply& reply);
  bool answer(std::span<const std::byte> record);
  int run(std::span<const std::byte> body, Reply& reply);

  Connections& connections_;
  engine::Tenant& tenant_;
  UniqueFd socket_;
  UniqueFd signal_;       ///< a byte sent by it says that events are queued
  UniqueFd program_end_;  ///< of the signal, until it is sent
  resource::Charge descriptors_;
  std::optional<management::rdma_cm::ChannelId> channel_;
};

}  // namespace softhca::control
