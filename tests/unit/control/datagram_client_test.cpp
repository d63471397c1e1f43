// Programs as clients of general services and of the queue pair for programs: what they may have,
// what they say to each other, and what they may try.
#include "daemon/control/datagram_client.hpp"

#include <gmock/gmock.h>
#include <poll.h>

#include "daemon/control/clock.hpp"
#include "tests/unit/control/client.hpp"

namespace softhca::control {
namespace {

constexpr std::uint32_t kVendorClass = 0x32;

resource::Config config_with(const std::function<void(resource::Config&)>& change) {
  resource::Config config = small_config();
  change(config);
  return config;
}

/// A program, its connection and what serves it, in one thread.
class Program : public ProcessEnd {
 public:
  Program(Daemon& daemon, DatagramClients& clients, std::size_t tenant,
          const abi::OpenDatagramClientRequest& request) {
    UniqueFd served = take_served_end();
    const PeerIdentity peer = *peer_identity(served.get());
    engine::Tenant& of = *daemon.adapter.tenants[tenant];
    ChannelRequest asked{
        .operation = Operation::kOpenDatagramClient,
        .datagrams = request,
        .socket = std::move(served),
        .peer = peer,
        .descriptors = of.accounts.take(resource::Kind::kDescriptors, TenantChannel::kDescriptors)};
    client_ = DatagramClient::open(clients, of, std::move(asked));
    std::vector<std::byte> body;
    opened = receive(body);
    if (opened != 0) return;
    quota = read<abi::DatagramQuotaBody>(body).quota;
    signal_ = std::move(take_descriptors().front());
  }

  /// False: the connection is over.
  bool send(Operation operation, std::span<const std::byte> body) {
    put(operation, body);
    return client_->serve();
  }
  template <class In>
  int ask(Operation operation, const In& request, std::vector<std::byte>& reply) {
    EXPECT_TRUE(send(operation, std::as_bytes(std::span(&request, 1))));
    return receive(reply);
  }
  template <class T>
  static T read(const std::vector<std::byte>& bytes, std::size_t at = 0) {
    T out{};
    EXPECT_GE(bytes.size(), at + sizeof out);
    if (bytes.size() >= at + sizeof out) std::memcpy(&out, bytes.data() + at, sizeof out);
    return out;
  }

  int set_buffers(std::uint32_t buffers) {
    std::vector<std::byte> reply;
    const int error = ask(Operation::kSetDatagramBuffers, abi::HandleBody{buffers, 0}, reply);
    if (error == 0) quota = read<abi::DatagramQuotaBody>(reply).quota;
    return error;
  }

  struct Message {
    abi::DatagramHead head{};
    std::array<std::byte, abi::kDatagramBytes> payload{};
  };
  int send(const Message& message) {
    std::vector<std::byte> reply;
    return ask(Operation::kSendDatagram, message, reply);
  }
  /// The next of what waits; the byte of the signal is taken as programs do.
  abi::DatagramEvent take(Message* message = nullptr) {
    std::vector<std::byte> reply;
    EXPECT_TRUE(send(Operation::kReceiveDatagram, {}));
    EXPECT_EQ(receive(reply), 0);
    const auto head = read<abi::ReceiveDatagramReply>(reply);
    if (head.drained != 0) {
      char byte;
      EXPECT_EQ(::recv(signal_.get(), &byte, 1, MSG_DONTWAIT), 1);
    }
    const auto event = static_cast<abi::DatagramEvent>(head.event);
    if (event == abi::DatagramEvent::kReceived && message != nullptr) {
      message->head = read<abi::DatagramHead>(reply, sizeof head);
      std::memcpy(message->payload.data(), reply.data() + sizeof head + sizeof message->head,
                  message->head.bytes);
    }
    if (event == abi::DatagramEvent::kQuota)
      quota = read<abi::DatagramQuotaBody>(reply, sizeof head).quota;
    return event;
  }
  bool readable() const {
    pollfd fd{signal_.get(), POLLIN, 0};
    return ::poll(&fd, 1, 0) == 1;
  }
  void end() { client_.reset(); }

  int opened = -1;
  std::uint32_t quota = 0;

 private:
  UniqueFd signal_;
  std::unique_ptr<DatagramClient> client_;
};

class DatagramClientTest : public testing::Test {
 protected:
  explicit DatagramClientTest(const resource::Config& config = small_config()) : daemon(config) {}

