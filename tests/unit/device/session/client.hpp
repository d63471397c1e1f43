// SPDX-License-Identifier: Apache-2.0

// A daemon without its sockets' server, and a process that speaks to a session of it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/device/adapter/setup.hpp"
#include "daemon/device/session/device_session.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/frontend/unix/server/serve_session.hpp"
#include "daemon/frontend/unix/sockets/event_sender.hpp"
#include "daemon/services/general_services.hpp"
#include "daemon/services/service_places.hpp"
#include "tests/tenant_socket.hpp"

namespace softhca::control {

using abi::Operation;

/// Bits of abi::ReregisterMrRequest::change.
constexpr std::uint32_t kChangeTranslation = 1 << 0, kChangePd = 1 << 1;

inline configuration::Config small_config() {
  configuration::Config config = configuration::default_config();
  config.pools.queue_pairs = 64;
  config.pools.memory_regions = 64;
  config.pools.memory_windows = 8;
  config.pools.completion_queues = 16;
  config.pools.shared_receive_queues = 4;
  config.pools.protection_domains = 8;
  config.pools.address_handles = 8;
  // Tests use up one tenant's share, or the whole.
  for (configuration::TenantConfig& tenant : config.tenants)
    tenant.limits = configuration::totals_of(config.pools);
  return config;
}

/// Everything below a session, its engine on a thread as in the daemon.
class Daemon {
 public:
  /// `memory`: as engine::Engine takes it.
  explicit Daemon(const configuration::Config& given = small_config(),
                  std::span<std::byte> memory = {})
      : config(given), engine(limits_of(config), events, memory) {
    EXPECT_TRUE(start(adapter, {}));
    EXPECT_TRUE(worker.start());
  }
  ~Daemon() { worker.stop(); }

  /// Changes the settings of the first tenant by change(settings), as a reload does.
  template <class Change>
  void reconfigure(Change&& change) {
    configuration::Config changed = adapter.config;
    change(changed.tenants.front());
    adapter.put_in_force(std::move(changed));
  }

  const configuration::Config config;
  EventSender events;
  engine::Engine engine;
  engine::TenantAllocations allocations{engine};
  engine::Worker worker{engine, {}};
  Adapter adapter{.config = config,
                  .engine = engine.view(),
                  .worker = worker,
                  .allocations = allocations,
                  .vcbs = QuotaPool(config.pools.vcbs)};
  SharedObjects shared_objects;
  const std::unique_ptr<GeneralServices> general_services = std::move(
      *GeneralServices::open(worker, general_services_place(config), config.general_services));
  const std::unique_ptr<GeneralServices> shared_datagrams = std::move(
      *GeneralServices::open(worker, shared_datagrams_place(config), config.shared_datagrams));
};

/// A process's end of a connection to its tenant's socket.
class ProcessEnd {
 public:
  ProcessEnd() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    socket_ = UniqueFd(ends[0]);
    served_end_ = UniqueFd(ends[1]);
  }

  explicit ProcessEnd(UniqueFd socket) : socket_(std::move(socket)) {}

  /// For what serves the process. Once.
  UniqueFd take_served_end() { return std::move(served_end_); }

  /// Sends a record as it is.
  void put(std::span<const std::byte> record) {
    EXPECT_GE(::send(socket_.get(), record.data(), record.size(), 0), 0);
  }
  void put(Operation operation, std::span<const std::byte> body) {
    put(request_record(operation, ++tag_, body));
  }
  /// The next request has the tag of the last one.
  void repeat_tag() { --tag_; }
  /// Receives a reply, with its body in `out`. Returns 0 or its errno value, or -1 without a reply.
  int receive(std::vector<std::byte>& out) {
    fds_.clear();
    std::optional<ReplyRecord> reply = receive_reply(socket_.get(), MSG_DONTWAIT);
    if (!reply) return -1;
    EXPECT_EQ(reply->header.tag, tag_);
    out = std::move(reply->body);
    fds_ = std::move(reply->fds);
    why_.clear();
    if (reply->header.error != 0) {
      if (reply->header.error == EPROTO) {
        EXPECT_EQ(out.size(), sizeof(abi::VersionRange));
      } else {
        why_.assign(reinterpret_cast<const char*>(out.data()), out.size());
      }
      EXPECT_LE(why_.size(), abi::kMaxRefusalText);
      EXPECT_TRUE(fds_.empty());
    }
    return reply->header.error;
  }
  /// Returns why the last request was refused. Empty: it was not, or the daemon did not say.
  const std::string& why() const { return why_; }

  std::size_t descriptors() const { return fds_.size(); }
  int descriptor(std::size_t i) const { return fds_[i].get(); }
  std::vector<UniqueFd> take_descriptors() { return std::exchange(fds_, {}); }

 private:
  UniqueFd socket_;
  UniqueFd served_end_;
  std::uint32_t tag_ = 0;
  std::vector<UniqueFd> fds_;  ///< of the last reply
  std::string why_;
};

