// SPDX-License-Identifier: Apache-2.0

// Requests for shared memory, which the agent answers.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <span>
#include <utility>

#include "abi/session.hpp"
#include "guest/agent/mapped_memory.hpp"
#include "tests/unit/guest/guest_fixture.hpp"

namespace softhca::guest::test {
namespace {

struct Allocated {
  abi::AllocSharedReply reply;
  abi::MemoryPlaces places;
};

class GuestMemory : public GuestTest {
 protected:
  std::optional<ReplyRecord> allocate(const UniqueFd& program, std::uint64_t bytes) {
    const abi::AllocSharedRequest request{bytes};
    return call(program, abi::Operation::kAllocShared, bytes_of(request));
  }
  static Allocated body_of(const ReplyRecord& reply) {
    Allocated body{};
    EXPECT_EQ(reply.body.size(), sizeof body);
    if (reply.body.size() == sizeof body) std::memcpy(&body, reply.body.data(), sizeof body);
    return body;
  }
  int free(const UniqueFd& program, std::uint32_t handle, std::uint32_t flags) {
    const abi::HandleBody request{handle, flags};
    const auto reply = call(program, abi::Operation::kFreeShared, bytes_of(request));
    return reply ? reply->header.error : -1;
  }
  std::uint64_t free_bytes() const { return agent_->clients().free_bytes(); }
};

TEST_F(GuestMemory, Piece_HasAPlaceAndTheRegion) {
  start();
  const Pair pair = connect_pair();
  const auto reply = allocate(pair.program, 8192);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.error, 0);
  EXPECT_EQ(reply->header.tag, 77U);
  EXPECT_EQ(reply->fds.size(), 1U);
  const Allocated got = body_of(*reply);
  EXPECT_EQ(got.places.memory.offset, kShared.offset);
  EXPECT_EQ(got.places.memory.bytes, 8192U);
  EXPECT_EQ(got.reply.handle, kShared.offset / abi::kPageBytes);
  EXPECT_EQ(got.reply.inode, guest_region_->inode());
}

TEST_F(GuestMemory, PieceWithOldContent_IsZeroed) {
  start();
  std::byte* const memory = static_cast<std::byte*>(
      ::mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED, region_.get(), 0));
  memory[kShared.offset + 5000] = std::byte{9};
  const Pair pair = connect_pair();
  ASSERT_TRUE(allocate(pair.program, 8192));
  EXPECT_EQ(memory[kShared.offset + 5000], std::byte{0});
  ::munmap(memory, kRegionBytes);
}

TEST_F(GuestMemory, BadSizes_Refused) {
  start();
  const Pair pair = connect_pair();
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{100}, UINT64_MAX})
    EXPECT_EQ(allocate(pair.program, bytes)->header.error, EINVAL) << bytes;
  EXPECT_EQ(allocate(pair.program, kShared.bytes + 4096)->header.error, ENOMEM);
  EXPECT_EQ(allocate(pair.program, std::uint64_t{1} << 63)->header.error, ENOMEM);
  EXPECT_EQ(call(pair.program, abi::Operation::kAllocShared, {})->header.error, EINVAL);
  EXPECT_EQ(free_bytes(), kShared.bytes);
}

TEST_F(GuestMemory, UnmappedPiece_IsFreeAtOnce) {
  start();
  const Pair pair = connect_pair();
  const Allocated got = body_of(*allocate(pair.program, kShared.bytes));
  EXPECT_EQ(free(pair.program, got.reply.handle + 1, abi::kIsUnmapped), EINVAL);
  EXPECT_EQ(free(pair.program, got.reply.handle, abi::kIsUnmapped), 0);
  EXPECT_EQ(free(pair.program, got.reply.handle, abi::kIsUnmapped), EINVAL);
  EXPECT_EQ(free_bytes(), kShared.bytes);
}

TEST_F(GuestMemory, DeviceIsClosed_PieceStaysWithTheProcess) {
  start();
  {
    Pair pair = connect_pair();
    const Allocated got = body_of(*allocate(pair.program, 4096));
    EXPECT_EQ(free(pair.program, got.reply.handle, 0), 0);
    EXPECT_EQ(free(pair.program, got.reply.handle, abi::kIsUnmapped), EINVAL);
  }
  EXPECT_TRUE(run_until([&] { return agent_->streams() == 0; }));
  EXPECT_EQ(free_bytes(), kShared.bytes - 4096);
}

