// The admin socket: a Unix stream socket on which every line is a request or batch of JSON-RPC 2.0
// and is answered with a line. Runs in the control thread and never waits: it has an epoll
// descriptor of its own, which the control thread's loop looks at, and does one bounded thing at a
// time. A client that does not read its answers is not read from, so what is kept for it is bounded
// by one request and one answer.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/control/admin/admin_methods.hpp"
#include "daemon/control/admin/admin_rpc.hpp"
#include "daemon/control/sockets/descriptors.hpp"
#include "daemon/control/sockets/peer_socket.hpp"
#include "daemon/control/sockets/unix_socket.hpp"

namespace softhca::control {

class AdminSocket {
 public:
  struct Limits {
    std::size_t line = std::size_t{1} << 20;  ///< bytes of a request
    std::size_t clients = 32;
    std::size_t lines_per_tick = 0;  ///< answered between two calls of tick(); 0: any number
    RpcLimits rpc{};
  };

  /// `owner`: name of the tenant whose socket it is; empty: the operator's.
  explicit AdminSocket(const AdminMethods& methods, BlockingCalls& calls)
      : AdminSocket(methods, calls, {}, Limits{}) {}
  AdminSocket(const AdminMethods& methods, BlockingCalls& calls, std::string owner, Limits limits)
      : methods_(methods), calls_(calls), owner_(std::move(owner)), limits_(limits) {}
  ~AdminSocket();

  /// Errors as listen_at().
  Outcome open(const std::string& path, const SocketPermissions& permissions);
  /// Readable when serve() has something to do.
  int fd() const { return epoll_.get(); }
  /// Accepts a client, or reads from one, answers one line of one, or writes to one.
  void serve();
  /// Once a second: listens again after descriptors ran out, and answers again after a pause.
  void tick();
  /// True: so many lines were answered that serve() is to be called only after the next tick().
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
    std::size_t written = 0;            ///< bytes of output
    std::vector<UniqueFd> descriptors;  ///< that go with its first byte
    bool ended = false;                 ///< sends no more
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
  bool armed_ = true;         ///< epoll reports connections
  std::size_t answered_ = 0;  ///< lines since the last tick()
  SpareDescriptor spare_;
  std::list<Client> clients_;
};

}  // namespace softhca::control
