// SPDX-License-Identifier: Apache-2.0

// What one tenant may take, and that it is no more, whatever its programs do.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

using configuration::Kind;

class LimitsTest : public ::testing::Test {
 protected:
  LimitsTest() { EXPECT_EQ(client.greet(), 0); }
  ~LimitsTest() {
    client.end();
    other.end();
    configuration::for_each_kind([&](Kind kind) {
      EXPECT_EQ(mine.in_use(kind), 0u) << configuration::name_of(kind);
      EXPECT_EQ(daemon.adapter.totals.in_use(kind), 0u) << configuration::name_of(kind);
    });
    EXPECT_EQ(daemon.engine.keys().size(), 0u);
  }

  /// Makes objects until one is refused. Returns how many there were.
  int make_until_refused(const std::function<int()>& make) {
    for (int count = 0; count < 1000; ++count)
      if (const int error = make(); error != 0) {
        EXPECT_EQ(error, ENOMEM);
        return count;
      }
    return -1;
  }
  /// Sets a limit of `room` beyond what is in use, and expects so many to be made, the refusal
  /// to be counted, and another tenant to get on.
  void expect_limit(Kind kind, const std::function<int(Client&)>& make) {
    SCOPED_TRACE(configuration::name_of(kind));
    mine.set_limit(kind, mine.in_use(kind) + 3);
    const std::uint64_t refused = mine.refused(kind);
    EXPECT_EQ(make_until_refused([&] { return make(client); }), 3);
    EXPECT_EQ(mine.refused(kind), refused + 1);
    EXPECT_EQ(mine.in_use(kind), mine.limit(kind));
    mine.set_limit(kind, 1);  // less than there is: nothing is lost, and no more is given
    EXPECT_EQ(make(client), ENOMEM);
    mine.set_limit(kind, mine.in_use(kind) + 1);
    EXPECT_EQ(make(client), 0);
    mine.set_limit(kind, daemon.config.tenants[0].limits[kind]);
  }

  std::uint32_t shared(Client& of, std::uint64_t bytes, int* error = nullptr) {
    abi::AllocSharedReply reply{};
    const int code = of.ask(Operation::kAllocShared, abi::AllocSharedRequest{bytes}, &reply);
    if (error != nullptr) *error = code;
    return reply.handle;
  }
  struct Registration {
    abi::RegisterMrRequest head;
    abi::MrExtent extent;
  };
  Registration registration(std::uint32_t pd, std::uint64_t bytes, std::uint32_t handle = 0) {
    const std::uint64_t addr = std::uint64_t{1} << 40;
    return {{addr, bytes, addr, 1, pd, 1, 0}, {addr, bytes, 0, handle, handle == 0 ? 0u : 1u}};
  }
  abi::CreateQpRequest qp_request(std::uint32_t pd, std::uint32_t cq, std::uint32_t wr = 4) {
    return {.pd = pd,
            .type = 2,
            .send_cq = cq,
            .receive_cq = cq,
            .srq = abi::kNoHandle,
            .max_send_wr = wr,
            .max_receive_wr = 4,
            .max_send_sge = 1,
            .max_receive_sge = 1};
  }
  std::uint32_t make_cq(Client& of) {
    abi::CreateCqReply reply{};
    EXPECT_EQ(of.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 10, abi::kNoHandle}, &reply), 0);
    return reply.handle;
  }

  Daemon daemon;
  configuration::Accounts& mine = daemon.adapter.tenants[0]->control.accounts;
  Client client{daemon};
  Client other{daemon, 1};
};