TEST_F(GuestMemory, ProcessEnds_PieceIsFreeWhenTheSessionHasEnded) {
  start();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto program = connect_to(guest_.path() + "/vm1/socket", SOCK_SEQPACKET);
    const abi::AllocSharedRequest request{4096};
    const auto record = request_record(abi::Operation::kAllocShared, 1, bytes_of(request));
    ::send(program->get(), record.data(), record.size(), 0);
    const auto reply = receive_reply(program->get());
    ::pause();
    ::_exit(0);
  }
  EXPECT_TRUE(run_until([&] { return free_bytes() == kShared.bytes - 4096; }));
  UniqueFd daemon = accept_daemon();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(is_closed(daemon));
  settle();
  EXPECT_EQ(free_bytes(), kShared.bytes - 4096) << "the daemon may still write to it";
  daemon.reset();
  EXPECT_TRUE(run_until([&] { return free_bytes() == kShared.bytes; }));
  EXPECT_EQ(agent_->clients().processes(), 0U);
}

TEST_F(GuestMemory, OperationsThatAMachineLacks_RefusedWithAReason) {
  start();
  const Pair pair = connect_pair();
  for (const auto operation : {abi::Operation::kNameShared, abi::Operation::kJoinShared}) {
    const auto reply = call(pair.program, operation, Bytes(8));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->header.error, EOPNOTSUPP);
    EXPECT_FALSE(reply->body.empty());
    EXPECT_LE(reply->body.size(), abi::kMaxRefusalText);
  }
}

/// A process that maps places of the region.
class Mapping {
 public:
  Mapping(int region, std::span<const abi::MemoryPlace> places) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    child_ = ::fork();
    if (child_ == 0) {
      bool mapped = true;
      for (const abi::MemoryPlace& place : places)
        mapped &= ::mmap(nullptr, place.bytes, PROT_READ, MAP_SHARED, region,
                         static_cast<off_t>(place.offset)) != MAP_FAILED;
      (void)!::write(ready[1], mapped ? "y" : "n", 1);
      ::pause();
      ::_exit(0);
    }
    char answer = 0;
    EXPECT_EQ(::read(ready[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    for (const int end : ready) ::close(end);
  }
  ~Mapping() { end(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  void end() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(std::exchange(child_, 0), nullptr, 0);
  }

 private:
  pid_t child_ = 0;
};

TEST_F(GuestMemory, ProcessMapsMemoryBeforeTheAgentStarts_KeepsIt) {
  const abi::MemoryPlace place{kShared.offset + 4096, 8192};
  Mapping mapping(region_.get(), {&place, 1});
  start();
  EXPECT_EQ(free_bytes(), kShared.bytes - 8192);
  mapping.end();
  EXPECT_TRUE(run_until([&] { return free_bytes() == kShared.bytes; }));
}

TEST_F(GuestMemory, DaemonMapsAllOnTheSameMachine_TakesNothing) {
  const abi::MemoryPlace places[] = {{kShared.offset + 4096, kRegionBytes - kShared.offset - 4096},
                                     {0, kShared.offset + 4096}};
  const Mapping mapping(region_.get(), places);
  start();
  EXPECT_EQ(free_bytes(), kShared.bytes);
}

TEST(MappedMemory, LinesOfOtherFiles_LeftOut) {
  constexpr char kMaps[] =
      "7f0000000000-7f0000002000 rw-s 00103000 00:06 77   /dev/dax0.0\n"
      "7f0000002000-7f0000003000 rw-s 00200000 00:07 77   /dev/dax0.0\n"
      "7f0000003000-7f0000004000 rw-s 00300000 00:06 78   /dev/dax0.1\n"
      "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0    [stack]\n";
  const auto places = places_in(kMaps, makedev(0, 6), 77);
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].offset, 0x103000U);
  EXPECT_EQ(places[0].bytes, 0x2000U);
}

/// The daemon's side of the memory of programs that is not in the region.
class GuestProxy : public GuestMemory {
 protected:
  GuestProxy() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    bell_ = UniqueFd(ends[0]);
    proxy_ = UniqueFd(ends[1]);
    start_reply_.proxy = {kShared.offset + kShared.bytes, kProxyBytes};
    void* const at = ::mmap(nullptr, kProxyBytes, PROT_READ | PROT_WRITE, MAP_SHARED, region_.get(),
                            static_cast<off_t>(start_reply_.proxy.offset));
    EXPECT_NE(at, MAP_FAILED);
    area_ = static_cast<memory::ProxyArea*>(at);
  }
  ~GuestProxy() override { ::munmap(area_, kProxyBytes); }

