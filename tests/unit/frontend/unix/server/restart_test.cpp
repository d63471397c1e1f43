// SPDX-License-Identifier: Apache-2.0

// The control thread of an adapter that retires, and that of the adapter that follows.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "daemon/engine/requests/restore_requests.hpp"
#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/operate/admin/diagnoses.hpp"
#include "daemon/operate/reload/reload.hpp"
#include "tests/fake_keeper.hpp"
#include "tests/folder.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

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
std::vector<std::unique_ptr<Serving>>& retired_ones() {
  static auto* const all = new std::vector<std::unique_ptr<Serving>>;
  return *all;
}

class Restart : public ::testing::Test {
 protected:
  Restart() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGHUP}) sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    config.daemon.runtime_dir = folder.path() + "/run";
    config.tenants.front().levels = {{.name = "bulk", .is_default = true},
                                     {.name = "fast", .socket = configuration::SocketConfig{}}};
    configuration::TenantConfig& like = config.templates.emplace_back(config.tenants.back());
    like.name = "like";
    like.addresses = {Gid::from_ipv4(0xc6120005)};
    like.pcbs = like.vcbs = 10;
    start();
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

  std::string path(const std::string& name) const { return config.daemon.runtime_dir + "/" + name; }
  UniqueFd connected(const std::string& name, int type = SOCK_SEQPACKET) const {
    UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
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
  std::unique_ptr<Serving> now;
};