  Program open(std::size_t tenant, abi::OpenDatagramClientRequest request) {
    return Program(daemon, clients, tenant, request);
  }
  static abi::OpenDatagramClientRequest of_class(std::uint32_t management_class = kVendorClass,
                                                 std::uint32_t flags = 0,
                                                 std::uint32_t buffers = 0) {
    return {.qpn = abi::kManagementQpn,
            .selector = management_class,
            .flags = flags,
            .buffers = buffers};
  }
  static abi::OpenDatagramClientRequest number(std::uint32_t number, std::uint32_t buffers = 0) {
    return {.qpn = abi::kProgramQpn, .selector = number, .buffers = buffers};
  }
  /// A request of the vendor class to a tenant.
  Program::Message mad(std::size_t to) const {
    Program::Message message;
    std::memcpy(message.head.peer, address_of(to).bytes.data(), 16);
    message.head.qpn = abi::kManagementQpn;
    message.head.qkey = engine::kGeneralServicesQkey;
    message.head.bytes = abi::kDatagramBytes;
    message.payload[engine::kClassOffset] = std::byte{kVendorClass};
    message.payload[engine::kMethodOffset] = std::byte{1};
    return message;
  }
  const Gid& address_of(std::size_t tenant) const {
    return daemon.adapter.tenants[tenant]->addresses.front().gid;
  }
  /// Until it is there, or something is not as it should be.
  template <class F>
  bool eventually(F&& holds) {
    for (int i = 0; i < 20000; ++i) {
      daemon.general_services->serve();
      daemon.shared_datagrams->serve();
      if (holds()) return true;
      ::usleep(500);
    }
    return false;
  }
  std::uint32_t in_use() { return daemon.general_services->pool_counters().in_use.value(); }

  Daemon daemon;
  DatagramClients clients{daemon.adapter, *daemon.general_services, *daemon.shared_datagrams};
};

TEST_F(DatagramClientTest, ARequestAndItsResponseBetweenTwoTenants) {
  Program server = open(0, of_class());
  Program client = open(1, of_class(kVendorClass, abi::kDatagramResponses));
  ASSERT_EQ(server.opened, 0);
  ASSERT_EQ(client.opened, 0);
  EXPECT_EQ(server.quota, 16u);
  EXPECT_FALSE(server.readable());
  EXPECT_EQ(server.take(), abi::DatagramEvent::kNothing);

  ASSERT_EQ(client.send(mad(0)), 0);
  ASSERT_TRUE(eventually([&] { return server.readable(); }));
  Program::Message got;
  ASSERT_EQ(server.take(&got), abi::DatagramEvent::kReceived);
  EXPECT_FALSE(server.readable());
  EXPECT_EQ(got.payload, mad(0).payload);
  EXPECT_EQ(std::memcmp(got.head.local, address_of(0).bytes.data(), 16), 0);
  EXPECT_EQ(std::memcmp(got.head.peer, address_of(1).bytes.data(), 16), 0);
  EXPECT_EQ(got.head.qpn, abi::kManagementQpn);
  EXPECT_EQ(got.head.pkey, 0xffff);

  got.head.qkey = engine::kGeneralServicesQkey;
  got.payload[engine::kMethodOffset] = std::byte{0x81};
  ASSERT_EQ(server.send(got), 0);
  ASSERT_TRUE(eventually([&] { return client.readable(); }));
  Program::Message answer;
  EXPECT_EQ(client.take(&answer), abi::DatagramEvent::kReceived);
  EXPECT_EQ(answer.payload, got.payload);
}

TEST_F(DatagramClientTest, NumbersTellProgramsOfOneTenantApart) {
  Program one = open(0, number(1)), two = open(0, number(0xfffffffe)), from = open(1, number(1));
  ASSERT_EQ(one.opened + two.opened + from.opened, 0);
  Program::Message message = mad(0);
  message.head.qpn = abi::kProgramQpn;
  message.head.qkey = abi::kProgramQkey;
  message.head.bytes = 6;
  message.payload = {std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xfe}};
  std::vector<std::byte> reply;
  std::vector<std::byte> body(sizeof message.head + 6);
  std::memcpy(body.data(), &message, body.size());
  ASSERT_TRUE(from.send(Operation::kSendDatagram, body));
  ASSERT_EQ(from.receive(reply), 0);
  ASSERT_TRUE(eventually([&] { return two.readable(); }));
  Program::Message got;
  EXPECT_EQ(two.take(&got), abi::DatagramEvent::kReceived);
  EXPECT_EQ(got.head.bytes, 6u);
  EXPECT_EQ(got.head.qpn, abi::kProgramQpn);
  EXPECT_FALSE(one.readable());
}

TEST_F(DatagramClientTest, WhatMayNotBeOpened) {
  const auto refused = [&](const abi::OpenDatagramClientRequest& request) {
    return open(0, request).opened;
  };
  EXPECT_EQ(refused(of_class(0)), EINVAL);
  EXPECT_EQ(refused(of_class(0x132)), EINVAL);
  EXPECT_EQ(refused(of_class(kVendorClass, 2)), EINVAL);
  EXPECT_EQ(refused({.qpn = 0, .selector = kVendorClass}), EINVAL);
  EXPECT_EQ(refused({.qpn = 3, .selector = kVendorClass}), EINVAL);
  EXPECT_EQ(refused({.qpn = 2, .selector = 1, .flags = abi::kDatagramResponses}), EINVAL);
  for (const std::uint32_t reserved : {0x01, 0x07, 0x81}) {
    EXPECT_EQ(refused(of_class(reserved)), EACCES);
    EXPECT_EQ(refused(of_class(reserved, abi::kDatagramResponses)), EACCES);
  }
  Program taken = open(0, of_class());
  EXPECT_EQ(refused(of_class()), EADDRINUSE);
  EXPECT_EQ(open(1, of_class()).opened, 0);  // another tenant's addresses
  daemon.adapter.tenants[0]->leaving = true;
  EXPECT_EQ(refused(number(1)), ENODEV);
}

TEST_F(DatagramClientTest, LimitsOfATenantAreItsOwnAndSayWhichTheyAre) {
  std::vector<Program> some;
  for (std::uint32_t i = 0; i < 16; ++i) {
    some.push_back(open(0, number(i, 1)));
    ASSERT_EQ(some.back().opened, 0) << i;
  }
  EXPECT_EQ(open(0, number(99, 1)).opened, EDQUOT);
  EXPECT_EQ(open(0, of_class(kVendorClass, 0, 1)).opened, 0);  // of the other queue pair
  EXPECT_EQ(open(1, number(99, 257)).opened, ENOBUFS);
  Program other = open(1, number(99, 200));
  ASSERT_EQ(other.opened, 0);
  EXPECT_EQ(open(1, number(98, 57)).opened, ENOBUFS);
  EXPECT_EQ(other.set_buffers(257), ENOBUFS);
  EXPECT_EQ(other.quota, 200u);
  EXPECT_EQ(other.set_buffers(256), 0);
  EXPECT_EQ(other.quota, 256u);
  EXPECT_EQ(other.set_buffers(0), 0);
  EXPECT_EQ(other.quota, 16u);
  some.front().end();
  EXPECT_EQ(open(0, number(99, 1)).opened, 0);
  const auto events = daemon.adapter.journal.after(0, 100).entries;
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].kind, "gsa_client_refused");
  EXPECT_THAT(events[0].text, testing::HasSubstr("tenant_clients"));
}