TEST_F(LimitsTest, OfObjects) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  const std::uint32_t cq = make_cq(client);
  expect_limit(Kind::kProtectionDomains,
               [](Client& c) { return c.ask(Operation::kAllocPd, abi::HandleBody{}); });
  expect_limit(Kind::kCompletionQueues, [](Client& c) {
    return c.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 10, abi::kNoHandle});
  });
  // The pool of these is 4, and one more than the limit is tried.
  mine.set_limit(Kind::kSharedReceiveQueues, 2);
  EXPECT_EQ(make_until_refused([&] {
              return client.ask(Operation::kCreateSrq, abi::CreateSrqRequest{1, pd, 10, 1, 0});
            }),
            2);
  expect_limit(Kind::kQueuePairs,
               [&](Client& c) { return c.ask(Operation::kCreateQp, qp_request(pd, cq)); });
  expect_limit(Kind::kMemoryRegions,
               [&](Client& c) { return c.ask(Operation::kRegisterMr, registration(pd, 100)); });
  expect_limit(Kind::kMemoryWindows, [&](Client& c) {
    return c.ask(Operation::kAllocWindow, abi::AllocWindowRequest{pd, 2});
  });
  expect_limit(Kind::kDescriptors, [](Client& c) {
    const int error = c.ask(Operation::kCreateChannel, abi::HandleBody{});
    c.keep_descriptors();
    return error;
  });
  expect_limit(Kind::kMappings, [](Client& c) {
    return c.ask(Operation::kAllocShared, abi::AllocSharedRequest{abi::kPageBytes});
  });
  abi::CreateAhRequest ah{.pd = pd, .av = {.is_global = 1, .port_num = 1}};
  std::memcpy(ah.av.dgid, daemon.config.tenants[0].addresses[0].bytes.data(), 16);
  expect_limit(Kind::kAddressHandles, [&](Client& c) { return c.ask(Operation::kCreateAh, ah); });
  EXPECT_EQ(other.greet(), 0) << "another tenant";
  const std::uint32_t its_pd = other.make(Operation::kAllocPd);
  EXPECT_EQ(other.ask(Operation::kCreateQp, qp_request(its_pd, make_cq(other))), 0);
  EXPECT_EQ(other.ask(Operation::kRegisterMr, registration(its_pd, 100)), 0);
}

TEST_F(LimitsTest, OfSessionsAreToldAtTheGreeting) {
  mine.set_limit(Kind::kSessions, 2);
  Client second(daemon);
  Client third(daemon);
  EXPECT_EQ(second.greet(), 0);
  EXPECT_EQ(third.greet(), ENOMEM);
  EXPECT_EQ(other.greet(), 0);
  second.end();
  EXPECT_EQ(third.greet(), 0) << "and may try again";
}

TEST_F(LimitsTest, WhatIsDestroyedIsGivenBackOnce) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  abi::CreateQpReply qp{};
  ASSERT_EQ(client.ask(Operation::kCreateQp, qp_request(pd, make_cq(client)), &qp), 0);
  abi::RegisterMrReply mr{};
  ASSERT_EQ(client.ask(Operation::kRegisterMr, registration(pd, 5000), &mr), 0);
  EXPECT_EQ(mine.in_use(Kind::kQueuePairs), 1u);
  EXPECT_EQ(mine.in_use(Kind::kRegisteredBytes), 5000u);
  for (int i = 0; i < 2; ++i) {
    client.ask(Operation::kDestroyQp, abi::HandleBody{qp.qpn, 0});
    client.ask(Operation::kDeregisterMr, abi::HandleBody{mr.handle, 0});
    EXPECT_EQ(mine.in_use(Kind::kQueuePairs), 0u);
    EXPECT_EQ(mine.in_use(Kind::kMemoryRegions), 0u);
    EXPECT_EQ(mine.in_use(Kind::kRegisteredBytes), 0u);
  }
}

TEST_F(LimitsTest, WhatFailsTakesNothing) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  const std::uint32_t cq = make_cq(client);
  const configuration::Kind kinds[] = {Kind::kQueuePairs,     Kind::kQueueBytes,
                                       Kind::kMemoryRegions,  Kind::kRegisteredBytes,
                                       Kind::kAddressHandles, Kind::kMappings};
  std::vector<std::uint64_t> before;
  for (const Kind kind : kinds) before.push_back(mine.in_use(kind));
  mine.set_limit(Kind::kQueueBytes, mine.in_use(Kind::kQueueBytes) + 100);
  EXPECT_EQ(client.ask(Operation::kCreateQp, qp_request(pd, cq)), ENOMEM) << "no ring";
  mine.set_limit(Kind::kQueueBytes, 1 << 30);
  auto bad = registration(pd, 100);
  bad.extent.length = 99;
  EXPECT_EQ(client.ask(Operation::kRegisterMr, bad), EINVAL);
  mine.set_limit(Kind::kRegisteredBytes, 99);
  EXPECT_EQ(client.ask(Operation::kRegisterMr, registration(pd, 100)), ENOMEM);
  EXPECT_EQ(client.ask(Operation::kRegisterMr, registration(pd, ~std::uint64_t{0} >> 1)), ENOMEM);
  EXPECT_EQ(client.ask(Operation::kCreateAh, abi::CreateAhRequest{.pd = pd}), EINVAL);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(mine.in_use(kinds[i]), before[i]) << configuration::name_of(kinds[i]);
}