TEST_F(Restart, WaitingConnections_OfEverySocket_ServedByTheNextAdapter) {
  retire();
  const UniqueFd tenant = connected("a/socket"), level = connected("a/fast.socket"),
                 other = connected("b/socket"), admin = connected("admin.sock", SOCK_STREAM);
  ASSERT_TRUE(tenant && level && other && admin);
  send_hello(tenant);
  send_hello(level);
  send_hello(other);
  const std::string request = R"({"jsonrpc":"2.0","id":1,"method":"tenants.list"})"
                              "\n";
  ASSERT_EQ(::send(admin.get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  start();
  EXPECT_EQ(hello_reply(tenant), 0);
  EXPECT_EQ(hello_reply(level), 0);
  EXPECT_EQ(hello_reply(other), 0);
  char text[64];
  EXPECT_GT(::recv(admin.get(), text, sizeof text, 0), 0);
}

TEST_F(Restart, FilesThatProgramsRead_AdapterReplaced_StayInPlace) {
  const std::string device = "a/sysfs/class/infiniband/softhca0/";
  const std::vector<std::string> names = {
      "a",         "a/socket",           "a/fast.socket",
      "a/sysfs",   device + "node_guid", device + "ports/1/gids/0",
      "admin.sock"};
  std::vector<ino_t> inodes;
  for (const std::string& name : names) {
    inodes.push_back(inode_of(path(name)));
    EXPECT_NE(inodes.back(), 0u) << name;
  }
  retire();
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(inode_of(path(names[i])), inodes[i]) << names[i] << ", while no adapter runs";
  std::ofstream(path(device + "fw_ver")) << "other\n";  // as of an earlier version
  start();
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(inode_of(path(names[i])), inodes[i]) << names[i];
  EXPECT_EQ(first_line(path(device + "fw_ver")), configuration::DeviceConfig::kFirmware);
}

TEST_F(Restart, RequestsThatWait_ServedByTheNextAdapter) {
  const UniqueFd program = connected("a/socket");
  ASSERT_TRUE(program);
  // The adapter has accepted the connection when it has answered another one.
  const UniqueFd second = connected("a/socket");
  send_hello(second);
  ASSERT_EQ(hello_reply(second), 0);
  retire();
  send_hello(program);
  char byte;
  EXPECT_EQ(::recv(program.get(), &byte, 1, MSG_DONTWAIT), -1) << "no end of file";
  start();
  EXPECT_EQ(hello_reply(program), 0);
}

/// As after a crash between the answer to a request and the taking of it.
TEST_F(Restart, RequestThatIsAnswered_IsNotAnsweredAgain) {
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  const auto has_reply = [&] {
    pollfd look{program.get(), POLLIN, 0};
    return ::poll(&look, 1, 20'000) == 1;
  };
  EXPECT_TRUE(ask_for_pd(program, 5));
  ASSERT_TRUE(has_reply());
  retire();
  EXPECT_TRUE(ask_for_pd(program, 5));
  start();
  const auto reply = receive_reply(program.get());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.error, 0);
  EXPECT_TRUE(ask_for_pd(program, 6));
  const auto next = receive_reply(program.get());
  ASSERT_TRUE(next);
  EXPECT_EQ(next->header.tag, 6u);
  EXPECT_EQ(
      now->adapter().tenants[0]->control.accounts.in_use(configuration::Kind::kProtectionDomains),
      2u);
}

/// As after crashes between the answer to a request, which the process has read, and the taking of
/// it.
TEST_F(Restart, RequestThatWasAnsweredAndRead_ReplyComesTwice_SessionGoesOn) {
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  const auto next_tag = [&] {
    const auto reply = receive_reply(program.get());
    return reply && reply->header.error == 0 ? reply->header.tag : 0;
  };
  EXPECT_TRUE(ask_for_pd(program, 5));
  EXPECT_EQ(next_tag(), 5u);
  retire();
  EXPECT_TRUE(ask_for_pd(program, 5));
  start();
  while (!has_unread_reply(program)) ::usleep(100);
  EXPECT_TRUE(ask_for_pd(program, 6));
  EXPECT_EQ(next_tag(), 5u) << "the second reply";
  EXPECT_EQ(next_tag(), 6u);
  // Again, and the adapter ends before the process has read the second reply.
  retire();
  EXPECT_TRUE(ask_for_pd(program, 6));
  start();
  while (!has_unread_reply(program)) ::usleep(100);
  retire();
  EXPECT_TRUE(ask_for_pd(program, 7));
  start();
  EXPECT_EQ(next_tag(), 6u) << "the second reply";
  EXPECT_EQ(next_tag(), 7u);
  // The process has sent the next request.
  retire();
  EXPECT_TRUE(ask_for_pd(program, 7));
  EXPECT_TRUE(ask_for_pd(program, 8));
  start();
  EXPECT_EQ(next_tag(), 8u);
  EXPECT_TRUE(ask_for_pd(program, 9));
  EXPECT_EQ(next_tag(), 9u);
}

TEST_F(Restart, ProcessThatReadsNoReplies_AfterASecondOne_SessionEnds) {
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  EXPECT_TRUE(ask_for_pd(program, 5));
  ASSERT_TRUE(receive_reply(program.get()));
  retire();
  EXPECT_TRUE(ask_for_pd(program, 5));
  start();
  while (!has_unread_reply(program)) ::usleep(100);
  EXPECT_TRUE(ask_for_pd(program, 6)) << "the second reply is unread";
  while (ask_for_pd(program, 7)) ::usleep(1000);
  for (std::uint32_t tag : {5u, 6u}) {
    const auto reply = receive_reply(program.get());
    EXPECT_TRUE(reply && reply->header.tag == tag) << tag;
  }
  EXPECT_FALSE(receive_reply(program.get()));
}

TEST_F(Restart, GreetingThatWasAnsweredAndRead_SessionGoesOn) {
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  retire();
  send_hello(program);
  EXPECT_TRUE(ask_for_pd(program, 10));
  start();
  const auto reply = receive_reply(program.get());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.tag, 10u) << "no second greeting";
  EXPECT_EQ(reply->header.error, 0);
}

/// As after a crash before the answer.
TEST_F(Restart, GreetingWithoutAnAnswer_BeginsAnew) {
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  retire();
  send_hello(program);
  start();
  EXPECT_EQ(hello_reply(program), 0);
  restart();
  EXPECT_TRUE(ask_for_pd(program, 10));
  const auto reply = receive_reply(program.get());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.error, 0);
}

