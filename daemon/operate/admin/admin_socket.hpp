// SPDX-License-Identifier: Apache-2.0

// The admin socket: a Unix stream socket. Each line is a request or batch of JSON-RPC 2.0, and the
// daemon answers it with a line. The socket runs on the control thread and never blocks: the loop
// of the control thread watches its epoll descriptor, and each call of serve() does one bounded
// step. The socket does not read from a client that does not read its answers. So it buffers at
// most one request and one answer per client.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/frontend/unix/sockets/descriptors.hpp"
#include "daemon/frontend/unix/sockets/kept_listener.hpp"
#include "daemon/frontend/unix/sockets/peer_socket.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"
#include "daemon/operate/admin/admin_methods.hpp"
#include "daemon/operate/admin/admin_rpc.hpp"

namespace softhca::control {

class AdminSocket {
 public:
  struct Limits {
    std::size_t line = std::size_t{1} << 20;  ///< bytes of a request
    std::size_t clients = 32;
    std::size_t lines_per_tick = 0;  ///< lines answered between two calls of tick(); 0: any number
    RpcLimits rpc{};
  };

  /// `owner`: name of the tenant that the socket is for; empty: the operator.
  explicit AdminSocket(const AdminMethods& methods, BlockingCalls& calls)
      : AdminSocket(methods, calls, {}, Limits{}) {}
  AdminSocket(const AdminMethods& methods, BlockingCalls& calls, std::string owner, Limits limits)
      : methods_(methods), calls_(calls), owner_(std::move(owner)), limits_(limits) {}
  ~AdminSocket();

  /// Opens the socket. Errors as take_up_or_listen().
  Outcome open(KeptDescriptors& kept, const std::string& path,
               const SocketPermissions& permissions);
  /// Returns a descriptor that is readable when serve() has something to do.
  int fd() const { return epoll_.get(); }
  /// Accepts a client, reads from one, answers one line of one, or writes to one.
  void serve();
  /// Listens again after descriptors ran out, and ends a pause. Call it once a second.
  void tick();
  /// True if the socket has answered lines_per_tick lines. Then serve() has to wait for the next
  /// tick().
  bool is_paused() const {
    return limits_.lines_per_tick != 0 && answered_ >= limits_.lines_per_tick;
  }

 private:
  struct Client {
    PeerSocket socket;
    PeerIdentity peer;
    std::string input;
    std::size_t searched = 0;  ///< bytes of input without a newline
    std::string output;
    std::size_t written = 0;            ///< bytes of output that were sent
    std::vector<UniqueFd> descriptors;  ///< sent with the first byte of output
    bool ended = false;                 ///< the client sends no more
    std::list<Client>::iterator self;

    bool has_line() const { return searched < input.size(); }
  };

  bool watch(int fd, void* who, unsigned events, int operation);
  void accept();
  void serve(Client& client);
  bool read(Client& client);
  void answer_line(Client& client);
  bool write(Client& client);
  void end(Client& client);

  const AdminMethods& methods_;
  BlockingCalls& calls_;
  const std::string owner_;
  const Limits limits_;
  std::string path_;
  UniqueFd epoll_;
  PeerSocket listener_;
  KeptDescriptor kept_;
  bool armed_ = true;         ///< epoll reports connections
  std::size_t answered_ = 0;  ///< lines since the last tick()
  SpareDescriptor spare_;
  std::list<Client> clients_;
};

}  // namespace softhca::control
