// A session over a pair of sockets: what a process asks for, rightly and wrongly.
#include "daemon/control/session.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <random>

#include "daemon/control/event_sender.hpp"
#include "daemon/control/setup.hpp"

namespace softhca::control {
namespace {

using abi::Operation;

resource::Config small_config() {
  resource::Config config = resource::default_config();
  config.pools.queue_pairs = 64;
  config.pools.memory_regions = 64;
  config.pools.completion_queues = 16;
  config.pools.shared_receive_queues = 4;
  config.pools.protection_domains = 8;
  config.pools.address_handles = 8;
  return config;
}

/// Everything below a session, its engine on a thread as in the daemon.
class Daemon {
 public:
  Daemon() {
    auto tenants = add_tenants(config, engine);
    EXPECT_TRUE(tenants);
    adapter.tenants = std::move(*tenants);
    adapter.guarantee_vcbs();
    EXPECT_TRUE(worker.start());
  }
  ~Daemon() { worker.stop(); }

  const resource::Config config = small_config();
  EventSender events;
  engine::Engine engine{limits_of(config), events};
  engine::Worker worker{engine, {}};
  Adapter adapter{.config = config,
                  .engine = engine,
                  .worker = worker,
                  .tenants = {},
                  .vcbs = QuotaPool(config.pools.vcbs)};
};

/// A process and its session, in one thread.
class Client {
 public:
  explicit Client(Daemon& daemon, std::size_t tenant = 0) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    socket_ = UniqueFd(ends[0]);
    const auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
    session_ =
        std::make_unique<Session>(daemon.adapter, *daemon.adapter.tenants[tenant],
                                  UniqueFd(ends[1]), *peer_identity(ends[1]), UniqueFd(pidfd));
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
  void end() { session_.reset(); }

  std::uint32_t vcbs = 0;

 private:
  UniqueFd socket_;
  std::unique_ptr<Session> session_;
  std::uint32_t tag_ = 0;
  std::vector<UniqueFd> fds_;
};

class SessionTest : public ::testing::Test {
 protected:
  ~SessionTest() {
    client.end();
    for (const auto& tenant : daemon.adapter.tenants) {
      EXPECT_EQ(tenant->counters.sessions.value(), 0u);
      EXPECT_EQ(tenant->counters.queue_pairs.value(), 0u);
      EXPECT_EQ(tenant->counters.memory_regions.value(), 0u);
      EXPECT_EQ(tenant->counters.registered_bytes.value(), 0u);
      EXPECT_EQ(tenant->vcbs.in_use.value(), 0u);
    }
    EXPECT_EQ(daemon.engine.functions().unassigned(), daemon.engine.functions().size());
    EXPECT_EQ(daemon.engine.keys().size(), 0u);
  }
  abi::CreateQpRequest qp_request(std::uint32_t type = 2) {
    if (!prepared) {
      EXPECT_EQ(client.greet(), 0);
      pd = client.make(Operation::kAllocPd);
      abi::CreateCqReply reply{};
      EXPECT_EQ(
          client.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 100, abi::kNoHandle}, &reply),
          0);
      EXPECT_EQ(reply.entries, 128u);
      cq = reply.handle;
      prepared = true;
    }
    return {.user_handle = 7,
            .pd = pd,
            .type = type,
            .send_cq = cq,
            .receive_cq = cq,
            .srq = abi::kNoHandle,
            .max_send_wr = 10,
            .max_receive_wr = 10,
            .max_send_sge = 2,
            .max_receive_sge = 1,
            .max_inline = 64};
  }
  int modify(std::uint32_t qpn, abi::QpAttributes attributes) {
    return client.ask(Operation::kModifyQp, abi::ModifyQpRequest{qpn, 0, attributes});
  }

  Daemon daemon;
  Client client{daemon};
  bool prepared = false;
  std::uint32_t pd = 0;
  std::uint32_t cq = 0;
};

TEST_F(SessionTest, HelloComesFirstAndOnce) {
  EXPECT_EQ(client.ask(Operation::kHello, abi::HelloRequest{1, abi::kAbiVersion, 0}), EPROTO);
  EXPECT_EQ(client.greet(), 0);
  EXPECT_EQ(client.descriptors(), 3u);
  EXPECT_EQ(client.vcbs, daemon.config.tenants[0].vcbs_per_process);
  const abi::HelloRequest again{abi::kSessionMagic, abi::kAbiVersion, 0};
  EXPECT_FALSE(client.send(Operation::kHello, std::as_bytes(std::span(&again, 1))));
  Client rude(daemon);
  EXPECT_FALSE(rude.send(Operation::kAllocPd, {}));
}

