// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/sockets/socket_peer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "daemon/base/system_error.hpp"
#include "daemon/engine/memory/measured_memory.hpp"
#include "daemon/engine/memory/memory_proxy.hpp"
#include "daemon/engine/requests/memory_requests.hpp"
#include "daemon/frontend/unix/sockets/message.hpp"
#include "daemon/frontend/unix/sockets/peer_process.hpp"
#include "daemon/tenant_memory/offered_memory.hpp"

namespace softhca::control {
namespace {

/// The process has the other end of the socket.
class EventSocket final : public EventEnd {
 public:
  explicit EventSocket(PeerSocket socket) : socket_(std::move(socket)) {}
  int number() const override { return socket_.get(); }
  KeptId kept() const override { return socket_.kept(); }

 private:
  PeerSocket socket_;
};

class SignalSocket final : public Signal {
 public:
  explicit SignalSocket(PeerSocket socket) : socket_(std::move(socket)) {}

  /// At most two bytes are unread at any time, so the socket has room. A process that fills the
  /// socket itself misses what it is notified of.
  void raise() override {
    const std::byte one{1};
    [[maybe_unused]] const ssize_t sent =
        ::send(socket_.get(), &one, sizeof one, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  bool is_raised() const override { return has_unread(socket_.get()); }
  bool is_hung_up() const override {
    pollfd end{.fd = socket_.get(), .events = 0, .revents = 0};
    return ::poll(&end, 1, 0) > 0 && (end.revents & POLLHUP) != 0;
  }
  KeptId kept() const override { return socket_.kept(); }

 private:
  PeerSocket socket_;
};

/// Makes a socket as make_one_way(), which outlives the adapter.
int make_kept(int type, const PeerSocket& socket, Keeping* keeping, PeerSocket& ours,
              Reply& reply) {
  if (const int error = make_one_way(type, socket, ours, reply)) return error;
  const auto kept = ours.keep(keeping);
  return kept ? 0 : kept.error().code;
}

/// Returns the memory that a process offers by a socket. A socket that is kept stays open as long
/// as the memory exists: this adapter closes the last copy.
std::shared_ptr<memory::ProcessMemory> with_socket(std::shared_ptr<memory::ProcessMemory> memory,
                                                   PeerSocket socket) {
  if (socket.kept() == 0) {
    socket.hand_over();
    return memory;
  }
  struct Both {
    PeerSocket socket;
    std::shared_ptr<memory::ProcessMemory> memory;
  };
  const auto both = std::make_shared<Both>(Both{std::move(socket), std::move(memory)});
  return {both, both->memory.get()};
}

}  // namespace

Outcome SocketPeer::keep() {
  if (auto kept = socket_.keep(adapter_.keeping); !kept) return kept;
  auto kept = Kept::descriptor(adapter_.keeping, pidfd());
  if (!kept) return kept.error();
  kept_pidfd_ = std::move(*kept);
  return {};
}

std::unique_ptr<SocketPeer> SocketPeer::restore(Adapter& adapter, engine::Tenant& tenant,
                                                const KeptPeer& kept) {
  PeerSocket socket(adapter.keeping->descriptor(kept.socket), adapter.blocking_calls, tenant.name);
  socket.own(Kept(adapter.keeping, kept.socket));
  Kept kept_pidfd(adapter.keeping, kept.pidfd);
  UniqueFd pidfd;
  if (kept.pidfd != 0) pidfd = adapter.keeping->descriptor(kept.pidfd);
  const auto identity = peer_identity(socket.get());
  if (!identity || static_cast<bool>(pidfd) != (kept.pidfd != 0)) return nullptr;
  auto peer =
      std::make_unique<SocketPeer>(adapter, tenant, std::move(socket), *identity, std::move(pidfd));
  peer->kept_pidfd_ = std::move(kept_pidfd);
  if (kept.socket != adapter.culprit) return peer;
  const auto process = static_cast<std::uint32_t>(identity->pid);
  adapter.journal.add({.kind = "culprit",
                       .tenant = tenant.name,
                       .text = "process " + std::to_string(process) +
                               ": the adapter crashed twice while it served it; its connection is "
                               "closed",
                       .process = process});
  return nullptr;
}

std::vector<gid_t> SocketPeer::groups() const {
  std::vector<gid_t> all{identity().gid};
  gid_t groups[256];
  socklen_t bytes = sizeof groups;
  if (::getsockopt(socket(), SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) == 0)
    all.insert(all.end(), groups, groups + bytes / sizeof(gid_t));
  return all;
}

std::string SocketPeer::cgroup() const { return cgroup_of(identity().pid, pidfd()).value_or(""); }

bool SocketPeer::is_in_our_pid_namespace() const {
  return control::is_in_our_pid_namespace(identity().pid, pidfd());
}

bool SocketPeer::may_bind_low_ports() const {
  const UniqueFd process = peer_pidfd(socket(), identity());
  return process && control::may_bind_low_ports(identity().pid, process.get());
}

int SocketPeer::make_wake(UniqueFd& wake, Reply& reply) const {
  wake = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return errno;
  reply.give({.number = wake.get()});
  return 0;
}

int SocketPeer::make_events(std::unique_ptr<EventEnd>& events, Reply& reply) const {
  PeerSocket ours;
  if (const int error = make_kept(SOCK_SEQPACKET, socket_, adapter_.keeping, ours, reply))
    return error;
  events = std::make_unique<EventSocket>(std::move(ours));
  return 0;
}

int SocketPeer::make_signal(std::unique_ptr<Signal>& signal, Reply& reply) const {
  PeerSocket ours;
  if (const int error = make_kept(SOCK_STREAM, socket_, adapter_.keeping, ours, reply))
    return error;
  signal = std::make_unique<SignalSocket>(std::move(ours));
  return 0;
}

std::vector<bool> SocketPeer::are_closed(std::span<const EventEnd* const> ends) const {
  std::vector<pollfd> polled;
  for (const EventEnd* end : ends) polled.push_back({end->number(), 0, 0});
  ::poll(polled.data(), polled.size(), 0);
  std::vector<bool> closed;
  for (const pollfd& end : polled) closed.push_back((end.revents & (POLLHUP | POLLERR)) != 0);
  return closed;
}

/// Gives the process a socket by which it passes a descriptor of its memory.
Expected<Peer::Offered> SocketPeer::offer_memory(const engine::MemoryReach& reach,
                                                 bool by_proxy) const {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("a process's memory");
  PeerSocket ours = socket_.sibling(UniqueFd(ends[0]));
  PeerSocket theirs = socket_.sibling(UniqueFd(ends[1]));
  if (const auto kept = ours.keep(adapter_.keeping); !kept) return kept.error();
  const KeptId kept = ours.kept();
  auto memory = reach_process(reach, std::move(ours), by_proxy, {});
  if (!memory) return memory.error();
  return Offered{std::move(*memory), handed_over(std::move(theirs)), kept};
}

/// Returns a socket that make_events(), make_signal() or offer_memory() of an earlier adapter made.
PeerSocket SocketPeer::restore(KeptId kept) const {
  PeerSocket ours = socket_.sibling(adapter_.keeping->descriptor(kept));
  ours.own(Kept(adapter_.keeping, kept));
  return ours;
}

std::unique_ptr<EventEnd> SocketPeer::restore_events(KeptId kept) const {
  PeerSocket ours = restore(kept);
  return ours ? std::make_unique<EventSocket>(std::move(ours)) : nullptr;
}

std::unique_ptr<Signal> SocketPeer::restore_signal(KeptId kept) const {
  PeerSocket ours = restore(kept);
  return ours ? std::make_unique<SignalSocket>(std::move(ours)) : nullptr;
}

Expected<std::shared_ptr<memory::ProcessMemory>> SocketPeer::restore_memory(
    KeptId kept, const engine::MemoryReach& reach, bool by_proxy) const {
  PeerSocket ours = restore(kept);
  if (!ours) return Error{"a process's memory is not kept", EBADMSG};
  // All of a tenant's processes are told at once to a memory access process that has just begun.
  constexpr Duration kWait = std::chrono::milliseconds(100);
  return reach_process(reach, std::move(ours), by_proxy, kWait);
}

/// Returns the memory that the process offers at the other end of `socket`.
Expected<std::shared_ptr<memory::ProcessMemory>> SocketPeer::reach_process(
    const engine::MemoryReach& reach, PeerSocket socket, bool by_proxy, Duration wait) const {
  if (!by_proxy) {
    UniqueFd own(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    UniqueFd room(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));  // for the descriptor in the socket
    if (!own || !room) return system_error("a process's memory");
    room.reset();
    auto reached = std::make_unique<memory::OfferedMemory>(std::move(own));
    reached->receive();  // sent to an earlier adapter
    // Closing the last copy of a socket closes the descriptors in it, whatever the process has
    // sent.
    const auto close = [&calls = adapter_.blocking_calls, name = tenant_.name](auto* memory) {
      calls.make(name, [owned = std::shared_ptr<memory::ProcessMemory>(memory)] {});
    };
    const std::shared_ptr<memory::ProcessMemory> offered(reached.release(), close);
    return with_socket(std::make_shared<engine::MeasuredMemory>(offered, reach.waited,
                                                                tenant_.memory_suspected_until),
                       std::move(socket));
  }
  const auto start = [&](int area, int end) {
    return adapter_.helpers->start_memory_proxy(area, end);
  };
  for (auto proxy = tenant_.control.memory_proxy.lock();; proxy = nullptr) {
    const bool fresh = proxy == nullptr;
    if (fresh) {
      auto made =
          engine::MemoryProxy::create(start, {tenant_.counters.memory, reach.waits, reach.waited});
      if (!made) return made.error();
      proxy = std::move(*made);
      tenant_.control.memory_proxy = proxy;
    }
    auto memory = engine::MemoryProxy::add(proxy, socket.get(), wait);
    // The proxy has this end before the tenant's process gets the other one.
    if (memory) return with_socket(std::move(*memory), std::move(socket));
    if (fresh || memory.error().code != EPIPE) return memory;
    // The memory proxy has been killed.
  }
}

bool SocketPeer::answer(std::uint32_t tag, int error, const Reply& reply) {
  return send_reply(socket(), tag, error, reply);
}

}  // namespace softhca::control
