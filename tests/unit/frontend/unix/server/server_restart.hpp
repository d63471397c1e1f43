// SPDX-License-Identifier: Apache-2.0

// The control thread of an adapter that retires, and that of the adapter that follows.
#pragma once

#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>
#include <signal.h>
#include <sys/un.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "daemon/device/session/restore_sessions.hpp"
#include "daemon/engine/requests/restore_requests.hpp"
#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/operate/reload/reload.hpp"
#include "tests/fake_keeper.hpp"
#include "tests/folder.hpp"
#include "tests/records_at_rest.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {

/// The end of an adapter at its keeper.
struct Link {
  explicit Link(FakeKeeper& keeper) : keeping(keeper) {
    EXPECT_TRUE(records.adopt());
    left = records.take_adopted();
    EXPECT_TRUE(kept.adopt(left));
    auto read = read_state(kept);
    EXPECT_TRUE(read) << read.error().message;
    if (read) configuration = std::move(*read);
  }
  FakeKeeping keeping;
  records::RecordStore records{&keeping};
  std::vector<records::Adopted> left;
  KeptDescriptors kept{&keeping, records};
  std::optional<ReloadState> configuration;

  /// Returns the memory of the earlier engine, or zeroed memory that the next engine gets.
  std::span<std::byte> engine_memory(const configuration::Config& config) {
    if (const KeptId earlier = keeping.find(KeptRole::kEngine, 0)) return keeping.memory(earlier);
    const auto sizes = engine::durable_sizes(limits_of(config));
    auto made = SealedMemory::create("engine", engine::DurableState::bytes_for(sizes));
    EXPECT_TRUE(made->keep(&keeping, KeptRole::kEngine));
    memory = std::move(*made);
    return {memory.base(), memory.bytes()};
  }
  SealedMemory memory;
};

/// An adapter with a control thread.
class Serving {
 public:
  /// `config`: for the first one. `culprit`: what those before crashed with.
  Serving(FakeKeeper& keeper, const configuration::Config& config, Subject culprit)
      : link_(keeper),
        daemon_(link_.configuration ? with_leavers(*link_.configuration) : config,
                link_.engine_memory(config)),
        reloader_(adapter(), server_, {}, {}, {},
                  link_.configuration ? Layers(*link_.configuration, "") : Layers(config),
                  link_.configuration) {
    adapter().keeping = &link_.keeping;
    adapter().records = &link_.records;
    adapter().kept = std::move(link_.kept);
    EXPECT_TRUE(adapter().journal.keep(link_.records, link_.left));
    const auto free = check_free(adapter().config, adapter().kept);
    EXPECT_TRUE(free) << free.error().message;
    server_.on_reload([this] { std::exchange(on_signal_, nullptr)(); });
    const auto opened = server_.open();
    EXPECT_TRUE(opened) << opened.error().message;
    adapter().culprit = connection_of(culprit, link_.left);
    const auto restored = server_.restore(link_.left);
    EXPECT_TRUE(restored) << restored.error().message;
    link_.left.clear();
    adapter().worker.run(engine::EndRestoring{});
    link_.records.end_restoring();
    link_.keeping.drop_rest();
    reloader_.resume();
    thread_ = std::thread([this] {
      const auto ended = server_.run();
      EXPECT_TRUE(ended) << ended.error().message;
      retired_ = ended && *ended == Server::End::kRetire;
    });
  }
  ~Serving() {
    if (!thread_.joinable()) return;
    ::kill(::getpid(), SIGTERM);
    thread_.join();
  }

  /// Has the control thread call `call`.
  void on_thread(const std::function<void()>& call) {
    std::promise<void> done;
    on_signal_ = [&] {
      call();
      done.set_value();
    };
    ::kill(::getpid(), SIGHUP);
    done.get_future().wait();
  }
  /// Afterwards the server is not destroyed: its process would end.
  void retire() {
    on_thread([this] { server_.stop(Server::End::kRetire); });
    thread_.join();
    EXPECT_TRUE(retired_);
    adapter().worker.run(engine::RetireEngine{});
    daemon_.worker.stop();
    link_.keeping.retire();
  }
  FakeKeeping& keeping() { return link_.keeping; }
  Adapter& adapter() { return daemon_.adapter; }
  Reloader& reloader() { return reloader_; }
  Server& server() { return server_; }