  /// A program offers its memory, as the provider does. `number`: by which the daemon names it.
  void offer(const Pair& pair, std::uint32_t number) {
    send_record(pair.program.get(),
                request_record(abi::Operation::kOfferMemory, 5, bytes_of(abi::HandleBody{})));
    ASSERT_TRUE(receive(pair.daemon));
    const struct {
      abi::ReplyHeader header;
      abi::OfferMemoryReply body;
    } answer{{5, 0}, {number, 0}};
    send_record(pair.daemon.get(), bytes_of(answer));
    const auto reply = receive(pair.program);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(reply->body.empty());
    ASSERT_EQ(reply->fds.size(), 1u);
    const UniqueFd memory(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
    send_record(reply->fds[0].get(), bytes_of(std::uint8_t{}), {memory.get()});
  }
  /// Asks for an access, as the engine does. Returns whether it succeeded.
  bool access(std::uint32_t memory, memory::ProxyArea::Kind kind, void* at, std::size_t bytes) {
    memory::ProxyArea::Access& access = area_->access[0];
    access.memory = memory;
    access.kind = kind;
    access.ranges = 1;
    access.range[0] = {reinterpret_cast<std::uintptr_t>(at), bytes};
    const std::uint32_t asked = area_->asked + 1;
    area_->asked = asked;
    area_->wake.fetch_add(1);
    send_record(bell_.get(), bytes_of(abi::MachineBell{}));
    EXPECT_TRUE(run_until([&] { return area_->done == asked; }));
    return access.ok != 0;
  }

  static constexpr std::size_t kProxyBytes = 2 << 20;
  UniqueFd bell_;
  memory::ProxyArea* area_ = nullptr;
};

TEST_F(GuestProxy, ReachesMemoryThatAProgramOffers_UntilTheDaemonEndsIt) {
  start();
  const Pair pair = connect_pair();
  offer(pair, 7);
  char text[] = "before";
  ASSERT_TRUE(access(7, memory::ProxyArea::kRead, text, 7));
  EXPECT_STREQ(reinterpret_cast<char*>(area_->bytes[0].data()), "before");
  std::memcpy(area_->bytes[0].data(), "behind", 7);
  ASSERT_TRUE(access(7, memory::ProxyArea::kWrite, text, 7));
  EXPECT_STREQ(text, "behind");
  EXPECT_FALSE(access(7, memory::ProxyArea::kRead, nullptr, 7)) << "not mapped";
  EXPECT_FALSE(access(8, memory::ProxyArea::kRead, text, 7)) << "no such memory";
  send_record(bell_.get(), bytes_of(abi::MachineBell{7, 0}));
  settle();
  EXPECT_FALSE(access(7, memory::ProxyArea::kRead, text, 7)) << "it has ended";
}

TEST_F(GuestProxy, OfferThatTheDaemonRefuses_IsRefused) {
  start();
  const Pair pair = connect_pair();
  send_record(pair.program.get(),
              request_record(abi::Operation::kOfferMemory, 5, bytes_of(abi::HandleBody{})));
  ASSERT_TRUE(receive(pair.daemon));
  send_record(pair.daemon.get(), bytes_of(abi::ReplyHeader{5, EOPNOTSUPP}));
  const auto reply = receive(pair.program);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.error, EOPNOTSUPP);
  EXPECT_TRUE(reply->fds.empty());
}

}  // namespace
}  // namespace softhca::guest::test