/// A process and its session, in one thread.
class Client : public ProcessEnd {
 public:
  explicit Client(Daemon& daemon, std::size_t tenant = 0, std::optional<uid_t> uid = std::nullopt)
      : tenant_(tenant) {
    PeerSocket served(take_served_end(), daemon.adapter.blocking_calls,
                      daemon.adapter.tenants[tenant]->name);
    PeerIdentity peer = *peer_identity(served.get());
    peer.uid = uid.value_or(peer.uid);
    const auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
    calls_ = &daemon.adapter.blocking_calls;
    peer_ = std::make_unique<SocketPeer>(daemon.adapter, *daemon.adapter.tenants[tenant],
                                         std::move(served), peer, UniqueFd(pidfd));
    session_ = std::make_unique<DeviceSession>(
        daemon.adapter, daemon.shared_objects, *daemon.adapter.tenants[tenant], *peer_,
        daemon.adapter.tenants[tenant]->control.accounts.take(configuration::Kind::kDescriptors,
                                                              DeviceSession::kDescriptors));
  }

  /// The same process, served by the adapter that follows that of `earlier`. The earlier session
  /// and its peer stay, as if their process had ended without a trace.
  Client(Daemon& daemon, Client& earlier)
      : Client(daemon, earlier.record(), std::move(earlier), earlier.tenant_) {
    vcbs = earlier.vcbs;
    offers = earlier.offers;
    kept_ = std::move(earlier.kept_);
  }
  /// A process of an earlier adapter, by its kept connection and its own end.
  Client(Daemon& daemon, const SocketPeer::KeptPeer& kept, ProcessEnd own, std::size_t tenant = 0)
      : ProcessEnd(std::move(own)), tenant_(tenant) {
    engine::Tenant& of = *daemon.adapter.tenants[tenant];
    calls_ = &daemon.adapter.blocking_calls;
    peer_ = SocketPeer::restore(daemon.adapter, of, kept);
    EXPECT_NE(peer_, nullptr);
    session_ = std::make_unique<DeviceSession>(
        daemon.adapter, daemon.shared_objects, of, *peer_,
        of.control.accounts.take(configuration::Kind::kDescriptors, DeviceSession::kDescriptors));
  }
  /// Makes the connection outlive the adapter.
  void keep() { EXPECT_TRUE(peer_->keep()); }
  KeptId connection() const { return peer_->kept(); }
  SocketPeer::KeptPeer record() const { return peer_->record(); }
  DeviceSession& restored() { return *session_; }

  VcbHolder vcb_holder() { return session_->vcb_holder(); }

  /// Sends a record without changes. Returns false if the session is over.
  bool send(std::span<const std::byte> record) {
    put(record);
    return serve();
  }
  bool send(Operation operation, std::span<const std::byte> body) {
    put(operation, body);
    return serve();
  }
  /// Lets the session finish what it has begun.
  bool serve() {
    turns = 0;
    do {
      ++turns;
      if (!serve_once()) return false;
      wait_for_calls();
    } while (session_->has_more());
    return true;
  }
  /// Answers the requests that wait, or goes on with one. False: the session is over.
  bool serve_once() { return serve_session(*peer_, *session_, second_); }
  void wait_for_calls() {
    while (session_->is_waiting()) {
      pollfd look{calls_->fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&look, 1, 60'000), 1);
      calls_->finish();
    }
  }

  /// Sends a request and receives its reply. A reply without an error must have the size of Out.
  template <class Out = abi::HandleBody, class In>
  int ask(Operation operation, const In& request, Out* out = nullptr) {
    const bool registers =
        operation == Operation::kRegisterMr || operation == Operation::kReregisterMr;
    if (registers && std::exchange(offers, false)) offer_memory();
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
    const int error = ask(Operation::kHello,
                          abi::HelloRequest{abi::kSessionMagic, {abi::kAbiVersion, 0}}, &reply);
    vcbs = reply.vcbs;
    return error;
  }
  /// Greets, and asks for something: the engine looks at its memory from then on.
  int start() {
    const int error = greet();
    return error != 0 ? error : ask(Operation::kQueryDevice, abi::HandleBody{});
  }
  /// As before the first registration of memory that is not shared.
  int offer_memory() {
    const int error = ask<std::byte>(Operation::kOfferMemory, abi::HandleBody{});
    if (error != 0) return error;
    const UniqueFd memory(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
    const int passed = memory.get();
    const std::byte byte{};
    const auto sockets = take_descriptors();
    EXPECT_EQ(sockets.size(), 1u);
    EXPECT_EQ(send_with_descriptors(sockets[0].get(), {&byte, 1}, {&passed, 1}), 1);
    return 0;
  }
  /// They stay open: a completion channel goes when its process closes its end.
  void keep_descriptors() {
    for (UniqueFd& fd : take_descriptors()) kept_.push_back(std::move(fd));
  }
  int kept(std::size_t i) const { return kept_[i].get(); }
  int last_kept() const { return kept_.back().get(); }
  void end() { session_.reset(); }
  /// A turn at the end of the session that is over at once. True: the session has ended.
  bool end_a_bit() { return session_->end(Turn(Duration::zero())); }
  const DeviceSession& session() const { return *session_; }
  std::string take_refusal() { return session_->take_refusal(); }

  std::uint32_t vcbs = 0;
  bool offers = true;  ///< its memory, before it first registers some
  unsigned turns = 0;  ///< that the last request took

 private:
  std::size_t tenant_ = 0;
  BlockingCalls* calls_ = nullptr;
  std::unique_ptr<SocketPeer> peer_;
  std::unique_ptr<DeviceSession> session_;
  SecondReply second_{.record = [] {}};
  std::vector<UniqueFd> kept_;
};

}  // namespace softhca::control