 private:
  Link link_;
  Daemon daemon_;
  Server server_{daemon_.adapter, *daemon_.general_services, *daemon_.shared_datagrams};
  Reloader reloader_;
  std::function<void()> on_signal_;
  bool retired_ = false;
  std::thread thread_;
};

/// Adapters of which the processes would have ended.
inline std::vector<std::unique_ptr<Serving>>& retired_ones() {
  static auto* const all = new std::vector<std::unique_ptr<Serving>>;
  return *all;
}

class Restart : public ::testing::Test {
 protected:
  Restart() : Restart("") {
    config.daemon.runtime_dir = folder.path() + "/run";
    start();
  }
  /// Starts no adapter.
  explicit Restart(const std::string& runtime_dir) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGHUP}) sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    config.daemon.runtime_dir = runtime_dir;
    config.tenants.front().levels = {{.name = "bulk", .is_default = true},
                                     {.name = "fast", .socket = configuration::SocketConfig{}}};
    configuration::TenantConfig& like = config.templates.emplace_back(config.tenants.back());
    like.name = "like";
    like.addresses = {Gid::from_ipv4(0xc6120005)};
    like.pcbs = like.vcbs = 10;
  }

  void start(Subject culprit = {}) { now = std::make_unique<Serving>(keeper, config, culprit); }
  void retire() {
    now->retire();
    retired_ones().push_back(std::move(now));
  }
  void restart() {
    retire();
    start();
  }
  /// Restarts with the first record of a kind changed.
  void restart_with(records::Kind kind, const RecordsAtRest::Change& change) {
    retire();
    at_rest.change(kind, change);
    start();
  }
  /// Returns the number of reports of records that do not fit.
  std::ptrdiff_t unfit() const {
    std::ptrdiff_t count = 0;
    now->on_thread([&] {
      count = std::ranges::count(now->adapter().journal.after(0, 1000).entries, "culprit",
                                 &JournalEntry::kind);
    });
    return count;
  }

  std::string path(const std::string& name) const { return config.daemon.runtime_dir + "/" + name; }
  static void limit_waits(const UniqueFd& socket) {
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  UniqueFd connected(const std::string& name, int type = SOCK_SEQPACKET) const {
    UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    limit_waits(socket);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path(name).c_str(), path(name).size() + 1);
    const bool done =
        ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    return done ? std::move(socket) : UniqueFd();
  }
  static void send_hello(const UniqueFd& socket, std::uint64_t magic = abi::kSessionMagic) {
    const abi::HelloRequest hello{magic, {abi::kAbiVersion, 0}};
    const auto record =
        request_record(abi::Operation::kHello, 9, std::as_bytes(std::span(&hello, 1)));
    EXPECT_EQ(::send(socket.get(), record.data(), record.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(record.size()));
  }
  /// The error of the reply to HELLO; -1: none came.
  static int hello_reply(const UniqueFd& socket) {
    const auto reply = receive_reply(socket.get());
    return reply ? reply->header.error : -1;
  }
  static bool ask_for_pd(const UniqueFd& socket, std::uint32_t tag) {
    const auto record = request_record(abi::Operation::kAllocPd, tag, {});
    return ::send(socket.get(), record.data(), record.size(), MSG_NOSIGNAL) > 0;
  }
  static bool has_unread_reply(const UniqueFd& socket) {
    char byte;
    return ::recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
  }
  static ino_t inode_of(const std::string& path) {
    struct stat found {};
    return ::lstat(path.c_str(), &found) == 0 ? found.st_ino : 0;
  }

  Folder folder;
  configuration::Config config = small_config();
  FakeKeeper keeper;
  RecordsAtRest at_rest{keeper};
  std::unique_ptr<Serving> now;
};

inline std::uint32_t last_tag = 2;

/// Sends a request, with the tag of the last one.
template <class Body>
void send_again(const UniqueFd& socket, abi::Operation operation, const Body& body) {
  const auto record = request_record(operation, last_tag, std::as_bytes(std::span(&body, 1)));
  EXPECT_GT(::send(socket.get(), record.data(), record.size(), MSG_NOSIGNAL), 0);
}

