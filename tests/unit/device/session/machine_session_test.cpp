// SPDX-License-Identifier: Apache-2.0

// Sessions of programs in a virtual machine: their memory is in the machine's region.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>

#include "daemon/tenant_memory/proxy_area.hpp"
#include "tests/unit/device/session/session_restart.hpp"

namespace softhca::control {
namespace {

constexpr std::uint64_t kBytes = 32 << 20, kBegin = 2 << 20;

struct PlacedHello {
  abi::HelloReply hello;
  abi::MemoryPlaces places;
};
struct PlacedCq {
  abi::CreateCqReply cq;
  abi::MemoryPlaces places;
};

class MachineSession : public SessionRestart {
 protected:
  MachineSession() { configure(); }
  ~MachineSession() override {
    if (region != MAP_FAILED) ::munmap(region, kBytes);
  }

  void configure(std::uint64_t bytes = kBytes) {
    life->daemon.reconfigure([&](auto& tenant) { tenant.programs.guest_memory = bytes; });
  }
  Client& connect_only() {
    Client& client = *clients.emplace_back(std::make_unique<Client>(life->daemon));
    client.keep();
    return client;
  }
  int take(Client& monitor, abi::TakeMachineReply* reply = nullptr) {
    EXPECT_TRUE(monitor.send(Operation::kTakeMachine, {}));
    std::vector<std::byte> body;
    const int error = monitor.receive(body);
    if (error != 0) return error;
    if (reply != nullptr) std::memcpy(reply, body.data(), sizeof *reply);
    monitor.keep_descriptors();
    return 0;
  }
  /// A monitor that has mapped the region and started the machine.
  Client& run_machine(std::uint32_t seal = 1) {
    Client& monitor = connect_only();
    abi::TakeMachineReply taken{};
    EXPECT_EQ(take(monitor, &taken), 0);
    EXPECT_EQ(taken.bytes, kBytes);
    region = static_cast<std::byte*>(
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, monitor.kept(0), 0));
    EXPECT_NE(region, MAP_FAILED);
    EXPECT_EQ(
        monitor.ask(Operation::kStartMachine, abi::StartMachineRequest{kBegin, seal, 0}, &started),
        0);
    monitor.keep_descriptors();
    return monitor;
  }
  int greet(Client& client, PlacedHello* reply = nullptr) {
    PlacedHello out{};
    const int error = client.ask(
        Operation::kHello, abi::HelloRequest{abi::kSessionMagic, {abi::kAbiVersion, 0}}, &out);
    client.keep_descriptors();
    if (reply != nullptr) *reply = out;
    return error;
  }
  Client& greeted(PlacedHello* reply = nullptr) {
    Client& client = connect_only();
    EXPECT_EQ(greet(client, reply), 0) << client.why();
    return client;
  }
  template <class T>
  T* at(std::uint64_t offset) {
    return reinterpret_cast<T*>(region + kBegin + offset);
  }
  /// Registers bytes of the region.
  int register_at(Client& client, std::uint32_t pd, std::uint64_t offset, std::uint64_t length,
                  abi::RegisterMrReply* reply = nullptr) {
    client.offers = false;
    constexpr std::uint64_t kAddress = 0x10000000;
    const struct {
      abi::RegisterMrRequest head;
      abi::MrExtent extent;
    } request{{kAddress, length, 0, memory::kLocalWrite, pd, 1, 0},
              {kAddress, length, offset % abi::kPageBytes,
               static_cast<std::uint32_t>(offset / abi::kPageBytes), 1}};
    return client.ask(Operation::kRegisterMr, request, reply);
  }