TEST_F(DatagramClientTest, WhatMayNotBeSent) {
  Program program = open(0, of_class());
  Program::Message message = mad(1);
  message.payload[engine::kClassOffset] = std::byte{7};
  EXPECT_EQ(program.send(message), EACCES);
  message = mad(1);
  message.head.bytes = 255;
  EXPECT_EQ(program.send(message), EINVAL);
  message.head.bytes = 0xffffffff;
  EXPECT_EQ(program.send(message), EINVAL);
  for (const std::uint32_t qpn : {0u, 0xffffffu, 0x1000001u}) {
    message = mad(1);
    message.head.qpn = qpn;
    EXPECT_EQ(program.send(message), EINVAL) << qpn;
  }
  message = mad(1);
  std::memcpy(message.head.local, address_of(1).bytes.data(), 16);
  EXPECT_EQ(program.send(message), EADDRNOTAVAIL);
  message = mad(1);
  std::memset(message.head.peer, 0, 16);
  EXPECT_EQ(program.send(message), EINVAL);
  message.head.peer[0] = 0xfd;  // IPv6, of which it has none
  EXPECT_EQ(program.send(message), ENETUNREACH);
  message.head.peer[0] = 0xff;
  EXPECT_EQ(program.send(message), EINVAL);
}

TEST_F(DatagramClientTest, OneThatDoesNotReadHasNoMoreThanItsBuffers) {
  Program deaf = open(0, of_class(kVendorClass, 0, 4));
  Program server = open(0, of_class(0x33));
  Program client = open(1, of_class(kVendorClass, abi::kDatagramResponses));
  Program other = open(1, of_class(0x33, abi::kDatagramResponses));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(client.send(mad(0)), 0);
  Program::Message message = mad(0);
  message.payload[engine::kClassOffset] = std::byte{0x33};
  ASSERT_EQ(other.send(message), 0);
  ASSERT_TRUE(eventually([&] { return server.readable(); }));
  EXPECT_EQ(in_use(), 4u);  // three from one host alone, and this one
  EXPECT_EQ(server.take(), abi::DatagramEvent::kReceived);

  EXPECT_EQ(deaf.set_buffers(1), 0);  // the others are lost
  EXPECT_TRUE(eventually([&] { return in_use() == 1; }));
  EXPECT_EQ(deaf.take(), abi::DatagramEvent::kReceived);
  EXPECT_EQ(deaf.take(), abi::DatagramEvent::kNothing);
  EXPECT_FALSE(deaf.readable());
}