/// What a program on a tenant's socket gets for a request. `again`: with the tag of the last one.
template <class Body>
ReplyRecord ask(const UniqueFd& socket, abi::Operation operation, const Body& body,
                bool again = false) {
  if (!again) ++last_tag;
  send_again(socket, operation, body);
  auto reply = receive_reply(socket.get());
  EXPECT_TRUE(reply);
  return reply ? std::move(*reply) : ReplyRecord{};
}

template <class Body>
ReplyRecord rdma_cm(const UniqueFd& channel, std::uint32_t command, const Body& body,
                    bool again = false) {
  const struct {
    abi::ConnectionCommandRequest head;
    Body body;
  } request{{command, 0}, body};
  return ask(channel, abi::Operation::kConnectionCommand, request, again);
}

/// The body of a reply to rdma_cm().
template <class T>
T body_of(const ReplyRecord& reply) {
  T body{};
  constexpr std::size_t kHead = sizeof(abi::ConnectionCommandReply);
  EXPECT_EQ(reply.header.error, 0);
  EXPECT_EQ(reply.body.size(), kHead + sizeof body);
  if (reply.body.size() == kHead + sizeof body)
    std::memcpy(&body, reply.body.data() + kHead, sizeof body);
  return body;
}

/// The request that opens an event channel of rdma_cm.
inline abi::HelloWithLevel channel_hello() {
  abi::HelloWithLevel hello{};
  hello.hello = {abi::kSessionMagic, {abi::kAbiVersion, 0}};
  return hello;
}

inline std::uint32_t create_id(const UniqueFd& channel) {
  const rdma_ucm_create_id create{
      .uid = 77, .response = 0, .ps = RDMA_PS_TCP, .qp_type = 2, .reserved = {}};
  return body_of<rdma_ucm_create_id_resp>(rdma_cm(channel, RDMA_USER_CM_CMD_CREATE_ID, create)).id;
}

/// Returns 0 or an errno value.
inline int destroy_id(const UniqueFd& channel, std::uint32_t id) {
  const rdma_ucm_destroy_id destroy{.response = 0, .id = id, .reserved = 0};
  return rdma_cm(channel, RDMA_USER_CM_CMD_DESTROY_ID, destroy).header.error;
}

/// Port 7174 at the address of the first tenant.
inline sockaddr_in6 own_address() {
  sockaddr_in6 room{};
  auto& to = reinterpret_cast<sockaddr_in&>(room);
  to.sin_family = AF_INET;
  to.sin_port = htons(7174);
  to.sin_addr.s_addr = htonl(0xc6120001);
  return room;
}

/// Returns 0 or an errno value.
inline int bind(const UniqueFd& channel, std::uint32_t id) {
  rdma_ucm_bind_ip bind{};
  bind.addr = own_address();
  bind.id = id;
  return rdma_cm(channel, RDMA_USER_CM_CMD_BIND_IP, bind).header.error;
}

/// Returns 0 or an errno value.
inline int listen(const UniqueFd& channel, std::uint32_t id) {
  const rdma_ucm_listen listen{.id = id, .backlog = 3};
  return rdma_cm(channel, RDMA_USER_CM_CMD_LISTEN, listen).header.error;
}

/// Makes an identifier that listens, and one that has an event.
inline void listen_and_resolve(const UniqueFd& channel, std::uint32_t (&ids)[2]) {
  for (std::uint32_t& id : ids) id = create_id(channel);
  ASSERT_EQ(bind(channel, ids[0]), 0);
  ASSERT_EQ(listen(channel, ids[0]), 0);
  rdma_ucm_resolve_ip resolve{};
  resolve.dst_addr = own_address();
  resolve.id = ids[1];
  resolve.timeout_ms = 2000;
  ASSERT_EQ(rdma_cm(channel, RDMA_USER_CM_CMD_RESOLVE_IP, resolve).header.error, 0);
}

constexpr abi::OpenDatagramClientRequest kDatagramClient{.magic = abi::kSessionMagic,
                                                         .oldest = abi::kAbiVersion,
                                                         .qpn = abi::kProgramQpn,
                                                         .selector = 5,
                                                         .flags = 0,
                                                         .buffers = 0,
                                                         .newest = 0};

/// The settings of a tenant in force. Null: it is not in force.
inline const configuration::TenantConfig* in_force(Serving& now, const std::string& tenant) {
  return find_tenant(now.adapter().config, tenant);
}

}  // namespace softhca::control