  std::byte* region = static_cast<std::byte*>(MAP_FAILED);
  abi::StartMachineReply started{};
};

TEST_F(MachineSession, MemoryOfASessionIsInTheRegion) {
  run_machine();
  PlacedHello first{}, second{};
  Client& client = greeted(&first);
  greeted(&second);
  EXPECT_EQ(first.places.vcbs.offset, 0u) << "the region begins with VCB pages";
  EXPECT_EQ(second.places.vcbs.offset, 64u * abi::kPageBytes);
  EXPECT_EQ(first.places.memory.bytes, abi::kVcbOffset);
  const auto* header = at<abi::SessionHeader>(first.places.memory.offset);
  EXPECT_EQ(header->magic, abi::kSessionMagic);
  EXPECT_EQ(header->vcbs, 64u);

  PlacedCq made{};
  ASSERT_EQ(client.ask(Operation::kCreateCq, abi::CreateCqRequest{5, 100, abi::kNoHandle}, &made),
            0);
  EXPECT_EQ(made.cq.new_segment, 1u);
  EXPECT_GE(made.places.memory.bytes, made.cq.ring.offset + made.cq.ring.bytes);
  EXPECT_LE(made.places.memory.offset + made.places.memory.bytes, started.shared.offset);
  const auto segment = client.take_descriptors();
  struct stat theirs {
  }, regions{};
  ASSERT_EQ(::fstat(segment.at(0).get(), &theirs), 0);
  ASSERT_EQ(::fstat(clients[0]->kept(0), &regions), 0);
  EXPECT_EQ(theirs.st_ino, regions.st_ino);
}

TEST_F(MachineSession, RegionIsSealed_WhenTheMonitorHasMappedIt) {
  Client& monitor = run_machine();
  EXPECT_TRUE(SealedMemory::has_sealed_holes(monitor.kept(0)));
  EXPECT_EQ(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, monitor.kept(0), 0),
            MAP_FAILED);
}

TEST_F(MachineSession, UnsealedRegionIsForProcessesWithTheDaemonsRights) {
  run_machine(0);
  EXPECT_EQ(greet(connect_only()), 0);
  Client other(life->daemon, 0, ::getuid() + 1);
  EXPECT_EQ(other.greet(), EACCES);
}

TEST_F(MachineSession, ProgramsWaitUntilTheMachineHasStarted) {
  Client& program = connect_only();
  EXPECT_EQ(program.greet(), ENODEV);
  EXPECT_NE(program.why().find("softhca-run --guest"), std::string::npos) << program.why();
  Client& monitor = connect_only();
  ASSERT_EQ(take(monitor), 0);
  EXPECT_EQ(program.greet(), EAGAIN);
  ASSERT_EQ(monitor.ask(Operation::kStartMachine, abi::StartMachineRequest{kBegin, 1, 0}, &started),
            0);
  EXPECT_EQ(greet(program), 0);
}

TEST_F(MachineSession, MachineHasOneMonitor_AndAnotherAfterItHasEnded) {
  Client& monitor = run_machine();
  EXPECT_EQ(take(connect_only()), EBUSY);
  EXPECT_EQ(take(monitor), EBUSY);
  PlacedHello hello{};
  Client& program = greeted(&hello);
  const std::uint64_t with_one = life->in_use(Kind::kSharedBytes);
  EXPECT_EQ(with_one, kBytes);
  monitor.end();
  EXPECT_EQ(connect_only().greet(), ENODEV);
  Client& next = connect_only();
  EXPECT_EQ(take(next), 0);
  EXPECT_EQ(life->in_use(Kind::kSharedBytes), 2 * kBytes) << "a program keeps the earlier region";
  EXPECT_EQ(end(program, Operation::kQueryDevice, 0), 0);
  program.end();
  life->finish_calls();
  EXPECT_EQ(life->in_use(Kind::kSharedBytes), kBytes);
}

TEST_F(MachineSession, BadRequestsOfMonitorsAreRefused) {
  configure(0);
  EXPECT_EQ(take(connect_only()), EOPNOTSUPP);
  configure();
  Client& monitor = connect_only();
  const auto start = [&](std::uint64_t begin, std::uint32_t seal) {
    return monitor.ask(Operation::kStartMachine, abi::StartMachineRequest{begin, seal, 0},
                       &started);
  };
  EXPECT_EQ(start(0, 0), EINVAL) << "it has no machine";
  ASSERT_EQ(take(monitor), 0);
  EXPECT_EQ(start(4095, 0), EINVAL);
  EXPECT_EQ(start(kBytes, 0), EINVAL);
  EXPECT_EQ(start(0, 2), EINVAL);
  EXPECT_EQ(start(kBegin, 0), 0);
  EXPECT_EQ(start(kBegin, 0), EALREADY);
  EXPECT_FALSE(monitor.send(Operation::kHello, {})) << "it is that of a monitor";
  Client& program = greeted();
  EXPECT_EQ(program.ask(Operation::kAllocShared, abi::AllocSharedRequest{4096}), EOPNOTSUPP);
  EXPECT_FALSE(program.send(Operation::kTakeMachine, {})) << "it is that of a session";
}