TEST_F(Restart, ProcessWithWhichAdaptersCrashed_IsGivenUp_OthersGoOn) {
  const UniqueFd culprit = connected("a/socket"), other = connected("a/socket");
  send_hello(culprit);
  const auto greeted = receive_reply(culprit.get());
  ASSERT_TRUE(greeted && greeted->header.error == 0);
  abi::HelloReply hello{};
  std::memcpy(&hello, greeted->body.data(), sizeof hello);
  send_hello(other);
  ASSERT_EQ(hello_reply(other), 0);
  const std::size_t kept = keeper.objects();
  retire();
  start({Subject::Kind::kSession, hello.session});
  char byte;
  EXPECT_EQ(::recv(culprit.get(), &byte, 1, 0), 0) << "the end of its connection";
  EXPECT_EQ(::recv(other.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_LT(keeper.objects(), kept);
  now->on_thread([&] {
    const auto events = now->adapter().journal.after(0, 1000).entries;
    EXPECT_EQ(std::ranges::count(events, "culprit", &JournalEntry::kind), 1);
    EXPECT_EQ(now->server().sessions().all().size(), 1u);
  });
}

TEST_F(Restart, ProgramThatEndsMeanwhile_LeavesNothing) {
  const std::size_t before = keeper.objects();
  {
    const UniqueFd program = connected("a/socket");
    send_hello(program, ~abi::kSessionMagic);
    ASSERT_GT(hello_reply(program), 0) << "refused, and still connected";
    EXPECT_EQ(keeper.objects(), before + 2);
    retire();
  }
  start();
  for (int i = 0; i < 20000 && keeper.objects() != before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(keeper.objects(), before);
}

TEST_F(Restart, SocketThatNoTenantHasAnyMore_IsRemoved) {
  const std::size_t before = keeper.objects();
  now->on_thread([&] {
    // As when an adapter ends in the middle of a reload.
    now->server().listeners().close(*now->adapter().tenants[1]);
    static auto* const left = new std::vector<KeptListener>;
    auto made = take_up_or_listen(now->adapter().kept, path("b/socket"), {});
    ASSERT_TRUE(made);
    left->push_back(std::move(*made));
    configuration::Config wanted = now->adapter().config;
    wanted.tenants.pop_back();
    EXPECT_TRUE(now->reloader().put_into_force(wanted));
    now->reloader().resume();
  });
  retire();
  start();
  EXPECT_FALSE(std::filesystem::exists(path("b")));
  EXPECT_EQ(keeper.objects(), before - 2) << "its socket, and that for its own requests";
  EXPECT_TRUE(connected("a/socket"));
}

TEST_F(Restart, EventsOfTheJournal_StayWithTheirNumbers) {
  std::vector<JournalEntry> before;
  records::Record running;
  now->on_thread([&] {
    Journal& journal = now->adapter().journal;
    journal.add({.kind = "queue_pair_error",
                 .tenant = "a",
                 .text = "failed",
                 .queue_pair = 7,
                 .cause = "no_answer",
                 .vendor_error = 3,
                 .past = {{.event = {.count = 5}}}});
    journal.add({.kind = "reload", .text = "of the daemon"});
    before = journal.after(0, 100).entries;
    running = record_diagnosis(now->adapter(), "capture_ended", "the capture of all");
  });
  ASSERT_GE(before.size(), 2u);
  restart();
  now->on_thread([&] {
    Journal& journal = now->adapter().journal;
    const auto after = journal.after(0, 100).entries;
    ASSERT_GT(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(after[i].number, before[i].number);
      EXPECT_EQ(after[i].time, before[i].time);
      EXPECT_EQ(after[i].text, before[i].text);
    }
    EXPECT_EQ(after.back().kind, "capture_ended");
    EXPECT_EQ(after.back().text, "the capture of all ended: the adapter was replaced");
    const JournalEntry* const failure = journal.failure_of(7);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->cause, "no_answer");
    EXPECT_EQ(failure->vendor_error, 3u);
    ASSERT_EQ(failure->past.size(), 1u);
    EXPECT_EQ(failure->past[0].event.count, 5u);
  });
  // As when the process of the first adapter ends.
  static auto* const left = new std::vector<records::Record>;
  left->push_back(std::move(running));
}

std::uint32_t last_tag = 2;

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

sockaddr_in6 own_address(std::uint16_t port) {
  sockaddr_in6 room{};
  auto& to = reinterpret_cast<sockaddr_in&>(room);
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(0xc6120001);
  return room;
}

TEST_F(Restart, EventChannelWithListenerAndUnreadEvent_GoesOn) {
  const UniqueFd channel = connected("a/socket");
  abi::HelloWithLevel hello{};
  hello.hello = {abi::kSessionMagic, {abi::kAbiVersion, 0}};
  const ReplyRecord opened = ask(channel, abi::Operation::kOpenEventChannel, hello);
  ASSERT_EQ(opened.header.error, 0);
  ASSERT_EQ(opened.fds.size(), 1u);
  std::uint32_t ids[2];
  for (std::uint32_t& id : ids) {
    const rdma_ucm_create_id create{
        .uid = 77, .response = 0, .ps = RDMA_PS_TCP, .qp_type = 2, .reserved = {}};
    id = body_of<rdma_ucm_create_id_resp>(rdma_cm(channel, RDMA_USER_CM_CMD_CREATE_ID, create)).id;
  }
  rdma_ucm_bind_ip bind{};
  bind.addr = own_address(7174);
  bind.id = ids[0];
  ASSERT_EQ(rdma_cm(channel, RDMA_USER_CM_CMD_BIND_IP, bind).header.error, 0);
  const rdma_ucm_listen listen{.id = ids[0], .backlog = 3};
  ASSERT_EQ(rdma_cm(channel, RDMA_USER_CM_CMD_LISTEN, listen).header.error, 0);
  rdma_ucm_resolve_ip resolve{};
  resolve.dst_addr = own_address(7174);
  resolve.id = ids[1];
  resolve.timeout_ms = 2000;
  ASSERT_EQ(rdma_cm(channel, RDMA_USER_CM_CMD_RESOLVE_IP, resolve).header.error, 0);
  char byte;
  ASSERT_EQ(::recv(opened.fds[0].get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT), 1) << "an event waits";
  restart();
  restart();
  EXPECT_EQ(::recv(opened.fds[0].get(), &byte, 1, MSG_DONTWAIT), 1);
  EXPECT_EQ(::recv(opened.fds[0].get(), &byte, 1, MSG_DONTWAIT), -1) << "no end of file";
  const auto event = body_of<rdma_ucm_event_resp>(
      rdma_cm(channel, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}));
  EXPECT_EQ(event.event, 0u) << "RDMA_CM_EVENT_ADDR_RESOLVED";
  EXPECT_EQ(event.id, ids[1]);
  restart();
  const auto same = body_of<rdma_ucm_event_resp>(
      rdma_cm(channel, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, true));
  EXPECT_EQ(same.id, event.id) << "the same request has the same answer";
  EXPECT_EQ(rdma_cm(channel, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}).header.error,
            EAGAIN);
  const ReplyRecord again = rdma_cm(channel, RDMA_USER_CM_CMD_LISTEN, listen);
  EXPECT_EQ(again.header.error, EINVAL) << "it listens already";
  const UniqueFd other = connected("a/socket");
  ASSERT_EQ(ask(other, abi::Operation::kOpenEventChannel, hello).header.error, 0);
  const rdma_ucm_create_id create{
      .uid = 78, .response = 0, .ps = RDMA_PS_TCP, .qp_type = 2, .reserved = {}};
  bind.id = body_of<rdma_ucm_create_id_resp>(rdma_cm(other, RDMA_USER_CM_CMD_CREATE_ID, create)).id;
  EXPECT_NE(bind.id, ids[0]);
  EXPECT_NE(bind.id, ids[1]);
  EXPECT_EQ(rdma_cm(other, RDMA_USER_CM_CMD_BIND_IP, bind).header.error, EADDRINUSE);
}