TEST_F(LimitsTest, TheTotalOfTheAdapterHolds) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  daemon.adapter.totals.set_limit(Kind::kMemoryRegions, 1);
  EXPECT_EQ(client.ask(Operation::kRegisterMr, registration(pd, 100)), 0);
  EXPECT_EQ(client.ask(Operation::kRegisterMr, registration(pd, 100)), ENOMEM);
  EXPECT_EQ(mine.refused(Kind::kMemoryRegions), 0u);
  EXPECT_EQ(mine.refused_by_whole(Kind::kMemoryRegions), 1u);
}

/// The daemon itself keeps nothing for the entries: requests under way lie by their PCBs.
TEST_F(LimitsTest, OfQueueMemoryCountTheRings) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  const std::uint32_t cq = make_cq(client);
  const std::uint64_t before = mine.in_use(Kind::kQueueBytes);
  ASSERT_EQ(client.ask(Operation::kCreateQp, qp_request(pd, cq, 4096)), 0);
  EXPECT_GE(mine.in_use(Kind::kQueueBytes) - before, 4096 * abi::kCommandHeaderBytes);
}

/// And what the daemon counts for each buffer of a shared receive queue, when it has limits.
TEST_F(LimitsTest, OfQueueMemoryCountTheAccountsOfSharedReceiveQueues) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  const abi::CreateSrqRequest request{.pd = pd, .max_wr = 4096, .max_sge = 1};
  const std::uint64_t both =
      shm::ReceiveRing::bytes_for(4096, 1) + receive::Provisioner::bytes_for(4096);
  const std::uint64_t before = mine.in_use(Kind::kQueueBytes);
  ASSERT_EQ(client.ask(Operation::kCreateSrq, request), 0);
  EXPECT_GE(mine.in_use(Kind::kQueueBytes) - before, both);
  mine.set_limit(Kind::kQueueBytes, mine.in_use(Kind::kQueueBytes) + both - 1);
  const std::uint64_t after = mine.in_use(Kind::kQueueBytes);
  EXPECT_EQ(client.ask(Operation::kCreateSrq, request), ENOMEM);
  EXPECT_EQ(mine.in_use(Kind::kQueueBytes), after);
}

/// The old ring and its accounts count until the new ones are there, and not after.
TEST_F(LimitsTest, OfQueueMemoryHoldForResizedSharedReceiveQueues) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  const std::uint64_t before = mine.in_use(Kind::kQueueBytes);
  abi::CreateSrqReply made{};
  ASSERT_EQ(client.ask(Operation::kCreateSrq,
                       abi::CreateSrqRequest{.pd = pd, .max_wr = 64, .max_sge = 1}, &made),
            0);
  const auto bytes = [](std::uint32_t entries) {
    return shm::ReceiveRing::bytes_for(entries, 1) + receive::Provisioner::bytes_for(entries);
  };
  const auto resize = [&](std::uint32_t max_wr) {
    abi::CreateSrqReply reply{};
    const abi::ResizeSrqRequest request{made.handle, max_wr, 0, 0};
    int error = client.ask(Operation::kResizeSrq, request, &reply);
    if (error == 0 && reply.handle == abi::kNoHandle)
      error = client.ask(Operation::kResizeSrq, request, &reply);
    return error;
  };
  const std::uint64_t small = mine.in_use(Kind::kQueueBytes) - before;
  EXPECT_GE(small, bytes(64));
  ASSERT_EQ(resize(4096), 0);
  EXPECT_GE(mine.in_use(Kind::kQueueBytes) - before, bytes(4096));
  mine.set_limit(Kind::kQueueBytes, mine.in_use(Kind::kQueueBytes) + bytes(8192) - 1);
  EXPECT_EQ(resize(8192), ENOMEM);
  EXPECT_GE(mine.in_use(Kind::kQueueBytes) - before, bytes(4096));
  abi::QuerySrqReply query{};
  ASSERT_EQ(client.ask(Operation::kQuerySrq, abi::HandleBody{made.handle, 0}, &query), 0);
  EXPECT_EQ(query.max_wr, 4096u);
  ASSERT_EQ(resize(64), 0);
  EXPECT_EQ(mine.in_use(Kind::kQueueBytes) - before, small);
}