TEST_F(SessionTest, ObjectsInUseStay) {
  const auto request = qp_request();
  abi::CreateQpReply qp{};
  ASSERT_EQ(client.ask(Operation::kCreateQp, request, &qp), 0);
  EXPECT_EQ(qp.send_entries, 16u);
  EXPECT_EQ(qp.max_send_wr, 10u);
  EXPECT_EQ(client.ask(Operation::kDeallocPd, abi::HandleBody{pd, 0}), EBUSY);
  EXPECT_EQ(client.ask(Operation::kDestroyCq, abi::HandleBody{cq, 0}), EBUSY);
  EXPECT_EQ(client.ask(Operation::kDestroyQp, abi::HandleBody{qp.qpn, 0}), 0);
  EXPECT_EQ(client.ask(Operation::kDestroyQp, abi::HandleBody{qp.qpn, 0}), EINVAL);
  EXPECT_EQ(client.ask(Operation::kDestroyCq, abi::HandleBody{cq, 0}), 0);
  EXPECT_EQ(client.ask(Operation::kDeallocPd, abi::HandleBody{pd, 0}), 0);
}

TEST_F(SessionTest, QueuePairGoesThroughItsStates) {
  abi::CreateQpReply qp{};
  ASSERT_EQ(client.ask(Operation::kCreateQp, qp_request(), &qp), 0);
  namespace attr = engine::attr;
  abi::QpAttributes init{.mask = attr::kState | attr::kPkeyIndex | attr::kPort | attr::kAccessFlags,
                         .qp_state = 1,
                         .port_num = 1};
  abi::QpAttributes rtr{.mask = attr::kState | attr::kAv | attr::kPathMtu | attr::kDestQpn |
                                attr::kRqPsn | attr::kMaxDestRdAtomic | attr::kMinRnrTimer,
                        .qp_state = 2,
                        .path_mtu = 3,
                        .dest_qp_num = qp.qpn,
                        .max_dest_rd_atomic = 1,
                        .min_rnr_timer = 12};
  rtr.av.is_global = rtr.av.port_num = 1;
  std::memcpy(rtr.av.dgid, daemon.config.tenants[0].addresses[0].bytes.data(), 16);
  abi::QpAttributes rts{.mask = attr::kState | attr::kTimeout | attr::kRetryCount |
                                attr::kRnrRetry | attr::kSqPsn | attr::kMaxRdAtomic,
                        .qp_state = 3,
                        .max_rd_atomic = 1,
                        .timeout = 14,
                        .retry_cnt = 7,
                        .rnr_retry = 7};
  EXPECT_EQ(modify(qp.qpn, rtr), EINVAL) << "out of turn";
  EXPECT_EQ(modify(qp.qpn, {.mask = attr::kState, .qp_state = 6}), EINVAL) << "RESET to ERROR";
  EXPECT_EQ(modify(qp.qpn, init), 0);
  const auto refused = [&](auto&& change) {
    abi::QpAttributes bad = rtr;
    change(bad);
    return modify(qp.qpn, bad) == EINVAL;
  };
  EXPECT_TRUE(refused([](auto& a) { a.path_mtu = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.path_mtu = 6; }));
  EXPECT_TRUE(refused([](auto& a) { a.dest_qp_num = 1 << 24; }));
  EXPECT_TRUE(refused([](auto& a) { a.av.sgid_index = 1; }));
  EXPECT_TRUE(refused([](auto& a) { a.av.is_global = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.max_dest_rd_atomic = 255; }));
  EXPECT_TRUE(refused([](auto& a) { a.min_rnr_timer = 32; }));
  EXPECT_TRUE(refused([](auto& a) { a.mask |= 1u << 21; }));
  EXPECT_TRUE(refused([](auto& a) { a.qp_state = 7; }));
  EXPECT_TRUE(refused([](auto& a) {
    a.mask |= attr::kCurState;
    a.cur_qp_state = 3;
  }));
  EXPECT_EQ(modify(qp.qpn, rtr), 0);
  EXPECT_EQ(modify(qp.qpn, rts), 0);
  abi::QueryQpReply query{};
  EXPECT_EQ(client.ask(Operation::kQueryQp, abi::HandleBody{qp.qpn, 0}, &query), 0);
  EXPECT_EQ(query.attributes.qp_state, 3u);
  EXPECT_EQ(query.attributes.dest_qp_num, qp.qpn);
  EXPECT_EQ(query.attributes.timeout, 14);
  EXPECT_EQ(modify(qp.qpn, {.mask = attr::kState, .qp_state = 6}), 0);
  EXPECT_EQ(modify(qp.qpn, {.mask = attr::kState, .qp_state = 3}), EINVAL);
  EXPECT_EQ(modify(qp.qpn, {.mask = attr::kState, .qp_state = 0}), 0);
}