TEST_F(DatagramClientTest, WhatItLeavesIsGivenBackAndItsClassIsFree) {
  std::optional<Program> server(open(0, of_class()));
  Program client = open(1, of_class(kVendorClass, abi::kDatagramResponses));
  for (int i = 0; i < 5; ++i) ASSERT_EQ(client.send(mad(0)), 0);
  ASSERT_TRUE(eventually([&] { return in_use() == 5 && server->readable(); }));
  server.reset();
  EXPECT_TRUE(eventually([&] { return in_use() == 0; }));
  EXPECT_EQ(open(0, of_class()).opened, 0);
}

TEST_F(DatagramClientTest, WhatIsDroppedLeavesNoSignalBehind) {
  Program server = open(0, of_class(kVendorClass, 0, 2));
  Program client = open(1, of_class(kVendorClass, abi::kDatagramResponses));
  ASSERT_EQ(client.send(mad(0)), 0);
  ASSERT_TRUE(eventually([&] { return server.readable(); }));
  EXPECT_EQ(server.set_buffers(1), 0);
  EXPECT_EQ(server.take(), abi::DatagramEvent::kReceived);
  EXPECT_FALSE(server.readable());
}

class SlowTenant : public DatagramClientTest {
 protected:
  SlowTenant()
      : DatagramClientTest(config_with([](resource::Config& config) {
          config.general_services.send_rate = 1;
          config.general_services.send_burst = 10;
        })) {}
};

TEST_F(SlowTenant, OneThatSendsTooOftenIsRefusedAndOthersAreNot) {
  Program flood = open(0, of_class());
  int sent = 0, error = 0;
  while ((error = flood.send(mad(1))) == 0 && sent < 100) ++sent;
  EXPECT_EQ(error, EBUSY);
  EXPECT_GE(sent, 9);
  EXPECT_LE(sent, 15);
  EXPECT_EQ(open(0, of_class(0x33)).opened, EBUSY);
  Program other = open(1, of_class());
  ASSERT_EQ(other.opened, 0);
  EXPECT_EQ(other.send(mad(0)), 0);
}

class QuickWatch : public DatagramClientTest {
 protected:
  QuickWatch()
      : DatagramClientTest(config_with([](resource::Config& config) {
          config.general_services.buffers_per_client = 2;
          config.general_services.window_ms = 10;
          config.general_services.probation_ms = 0;
          config.general_services.raise_after = 1;
          config.general_services.send_rate = 0;
        })) {}
};

TEST_F(QuickWatch, AProgramIsToldWhenItIsGivenMore) {
  Program server = open(0, of_class());
  Program a = open(0, of_class(kVendorClass, abi::kDatagramResponses));
  Program b = open(1, of_class(kVendorClass, abi::kDatagramResponses));
  ASSERT_EQ(server.quota, 2u);
  const bool told = eventually([&] {
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(a.send(mad(0)), 0);
      EXPECT_EQ(b.send(mad(0)), 0);
    }
    daemon.general_services->tick(now(), [](const std::string&, const auto&) {});
    return server.take() == abi::DatagramEvent::kQuota;
  });
  ASSERT_TRUE(told);
  EXPECT_GT(server.quota, 2u);
  EXPECT_LE(server.quota, 8u);
}

TEST_F(QuickWatch, MalformedRequestsEndTheConnectionOrAreRefused) {
  for (std::uint32_t operation = 0; operation < 64; ++operation)
    for (const std::size_t bytes : {0, 1, 7, 8, 9, 51, 52, 53, 307, 308, 309, 4096}) {
      Program program = open(0, of_class());
      ASSERT_EQ(program.opened, 0);
      const std::vector<std::byte> body(bytes, std::byte{0xff});
      const bool goes_on = program.send(static_cast<Operation>(operation), body);
      const bool known = operation == static_cast<std::uint32_t>(Operation::kSetDatagramBuffers) ||
                         operation == static_cast<std::uint32_t>(Operation::kSendDatagram) ||
                         operation == static_cast<std::uint32_t>(Operation::kReceiveDatagram);
      EXPECT_EQ(goes_on, known) << operation;
      std::vector<std::byte> reply;
      if (known && bytes != 0) {
        EXPECT_NE(program.receive(reply), 0) << operation << ", " << bytes;
      }
    }
}

}  // namespace
}  // namespace softhca::control