/// The table of a region's pieces counts as queue memory until the region has a single piece.
TEST_F(LimitsTest, OfQueueMemoryCountThePiecesOfRegions) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  constexpr std::uint64_t kAt = std::uint64_t{1} << 40;
  struct {
    abi::RegisterMrRequest head{kAt, 300, kAt, 1, 0, 3, 0};
    abi::MrExtent extents[3]{
        {kAt, 100, 0, 0, 0}, {kAt + 100, 100, 0, 0, 0}, {kAt + 200, 100, 0, 0, 0}};
  } in_three;
  in_three.head.pd = pd;
  const std::uint64_t before = mine.in_use(Kind::kQueueBytes);
  abi::RegisterMrReply mr{};
  ASSERT_EQ(client.ask(Operation::kRegisterMr, in_three, &mr), 0);
  const std::uint64_t pieces = mine.in_use(Kind::kQueueBytes) - before;
  EXPECT_GE(pieces, 2 * sizeof(memory::Extent));
  mine.set_limit(Kind::kQueueBytes, before + 2 * pieces - 1);
  EXPECT_EQ(client.ask(Operation::kRegisterMr, in_three), ENOMEM);
  EXPECT_EQ(client.ask(Operation::kRegisterMr, registration(pd, 100)), 0) << "one piece is free";

  struct {
    abi::ReregisterMrRequest head{};
    abi::MrExtent extent{kAt, 100, 0, 0, 0};
  } moved;
  moved.head = {mr.handle, 1, {kAt, 100, kAt, 0, 0, 1, 0}};
  ASSERT_EQ(client.ask(Operation::kReregisterMr, moved), 0);
  EXPECT_EQ(mine.in_use(Kind::kQueueBytes), before);
}

TEST_F(LimitsTest, ShowInTheAttributesOfTheDevice) {
  mine.set_limit(Kind::kQueuePairs, 33);
  mine.set_limit(Kind::kCompletionQueues, 7);
  mine.set_limit(Kind::kSharedReceiveQueues, 3);
  mine.set_limit(Kind::kMemoryRegions, 44);
  mine.set_limit(Kind::kRegisteredBytes, 4711);
  mine.set_limit(Kind::kProtectionDomains, 5);
  mine.set_limit(Kind::kAddressHandles, ~std::uint64_t{0});
  abi::DeviceReply device{};
  ASSERT_EQ(client.ask(Operation::kQueryDevice, abi::HandleBody{}, &device), 0);
  EXPECT_EQ(device.max_qp, 33u);
  EXPECT_EQ(device.max_cq, 7u);
  EXPECT_EQ(device.max_srq, 3u);
  EXPECT_EQ(device.max_mr, 44u);
  EXPECT_EQ(device.max_mr_size, 4711u);
  EXPECT_EQ(device.max_pd, 5u);
  EXPECT_EQ(device.max_ah, 0x7fffffffu);
}

TEST_F(LimitsTest, RegisteringMakesNoPages) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  constexpr std::uint64_t kBytes = 64 << 20;
  const std::uint32_t handle = shared(client, kBytes);
  const UniqueFd memory(::dup(client.descriptor(0)));
  const auto pages = [&] {
    struct stat found {};
    EXPECT_EQ(::fstat(memory.get(), &found), 0);
    return found.st_blocks * 512 / 4096;
  };
  ASSERT_EQ(client.ask(Operation::kRegisterMr, registration(pd, kBytes, handle)), 0);
  EXPECT_EQ(pages(), 0);
  EXPECT_GT(client.turns, 1u) << "others are served meanwhile";

  // Extents beyond the region are refused before anything is done about them.
  auto request = registration(pd, 4096, handle);
  request.extent.length = kBytes;
  EXPECT_EQ(client.ask(Operation::kRegisterMr, request), EINVAL);
  EXPECT_EQ(pages(), 0);
}

