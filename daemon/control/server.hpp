// The control thread: tenant sockets, sessions and their ends, signals.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/control/adapter.hpp"
#include "daemon/control/session.hpp"

namespace softhca::control {

class Server {
 public:
  explicit Server(Adapter& adapter) : adapter_(adapter) {}

  /// Makes the folder, socket and device tree of every tenant. Errors say which path and why.
  Outcome open();
  /// Serves until SIGTERM or SIGINT. REQUIRES: both are blocked in all threads.
  Outcome run();

 private:
  struct Listener {
    UniqueFd socket;
    std::string path;
    engine::Tenant* tenant;
  };
  /// What an epoll event is about.
  struct Watch {
    enum class Kind { kListener, kSession, kProcess, kSignal } kind;
    Listener* listener = nullptr;
    Session* session = nullptr;
  };
  struct Entry {
    std::unique_ptr<Session> session;
    Watch socket;
    Watch process;
  };

  Outcome open_tenant(engine::Tenant& tenant);
  Outcome watch(int fd, Watch* what);
  void accept(Listener& listener);
  void handle(const Watch& what, bool& stop);
  void end(Session& session);
  /// Tells the sessions of tenants whose link went up or down.
  void check_links();

  Adapter& adapter_;
  UniqueFd epoll_;
  UniqueFd signals_;
  Watch signal_watch_{Watch::Kind::kSignal};
  std::list<Listener> listeners_;
  std::list<Watch> listener_watches_;
  std::list<Entry> sessions_;
  std::vector<bool> link_up_;  ///< by tenant, as last seen
};

}  // namespace softhca::control