constexpr abi::OpenDatagramClientRequest kDatagramClient{.magic = abi::kSessionMagic,
                                                         .oldest = abi::kAbiVersion,
                                                         .qpn = abi::kProgramQpn,
                                                         .selector = 5,
                                                         .flags = 0,
                                                         .buffers = 0,
                                                         .newest = 0};

/// As after crashes between the answer to the request that opens a channel and the taking of it.
TEST_F(Restart, ChannelsThatProcessesKnowToBeOpen_GoOn) {
  abi::HelloWithLevel hello{};
  hello.hello = {abi::kSessionMagic, {abi::kAbiVersion, 0}};
  const UniqueFd events = connected("a/socket");
  const ReplyRecord opened = ask(events, abi::Operation::kOpenEventChannel, hello);
  ASSERT_EQ(opened.header.error, 0);
  retire();
  send_again(events, abi::Operation::kOpenEventChannel, hello);
  start();
  EXPECT_EQ(rdma_cm(events, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}).header.error, EAGAIN);
  const UniqueFd datagrams = connected("a/socket");
  const ReplyRecord made = ask(datagrams, abi::Operation::kOpenDatagramClient, kDatagramClient);
  ASSERT_EQ(made.header.error, 0);
  retire();
  send_again(datagrams, abi::Operation::kOpenDatagramClient, kDatagramClient);
  start();
  EXPECT_EQ(ask(datagrams, abi::Operation::kSetDatagramBuffers, abi::HandleBody{3, 0}).header.error,
            0);
}

