// SPDX-License-Identifier: Apache-2.0

// A connection to a tenant's socket that is not a session but serves one purpose of its process. A
// byte on a stream socket notifies the process that something waits for it. Runs on the control
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "abi/control.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/configuration/allotments/accounts.hpp"
#include "daemon/control_thread/turn.hpp"
#include "daemon/engine/state/objects.hpp"
#include "daemon/frontend/unix/sockets/message.hpp"
#include "daemon/frontend/unix/sockets/peer_socket.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"

namespace softhca::control {

/// A connection that requests a channel first.
struct ChannelRequest {
  abi::Operation operation{};  ///< kOpenEventChannel or kOpenDatagramClient
  std::uint32_t tag = 0;
  abi::OpenDatagramClientRequest datagrams{};  ///< for kOpenDatagramClient
  PeerSocket socket;
  PeerIdentity peer;
  int refusal = 0;    ///< errno value: the tenant is leaving, or no level fits
  std::string level;  ///< level of the program; empty: none
  configuration::Charge descriptors;
};

class TenantChannel {
 public:
  /// Descriptors that each channel keeps open: the socket and the daemon's end of the signal.
  static constexpr std::uint64_t kDescriptors = 2;

  /// The purpose of the channel.
  enum class Kind : std::uint8_t { kEvents, kDatagrams };

  virtual ~TenantChannel() = default;
  TenantChannel(const TenantChannel&) = delete;
  TenantChannel& operator=(const TenantChannel&) = delete;

  /// Answers waiting requests, a bounded number of them. Returns false if the channel is over.
  bool serve();

  /// Ends the connection, and takes back some of what its process has by it. Returns true if
  /// nothing is left. Otherwise call it again in the tenant's next turn.
  bool end(const Turn& turn) {
    socket_.reset();
    return take_back(turn);
  }

  int socket() const { return socket_.get(); }
  const engine::Tenant& tenant() const { return tenant_; }
  virtual Kind kind() const = 0;

 protected:
  TenantChannel(engine::Tenant& tenant, ChannelRequest& request)
      : tenant_(tenant),
        socket_(std::move(request.socket)),
        descriptors_(std::move(request.descriptors)) {}

  /// Makes the signal. Its other end goes to the process with `reply`. Returns 0 or an errno value:
  /// EMFILE if the tenant may have no more descriptors.
  int make_signal(Reply& reply);
  int signal() const { return signal_.get(); }
  /// Answers the request for the channel. Returns false if the process has gone, or `error` is not
  /// 0.
  bool answer_open(std::uint32_t tag, int error, const Reply& reply);

  /// Runs an operation. Returns 0 or an errno value. Nothing: the channel does not have the
  /// operation, and ends.
  virtual std::optional<int> run(abi::Operation operation, std::span<const std::byte> body,
                                 Reply& reply) = 0;

  /// See end().
  virtual bool take_back(const Turn&) { return true; }

  engine::Tenant& tenant_;

 private:
  bool answer(std::span<const std::byte> record);

  PeerSocket socket_;
  PeerSocket signal_;
  configuration::Charge descriptors_;
};

}  // namespace softhca::control
