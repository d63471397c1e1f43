// SPDX-License-Identifier: Apache-2.0

// Programs as clients of general services and of the queue pair for programs: what they may have,
// what they say to each other, and what they may try.
#include <gmock/gmock.h>

#include "daemon/device/adapter/control_clock.hpp"
#include "tests/unit/services/datagram_program.hpp"

namespace softhca::control {
namespace {

constexpr std::uint32_t kVendorClass = 0x32;

configuration::Config config_with(const std::function<void(configuration::Config&)>& change) {
  configuration::Config config = small_config();
  change(config);
  return config;
}

class DatagramClientTest : public testing::Test {
 protected:
  explicit DatagramClientTest(const configuration::Config& config = small_config())
      : daemon(config) {}

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

TEST_F(DatagramClientTest, ControlledQkeyWithoutAClass_Refused) {
  Program program = open(0, number(1)), server = open(1, of_class());
  ASSERT_EQ(program.opened + server.opened, 0);
  EXPECT_EQ(program.send(mad(1)), EPERM) << "of queue pair 2 to queue pair 1";
  Program::Message other = mad(0);
  other.head.qkey = 0x80000001;
  EXPECT_EQ(server.send(other), EPERM) << "the class has another one";
  daemon.reconfigure([](auto& tenant) { tenant.programs.controlled_qkeys = true; });
  EXPECT_EQ(program.send(mad(1)), 0);
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
  daemon.adapter.tenants[0]->control.leaving = true;
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
  EXPECT_THAT(events[0].text, testing::HasSubstr("16 clients, and may have 16"));
}

/// By default, of one tenant, on queue pair 2: 16 clients, 256 buffers, datagrams of 256 bytes.
TEST_F(DatagramClientTest, SixteenClientsWithANumberHaveDatagramsOf256Bytes) {
  std::vector<Program> programs;
  for (std::uint32_t i = 0; i < 16; ++i) {
    programs.push_back(open(0, number(i)));
    ASSERT_EQ(programs.back().opened, 0) << i;
    EXPECT_EQ(programs.back().quota, 16u);
  }
  EXPECT_EQ(open(0, number(16)).opened, EDQUOT);
  Program from = open(1, number(1));
  Program::Message message = mad(0);
  message.head.qpn = abi::kProgramQpn;
  message.head.qkey = abi::kProgramQkey;
  message.payload.fill(std::byte{0xa5});
  std::fill_n(message.payload.begin(), engine::kSelectorBytes, std::byte{0});
  for (std::uint32_t i = 0; i < 16; ++i) {
    message.payload[engine::kSelectorBytes - 1] = std::byte(i);
    ASSERT_EQ(from.send(message), 0);
    ASSERT_TRUE(eventually([&] { return programs[i].readable(); })) << i;
    Program::Message got;
    EXPECT_EQ(programs[i].take(&got), abi::DatagramEvent::kReceived);
    EXPECT_EQ(got.head.bytes, 256u);
    EXPECT_EQ(got.payload, message.payload);
  }
  std::vector<std::byte> longer(sizeof message + 1), reply;
  message.head.bytes = 257;
  std::memcpy(longer.data(), &message, sizeof message);
  ASSERT_TRUE(from.send(Operation::kSendDatagram, longer));
  EXPECT_EQ(from.receive(reply), EINVAL);
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
      : DatagramClientTest(config_with([](configuration::Config& config) {
          config.general_services.fixed.send_rate = 1;
          config.general_services.fixed.send_burst = 10;
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
      : DatagramClientTest(config_with([](configuration::Config& config) {
          config.general_services.buffers_per_client = 2;
          config.general_services.fixed.window_ms = 10;
          config.general_services.fixed.probation_ms = 0;
          config.general_services.fixed.raise_after = 1;
          config.general_services.fixed.send_rate = 0;
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