/// As after crashes before the answer: the processes have no end of the signals.
TEST_F(Restart, ChannelsThatProcessesDoNotKnow_EndAndLeaveNothing) {
  abi::HelloWithLevel hello{};
  hello.hello = {abi::kSessionMagic, {abi::kAbiVersion, 0}};
  const std::size_t before = keeper.objects();
  const UniqueFd events = connected("a/socket");
  ASSERT_EQ(ask(events, abi::Operation::kOpenEventChannel, hello).header.error, 0);
  const UniqueFd datagrams = connected("a/socket");
  ASSERT_EQ(ask(datagrams, abi::Operation::kOpenDatagramClient, kDatagramClient).header.error, 0);
  retire();
  send_again(events, abi::Operation::kOpenEventChannel, hello);
  send_again(datagrams, abi::Operation::kOpenDatagramClient, kDatagramClient);
  start();
  EXPECT_FALSE(receive_reply(events.get())) << "the process connects again";
  EXPECT_FALSE(receive_reply(datagrams.get()));
  EXPECT_EQ(keeper.objects(), before);
  const UniqueFd second = connected("a/socket");
  EXPECT_EQ(ask(second, abi::Operation::kOpenDatagramClient, kDatagramClient).header.error, 0);
}

/// As after a crash between the sending of a datagram and the taking of the request.
TEST_F(Restart, DatagramThatMayHaveLeft_IsNotSentAgain) {
  const UniqueFd client = connected("a/socket");
  const ReplyRecord opened = ask(client, abi::Operation::kOpenDatagramClient, kDatagramClient);
  ASSERT_EQ(opened.header.error, 0);
  const abi::DatagramHead invalid{};
  ASSERT_EQ(ask(client, abi::Operation::kSendDatagram, invalid).header.error, EINVAL);
  retire();
  send_again(client, abi::Operation::kSendDatagram, invalid);
  start();
  const auto reply = receive_reply(client.get());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.error, 0) << "it was not looked at";
  EXPECT_EQ(ask(client, abi::Operation::kSendDatagram, invalid).header.error, EINVAL);
}

TEST_F(Restart, DatagramClient_GoesOn) {
  const UniqueFd client = connected("a/socket");
  const ReplyRecord opened = ask(client, abi::Operation::kOpenDatagramClient, kDatagramClient);
  ASSERT_EQ(opened.header.error, 0);
  ASSERT_EQ(ask(client, abi::Operation::kSetDatagramBuffers, abi::HandleBody{3, 0}).header.error,
            0);
  restart();
  const ReplyRecord told = ask(client, abi::Operation::kReceiveDatagram, abi::HandleBody{});
  ASSERT_EQ(told.header.error, 0);
  struct {
    abi::ReceiveDatagramReply head;
    abi::DatagramQuotaBody body;
  } quota{};
  ASSERT_EQ(told.body.size(), sizeof quota);
  std::memcpy(&quota, told.body.data(), sizeof quota);
  EXPECT_EQ(quota.body.quota, 3u);
  const UniqueFd second = connected("a/socket");
  EXPECT_EQ(ask(second, abi::Operation::kOpenDatagramClient, kDatagramClient).header.error,
            EADDRINUSE);
}