/// Nor grow; when it is registered it is also sealed against holes.
TEST_F(LimitsTest, SharedMemoryCannotBeCutOff) {
  shared(client, 1 << 20);
  const int memory = client.descriptor(0);
  EXPECT_EQ(::ftruncate(memory, 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fcntl(memory, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW);
}

TEST_F(LimitsTest, OfSharedBytesLastAsLongAsTheMapping) {
  mine.set_limit(Kind::kSharedBytes, 3 * abi::kPageBytes);
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  const std::uint32_t handle = shared(client, 2 * abi::kPageBytes);
  const std::uint64_t mappings = mine.in_use(Kind::kMappings);
  abi::RegisterMrReply mr{};
  ASSERT_EQ(client.ask(Operation::kRegisterMr, registration(pd, 2 * abi::kPageBytes, handle), &mr),
            0);
  int error = 0;
  shared(client, 2 * abi::kPageBytes, &error);
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(client.ask(Operation::kFreeShared, abi::HandleBody{handle, 0}), 0);
  EXPECT_EQ(mine.in_use(Kind::kSharedBytes), 2u * abi::kPageBytes) << "the region uses it";
  EXPECT_EQ(mine.in_use(Kind::kMappings), mappings);
  EXPECT_EQ(client.ask(Operation::kDeregisterMr, abi::HandleBody{mr.handle, 0}), 0);
  EXPECT_EQ(mine.in_use(Kind::kSharedBytes), 0u);
  EXPECT_EQ(mine.in_use(Kind::kMappings), mappings - 1);
}

/// By another thread; it counts as nothing meanwhile, up to as much again as there may be.
TEST_F(LimitsTest, MemoryIsUnmappedLater) {
  constexpr std::uint64_t kBytes = 1 << 20;
  mine.set_limit(Kind::kSharedBytes, kBytes);
  mine.set_limit(Kind::kQueueBytes, 3 * kBytes);
  const engine::TenantControl& control = daemon.adapter.tenants[0]->control;
  client.make(Operation::kAllocPd);  // what greeting brought is sealed
  std::promise<void> held;
  daemon.adapter.blocking_calls.make(daemon.adapter.tenants[0]->name,
                                     [&] { held.get_future().wait(); });
  for (std::uint64_t unmapping = 0; unmapping <= 4 * kBytes; unmapping += kBytes) {
    EXPECT_EQ(control.unmapping_bytes, unmapping);
    const std::uint32_t handle = shared(client, kBytes);
    ASSERT_EQ(client.ask(Operation::kFreeShared, abi::HandleBody{handle, 0}), 0);
    EXPECT_EQ(mine.in_use(Kind::kSharedBytes), 0u);
  }
  const abi::AllocSharedRequest more{kBytes};
  client.put(Operation::kAllocShared, std::as_bytes(std::span(&more, 1)));
  ASSERT_TRUE(client.serve_once());
  EXPECT_TRUE(client.session().is_waiting()) << "as much as that is not unmapped yet";
  EXPECT_EQ(mine.in_use(Kind::kSharedBytes), 0u);
  held.set_value();
  client.wait_for_calls();
  ASSERT_TRUE(client.serve());
  std::vector<std::byte> body;
  EXPECT_EQ(client.receive(body), 0);
  EXPECT_EQ(mine.in_use(Kind::kSharedBytes), kBytes);
  while (control.unmapping_bytes != 0) {
    pollfd look{daemon.adapter.blocking_calls.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&look, 1, 60'000), 1);
    daemon.adapter.blocking_calls.finish();
  }
  EXPECT_EQ(control.unmapping_mappings, 0u);
}

TEST_F(LimitsTest, ARingInASegmentWithRoomTakesNoMapping) {
  make_cq(client);
  mine.set_limit(Kind::kMappings, mine.in_use(Kind::kMappings));
  make_cq(client);
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  EXPECT_EQ(client.ask(Operation::kCreateQp, qp_request(pd, make_cq(client))), 0);
}

TEST_F(LimitsTest, SegmentsWithoutRingsGiveTheirMappingsBack) {
  const std::uint64_t before = mine.in_use(Kind::kMappings);
  std::vector<std::uint32_t> cqs;
  abi::CreateCqReply cq{};
  for (int i = 0; i < 8; ++i) {  // too large for one segment
    ASSERT_EQ(client.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 60000, abi::kNoHandle}, &cq),
              0);
    cqs.push_back(cq.handle);
  }
  EXPECT_GE(mine.in_use(Kind::kMappings), before + 4);
  for (const std::uint32_t handle : cqs)
    ASSERT_EQ(client.ask(Operation::kDestroyCq, abi::HandleBody{handle, 0}), 0);
  EXPECT_EQ(mine.in_use(Kind::kMappings), before + 1) << "one is kept for rings to come";
  mine.set_limit(Kind::kMappings, before + 1);
  EXPECT_EQ(Client(daemon).greet(), 0) << "until a process lacks it";
  EXPECT_EQ(mine.in_use(Kind::kMappings), before);
  ASSERT_EQ(client.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 10, abi::kNoHandle}, &cq), 0);
  EXPECT_EQ(cq.new_segment, 1u);
}