TEST_F(MachineSession, RegionsHaveOnlyBytesOfTheSharedPart) {
  run_machine();
  Client& client = greeted();
  const auto pd = made(client, Operation::kAllocPd, abi::HandleBody{}).handle;
  abi::RegisterMrReply reply{};
  const auto [begin, bytes] = started.shared;
  ASSERT_EQ(register_at(client, pd, begin + 5000, 100, &reply), 0);
  std::strcpy(at<char>(begin + 5000), "shared");
  EXPECT_EQ(read(reply.lkey, 0, 6), "shared");
  EXPECT_EQ(register_at(client, pd, begin, bytes), 0) << "all of it";
  EXPECT_EQ(register_at(client, pd, begin - 1, 2), EINVAL) << "rings";
  EXPECT_EQ(register_at(client, pd, begin + bytes - 1, 2), EINVAL) << "beyond the end";
  EXPECT_EQ(register_at(client, pd, 0, 4096), EINVAL) << "VCBs";
}

TEST_F(MachineSession, MemoryOutsideTheRegion_HasANumberForTheAgent) {
  Client& monitor = run_machine();
  const auto offer = [](Client& client) {
    client.offers = false;
    abi::OfferMemoryReply reply{};
    EXPECT_EQ(client.ask(Operation::kOfferMemory, abi::HandleBody{}, &reply), 0) << client.why();
    EXPECT_EQ(client.descriptors(), 0u);
    return reply.memory;
  };
  Client& one = greeted();
  EXPECT_EQ(offer(one), 1u);
  EXPECT_EQ(offer(greeted()), 2u);
  const auto pd = made(one, Operation::kAllocPd, abi::HandleBody{}).handle;
  const struct {
    abi::RegisterMrRequest head;
    abi::MrExtent extent;
  } request{{4096, 100, 4096, memory::kLocalWrite, pd, 1, 0}, {4096, 100, 0, 0, 0}};
  const auto mr = made<abi::RegisterMrReply>(one, Operation::kRegisterMr, request);
  EXPECT_EQ(read(mr.lkey, 0, 1), "refused") << "no agent answers";
  auto* const area = at<memory::ProxyArea>(started.proxy.offset);
  area->done.store(area->asked);  // the agent comes late
  const int bell = monitor.last_kept();
  abi::MachineBell record{};
  EXPECT_EQ(::recv(bell, &record, sizeof record, MSG_DONTWAIT), sizeof record);
  EXPECT_EQ(record.ended, 0u);

  restart();
  configure();
  EXPECT_EQ(offer(greeted()), 3u) << "no number is given twice";
  clients.back()->end();
  while (::recv(bell, &record, sizeof record, MSG_DONTWAIT) == sizeof record && record.ended != 3) {
  }
  EXPECT_EQ(record.ended, 3u) << "the agent closes it";
}

TEST_F(MachineSession, OutlivesTheAdapter) {
  run_machine();
  PlacedHello hello{};
  Client& client = greeted(&hello);
  PlacedCq cq{};
  ASSERT_EQ(client.ask(Operation::kCreateCq, abi::CreateCqRequest{5, 100, abi::kNoHandle}, &cq), 0);
  client.keep_descriptors();
  const auto pd = made(client, Operation::kAllocPd, abi::HandleBody{}).handle;
  abi::RegisterMrReply mr{};
  ASSERT_EQ(register_at(client, pd, started.shared.offset, 4096, &mr), 0);
  const auto in_use = life->all_in_use();
  for (const char* text : {"first", "again"}) {
    restart();
    configure();
    EXPECT_EQ(life->all_in_use(), in_use);
    std::strcpy(at<char>(started.shared.offset), text);
    EXPECT_EQ(read(mr.lkey, 0, 5), text);
    EXPECT_NE(second().vcb_holder().session, nullptr) << "the engine reads its memory";
  }
  PlacedHello later{};
  greeted(&later);
  EXPECT_EQ(later.places.vcbs.offset, 64u * abi::kPageBytes) << "the first places are taken";
  EXPECT_NE(later.places.memory.offset, hello.places.memory.offset);
  EXPECT_EQ(take(connect_only()), EBUSY) << "the monitor is still there";
  EXPECT_EQ(end(second(), Operation::kDestroyCq, cq.cq.handle), 0);
  expect_nothing_is_left();
}

}  // namespace
}  // namespace softhca::control