/// The settings of a tenant in force. Null: it is not in force.
const configuration::TenantConfig* in_force(Serving& now, const std::string& tenant) {
  return find_tenant(now.adapter().config, tenant);
}

TEST_F(Restart, TenantOnDemandAndUnsavedChange_StayInForce) {
  const configuration::AllocationChange change{
      .tenant = "b", .setting = configuration::LiveSetting::kPcbs, .amount = 77};
  now->on_thread([&] {
    ASSERT_TRUE(
        now->reloader().create_tenant({.name = "made", .template_name = "like"}, {}, false));
    ASSERT_TRUE(now->reloader().change({&change, 1}));
  });
  const UniqueFd program = connected("made/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  restart();
  now->on_thread([&] {
    ASSERT_NE(in_force(*now, "made"), nullptr);
    EXPECT_EQ(in_force(*now, "b")->pcbs, 77u);
    ASSERT_EQ(now->reloader().layers().tenants().size(), 1u);
    EXPECT_FALSE(now->reloader().layers().tenants()[0].saved);
    EXPECT_EQ(now->reloader().layers().file().tenants.size(), 2u);
  });
  EXPECT_TRUE(connected("made/socket"));
  char byte;
  EXPECT_EQ(::recv(program.get(), &byte, 1, MSG_DONTWAIT), -1) << "no end of file";
  restart();
  now->on_thread([&] { EXPECT_NE(in_force(*now, "made"), nullptr) << "also by the one after"; });
}

TEST_F(Restart, TenantThatIsLeaving_KeepsItsPrograms_TakesNoNewOnes) {
  UniqueFd program = connected("b/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  now->on_thread([&] {
    configuration::Config wanted = now->adapter().config;
    wanted.tenants.pop_back();
    ASSERT_TRUE(now->reloader().put_into_force(wanted));
    now->reloader().resume();
  });
  EXPECT_FALSE(connected("b/socket"));
  restart();
  EXPECT_FALSE(connected("b/socket"));
  now->on_thread([&] {
    EXPECT_EQ(in_force(*now, "b"), nullptr);
    EXPECT_EQ(now->reloader().draining("b"), 1u);
  });
  char byte;
  EXPECT_EQ(::recv(program.get(), &byte, 1, MSG_DONTWAIT), -1) << "no end of file";
  program.reset();
  for (int i = 0; i < 20000 && std::filesystem::exists(path("b")); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now->on_thread([&] { now->reloader().tick(); });
  }
  EXPECT_FALSE(std::filesystem::exists(path("b"))) << "it goes after its last program";
}

TEST_F(Restart, OrderlyEnd_AfterARestart_RemovesEverything) {
  restart();
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  now.reset();
  EXPECT_FALSE(std::filesystem::exists(path("a")));
  EXPECT_FALSE(std::filesystem::exists(path("admin.sock")));
  EXPECT_EQ(keeper.objects(), 0u);
}

TEST_F(Restart, KeeperThatIsFull_ProgramIsRefused_OthersGoOn) {
  const UniqueFd early = connected("a/socket");
  send_hello(early, ~abi::kSessionMagic);
  ASSERT_GT(hello_reply(early), 0);
  now->keeping().refuse(true);
  char byte;
  EXPECT_EQ(::recv(connected("a/socket").get(), &byte, 1, 0), 0) << "closed";
  now->keeping().refuse(false);
  const UniqueFd late = connected("a/socket");
  for (const UniqueFd* program : {&early, &late}) {
    send_hello(*program);
    EXPECT_EQ(hello_reply(*program), 0);
  }
}

}  // namespace
}  // namespace softhca::control