TEST_F(LimitsTest, IdleMemoryKeepsNobodyFromMappings) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  std::vector<std::uint32_t> handles;
  for (int i = 0; i < 4; ++i) {
    handles.push_back(shared(client, abi::kPageBytes));
    abi::RegisterMrReply mr{};
    ASSERT_EQ(
        client.ask(Operation::kRegisterMr, registration(pd, abi::kPageBytes, handles[i]), &mr), 0);
    const int error =
        i == 1 ? 0 : client.ask(Operation::kDeregisterMr, abi::HandleBody{mr.handle, 0});
    ASSERT_EQ(error, 0);
  }
  mine.set_limit(Kind::kMappings, mine.in_use(Kind::kMappings));
  Client second(daemon);
  EXPECT_EQ(second.greet(), 0);
  EXPECT_EQ(second.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 10, abi::kNoHandle}), 0);
  EXPECT_EQ(client.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 10, abi::kNoHandle}), 0);
  EXPECT_EQ(second.ask(Operation::kAllocShared, abi::AllocSharedRequest{abi::kPageBytes}), ENOMEM)
      << "what is registered stays";
  EXPECT_EQ(mine.refused(Kind::kMappings), 1u);
  // The process is told of what it has lost when it names that.
  for (const std::uint32_t handle : handles)
    EXPECT_EQ(client.ask(Operation::kRegisterMr, registration(pd, abi::kPageBytes, handle)),
              handle == handles[1] ? 0 : ESTALE);
}

TEST_F(LimitsTest, IdleMemoryKeepsNobodyFromSharedBytes) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  mine.set_limit(Kind::kSharedBytes, 4 * abi::kPageBytes);
  const std::uint32_t handle = shared(client, 3 * abi::kPageBytes);
  auto request = registration(pd, 3 * abi::kPageBytes, handle);
  request.extent.length = 1;
  EXPECT_EQ(client.ask(Operation::kRegisterMr, request), EINVAL) << "it is idle all the same";
  int error = 0;
  shared(client, 5 * abi::kPageBytes, &error);
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(mine.in_use(Kind::kSharedBytes), 3u * abi::kPageBytes);
  shared(client, 2 * abi::kPageBytes, &error);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(mine.in_use(Kind::kSharedBytes), 2u * abi::kPageBytes);
}

TEST_F(LimitsTest, MemoryLeavesMappingsToQueuesAndSessions) {
  mine.set_limit(Kind::kMappings, 32);
  EXPECT_EQ(make_until_refused(
                [&] { return client.ask(Operation::kAllocShared, abi::AllocSharedRequest{4096}); }),
            29);  // one has the session, two are left
  make_cq(client);
  EXPECT_EQ(Client(daemon).greet(), 0);
}

TEST_F(LimitsTest, RepliesDoNotPileUp) {
  const abi::HandleBody nothing{};
  const auto body = std::as_bytes(std::span(&nothing, 1));
  EXPECT_TRUE(client.send(Operation::kCreateChannel, body));
  EXPECT_FALSE(client.send(Operation::kCreateChannel, body)) << "the reply before is unread";
}

/// What the daemon locks of its own address space.
std::uint64_t locked_bytes() {
  std::ifstream status("/proc/self/status");
  std::uint64_t kilobytes = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmLck:")) kilobytes = std::stoull(line.substr(6));
  return kilobytes << 10;
}

TEST_F(LimitsTest, LockedMemory_ATenantHasItsPart_MoreIsMappedAndNotLocked) {
  constexpr std::uint64_t kPart = 4 << 20;
  daemon.adapter.lockable = 2 * kPart;  // for two tenants
  const std::uint64_t before = *daemon.adapter.locked, locked_before = locked_bytes();
  std::vector<std::uint32_t> handles;
  for (int i = 0; i < 16; ++i) handles.push_back(shared(client, 1 << 20));
  const std::uint64_t taken = *daemon.adapter.locked;
  EXPECT_GT(taken, before);
  EXPECT_LE(*daemon.adapter.tenants[0]->control.locked, kPart);
  EXPECT_LE(locked_bytes() - locked_before, taken - before);
  for (const std::uint32_t handle : handles)
    EXPECT_EQ(client.ask(Operation::kFreeShared, abi::HandleBody{handle, 0}), 0);
  while (daemon.adapter.blocking_calls.waiting() != 0) std::this_thread::yield();
  EXPECT_EQ(*daemon.adapter.locked, before) << "what is unmapped counts no longer";
}

}  // namespace
}  // namespace softhca::control