TEST_F(SessionTest, LimitsHold) {
  auto request = qp_request();
  request.max_send_wr = 0xffffffff;
  EXPECT_EQ(client.ask(Operation::kCreateQp, request), EINVAL);
  request = qp_request();
  request.max_receive_sge = 17;
  EXPECT_EQ(client.ask(Operation::kCreateQp, request), EINVAL);
  request = qp_request(0x102);
  EXPECT_EQ(client.ask(Operation::kCreateQp, request), EOPNOTSUPP);
  request = qp_request();
  int error = 0;
  for (int i = 0; i < 65 && error == 0; ++i) error = client.ask(Operation::kCreateQp, request);
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(daemon.engine.queue_pair_count(), 64u);
}

TEST_F(SessionTest, RegionsAreCheckedAndCounted) {
  qp_request();
  const auto address = reinterpret_cast<std::uint64_t>(&daemon);
  struct {
    abi::RegisterMrRequest head;
    abi::MrExtent extent;
  } request{{address, 100, address, 1, pd, 1, 0}, {address, 100, 0, 0, 0}};
  abi::RegisterMrReply reply{};
  EXPECT_EQ(client.ask(Operation::kRegisterMr, request, &reply), 0);
  EXPECT_EQ(daemon.adapter.tenants[0]->counters.registered_bytes.value(), 100u);
  auto bad = request;
  bad.extent.length = 99;
  EXPECT_EQ(client.ask(Operation::kRegisterMr, bad), EINVAL);
  bad = request;
  bad.head.extents = 0x10000001;
  EXPECT_EQ(client.ask(Operation::kRegisterMr, bad), EINVAL);
  bad = request;
  bad.head.length = bad.extent.length = ~std::uint64_t{0};
  EXPECT_EQ(client.ask(Operation::kRegisterMr, bad), EINVAL);
  bad = request;
  bad.head.access = 2;  // remote without local writing
  EXPECT_EQ(client.ask(Operation::kRegisterMr, bad), EINVAL);
  bad = request;
  bad.extent.kind = 1;
  bad.extent.handle = 4711;
  EXPECT_EQ(client.ask(Operation::kRegisterMr, bad), EINVAL);
  EXPECT_EQ(client.ask(Operation::kDeregisterMr, abi::HandleBody{reply.handle, 0}), 0);
  EXPECT_EQ(client.ask(Operation::kDeregisterMr, abi::HandleBody{reply.handle, 0}), EINVAL);
}

TEST_F(SessionTest, UnknownOperationsEndIt) {
  EXPECT_EQ(client.greet(), 0);
  EXPECT_FALSE(client.send(static_cast<Operation>(0), {}));
  for (const std::uint32_t operation : {24u, 1000u, 0xffffffffu}) {
    Client other(daemon);
    EXPECT_EQ(other.greet(), 0);
    EXPECT_FALSE(other.send(static_cast<Operation>(operation), {}));
  }
  Client brief(daemon);
  EXPECT_FALSE(brief.send(std::array<std::byte, 7>{}));
}

/// Every operation with bodies of every length: the session answers or ends, the daemon lives.
TEST_F(SessionTest, RandomBodiesOfEveryLength) {
  std::mt19937 random(815);
  std::vector<std::byte> body;
  std::vector<std::byte> reply;
  auto wild = std::make_unique<Client>(daemon, 1);
  EXPECT_EQ(wild->greet(), 0);
  for (std::uint32_t operation = 2; operation <= 23; ++operation)
    for (std::size_t length = 0; length < 260; ++length) {
      // Bytes that are often small, so that some handles and counts are right.
      body.resize(length);
      for (std::byte& byte : body)
        byte = static_cast<std::byte>(random() % 3 != 0   ? 0
                                      : random() % 4 != 0 ? random() % 4
                                                          : random());
      if (wild->send(static_cast<Operation>(operation), body)) {
        EXPECT_GE(wild->receive(reply), 0);
        continue;
      }
      wild = std::make_unique<Client>(daemon, 1);
      EXPECT_EQ(wild->greet(), 0);
    }
  wild.reset();
  EXPECT_EQ(client.greet(), 0) << "the daemon serves others";
}

}  // namespace
}  // namespace softhca::control
