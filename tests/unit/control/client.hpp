// A daemon without its sockets' server, and a process that speaks to a session of it.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/control/event_sender.hpp"
#include "daemon/control/general_services.hpp"
#include "daemon/control/session.hpp"
#include "daemon/control/setup.hpp"

namespace softhca::control {

using abi::Operation;

inline resource::Config small_config() {
  resource::Config config = resource::default_config();
  config.pools.queue_pairs = 64;
  config.pools.memory_regions = 64;
  config.pools.memory_windows = 8;
  config.pools.completion_queues = 16;
  config.pools.shared_receive_queues = 4;
  config.pools.protection_domains = 8;
  config.pools.address_handles = 8;
  // Tests use up one tenant's share, or the whole.
  for (resource::TenantConfig& tenant : config.tenants)
    tenant.limits = resource::totals_of(config.pools);
  return config;
}

/// Everything below a session, its engine on a thread as in the daemon.
class Daemon {
 public:
  explicit Daemon(const resource::Config& given = small_config()) : config(given) {
    auto tenants = add_tenants(config, engine);
    EXPECT_TRUE(tenants);
    adapter.tenants = std::move(*tenants);
    adapter.allocate();
    EXPECT_TRUE(worker.start());
  }
  ~Daemon() { worker.stop(); }

  const resource::Config config;
  EventSender events;
  engine::Engine engine{limits_of(config), events};
  engine::Worker worker{engine, {}};
  Adapter adapter{.config = config,
                  .engine = engine,
                  .worker = worker,
                  .tenants = {},
                  .vcbs = QuotaPool(config.pools.vcbs)};
  const std::unique_ptr<GeneralServices> general_services = std::move(
      *GeneralServices::open(worker, general_services_place(config), config.general_services));
  const std::unique_ptr<GeneralServices> shared_datagrams = std::move(
      *GeneralServices::open(worker, shared_datagrams_place(config), config.shared_datagrams));
};

/// A process and its session, in one thread.
class Client {
 public:
  explicit Client(Daemon& daemon, std::size_t tenant = 0, std::optional<uid_t> uid = std::nullopt) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    socket_ = UniqueFd(ends[0]);
    PeerIdentity peer = *peer_identity(ends[1]);
    peer.uid = uid.value_or(peer.uid);
    const auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
    session_ = std::make_unique<Session>(daemon.adapter, *daemon.adapter.tenants[tenant],
                                         UniqueFd(ends[1]), peer, UniqueFd(pidfd),
                                         daemon.adapter.tenants[tenant]->accounts.take(
                                             resource::Kind::kDescriptors, Session::kDescriptors));
  }

  /// Sends a record as it is. False: the session is over.
  bool send(std::span<const std::byte> record) {
    EXPECT_GE(::send(socket_.get(), record.data(), record.size(), 0), 0);
    return session_->serve();
  }
  bool send(Operation operation, std::span<const std::byte> body) {
    std::vector<std::byte> record(sizeof(abi::RequestHeader) + body.size());
    const abi::RequestHeader header{static_cast<std::uint32_t>(operation), ++tag_};
    std::memcpy(record.data(), &header, sizeof header);
    if (!body.empty()) std::memcpy(record.data() + sizeof header, body.data(), body.size());
    return send(record);
  }
  /// The reply: 0 or an errno value, the body in `out`; -1: none came.
  int receive(std::vector<std::byte>& out) {
    fds_.clear();
    std::array<std::byte, 2048> bytes;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)];
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < static_cast<ssize_t>(sizeof(abi::ReplyHeader))) return -1;
    if (const cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr)
      for (std::size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        fds_.emplace_back(fd);
      }
    abi::ReplyHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    EXPECT_EQ(header.tag, tag_);
    out.assign(bytes.data() + sizeof header, bytes.data() + got);
    if (header.error != 0) {
      EXPECT_TRUE(out.empty());
      EXPECT_TRUE(fds_.empty());
    }
    return header.error;
  }

  /// A request and its reply; the reply must have the size of Out when it is no error.
  template <class Out = abi::HandleBody, class In>
  int ask(Operation operation, const In& request, Out* out = nullptr) {
    EXPECT_TRUE(send(operation, std::as_bytes(std::span(&request, 1))));
    std::vector<std::byte> body;
    const int error = receive(body);
    if (error == 0 && out != nullptr) {
      EXPECT_EQ(body.size(), sizeof(Out));
      if (body.size() == sizeof(Out)) std::memcpy(out, body.data(), sizeof(Out));
    }
    return error;
  }
  std::uint32_t make(Operation operation) {
    abi::HandleBody out{};
    EXPECT_EQ(ask(operation, abi::HandleBody{}, &out), 0);
    return out.handle;
  }
  int greet() {
    abi::HelloReply reply{};
    const int error =
        ask(Operation::kHello, abi::HelloRequest{abi::kSessionMagic, abi::kAbiVersion, 0}, &reply);
    vcbs = reply.vcbs;
    return error;
  }
  std::size_t descriptors() const { return fds_.size(); }
  int descriptor(std::size_t i) const { return fds_[i].get(); }
  /// They stay open: a completion channel goes when its process closes its end.
  void keep_descriptors() {
    for (UniqueFd& fd : fds_) kept_.push_back(std::move(fd));
    fds_.clear();
  }
  int kept(std::size_t i) const { return kept_[i].get(); }
  void end() { session_.reset(); }
  const Session& session() const { return *session_; }

  std::uint32_t vcbs = 0;

 private:
  UniqueFd socket_;
  std::unique_ptr<Session> session_;
  std::uint32_t tag_ = 0;
  std::vector<UniqueFd> fds_;
  std::vector<UniqueFd> kept_;
};

}  // namespace softhca::control
