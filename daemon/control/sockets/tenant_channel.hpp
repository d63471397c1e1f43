// A connection to a tenant's socket that is no session but serves one purpose of its process. A
// stream socket tells the process that something waits for it, by one byte. On the control thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "abi/control.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/control/sockets/message.hpp"
#include "daemon/control/sockets/peer_socket.hpp"
#include "daemon/control/sockets/turn.hpp"
#include "daemon/control/sockets/unix_socket.hpp"
#include "daemon/engine/objects.hpp"
#include "daemon/resource/accounts.hpp"

namespace softhca::control {

/// A connection whose first request asks for a channel.
struct ChannelRequest {
  abi::Operation operation{};  ///< kOpenEventChannel or kOpenDatagramClient
  std::uint32_t tag = 0;
  abi::OpenDatagramClientRequest datagrams{};  ///< of kOpenDatagramClient
  PeerSocket socket;
  PeerIdentity peer;
  int refusal = 0;    ///< errno value: the tenant goes, or there is no level for it
  std::string level;  ///< of the program; empty: it has none
  resource::Charge descriptors;
};

class TenantChannel {
 public:
  /// Descriptors that each keeps open: the socket and our end of the signal.
  static constexpr std::uint64_t kDescriptors = 2;

  /// What the channel is for.
  enum class Kind : std::uint8_t { kEvents, kDatagrams };

  virtual ~TenantChannel() = default;
  TenantChannel(const TenantChannel&) = delete;
  TenantChannel& operator=(const TenantChannel&) = delete;

  /// Answers the requests that wait, not too many of them. False: the channel is over.
  bool serve();

  /// Ends the connection, and takes back some of what its process has by it. True: nothing is left;
  /// false: it is to be called again, in the tenant's next turn.
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

  /// Makes the signal, whose other end goes to the process with `reply`. 0 or an errno value:
  /// EMFILE when the tenant may have no more descriptors.
  int make_signal(Reply& reply);
  int signal() const { return signal_.get(); }
  /// Answers the request that asked for the channel. False: the process has gone, or `error`.
  bool answer_open(std::uint32_t tag, int error, const Reply& reply);

  /// 0 or an errno value; nothing: it is no operation of the channel, which ends.
  virtual std::optional<int> run(abi::Operation operation, std::span<const std::byte> body,
                                 Reply& reply) = 0;

  /// See end().
  virtual bool take_back(const Turn&) { return true; }

  engine::Tenant& tenant_;

 private:
  bool answer(std::span<const std::byte> record);

  PeerSocket socket_;
  PeerSocket signal_;
  resource::Charge descriptors_;
};

}  // namespace softhca::control
