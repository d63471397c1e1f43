// SPDX-License-Identifier: Apache-2.0

// The device in a virtual machine: memory of the session is in places of the machine's memory.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/emulated.hpp"
#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

class MachineDevice : public DeviceTest {
 protected:
  void prepare_daemon() override { daemon().be_machine(); }

  /// Returns the last extent of the last registration.
  abi::MrExtent last_extent() {
    const std::vector<std::byte> body = daemon().last_body(abi::Operation::kRegisterMr);
    abi::MrExtent extent{};
    if (body.size() >= sizeof extent)
      std::memcpy(&extent, body.data() + body.size() - sizeof extent, sizeof extent);
    return extent;
  }

  /// The next reply to `operation` has places that `change` has changed.
  void change_places(abi::Operation operation, std::function<void(abi::MemoryPlaces&)> change) {
    daemon().spoil_next(operation, [change = std::move(change)](
                                       abi::ReplyHeader&, std::vector<std::byte>& body, auto&) {
      abi::MemoryPlaces places;
      ASSERT_GE(body.size(), sizeof places);
      std::byte* at = body.data() + body.size() - sizeof places;
      std::memcpy(&places, at, sizeof places);
      change(places);
      std::memcpy(at, &places, sizeof places);
    });
  }
};

TEST_F(MachineDevice, SessionAndRings_AreMappedAtTheirPlaces) {
  ibv_cq* cq = make_cq();
  ibv_qp* qp = make_qp(cq);
  move(qp, IBV_QPS_RTS);
  auto chain = send_chain(1, 7);
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp, chain.data(), &bad), 0);
  const std::uint64_t handed_over = session().handed_over();
  ASSERT_NE(handed_over, 0u);
  abi::CommandHeader command;
  std::memcpy(&command, session().vcb(static_cast<unsigned>(std::countr_zero(handed_over))).command,
              sizeof command);
  EXPECT_EQ(command.qpn, qp->qp_num);
  complete(cq, qp, 0);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 7u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(MachineDevice, ForkedChild_LeavesTheParentsMemoryAlone) {
  ibv_cq* cq = make_cq();
  ibv_qp* qp = make_qp(cq);
  move(qp, IBV_QPS_RTS);
  auto chain = send_chain(1, 7);
  const std::uint64_t handed_over = session().handed_over();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  ibv_send_wr* bad = nullptr;
  if (child == 0) ::_exit(ibv_post_send(qp, chain.data(), &bad) == EIO ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(session().handed_over(), handed_over);
  EXPECT_EQ(session().vcb(0).scoreboard, 0u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

/// Memory of the program, which it may register.
class Pages {
 public:
  explicit Pages(std::size_t count) : bytes_(count * kPage) {
    void* memory =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base_ = static_cast<char*>(memory);
    base_[0] = 1;
  }
  ~Pages() { ::munmap(base_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  char* base() const { return base_; }
  ibv_mr* add_to(ibv_pd* pd) const { return ibv_reg_mr(pd, base_, bytes_, IBV_ACCESS_LOCAL_WRITE); }

 private:
  std::size_t bytes_;
  char* base_;
};

TEST_F(MachineDevice, MemoryIsRegisteredInTwoSessions_KeepsItsHandle) {
  if (!kernel_has_userfaultfd()) GTEST_SKIP() << "memory is not shared in place";
  const Pages pages(4);
  std::uint32_t handles[2];
  for (std::uint32_t& handle : handles) {
    ibv_context* context = world_->open();
    ASSERT_NE(context, nullptr);
    ibv_pd* pd = ibv_alloc_pd(context);
    ibv_mr* mr = pages.add_to(pd);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
    const abi::MrExtent extent = last_extent();
    EXPECT_EQ(extent.kind, static_cast<std::uint32_t>(abi::ExtentKind::kShared));
    EXPECT_EQ(extent.offset, 0u);
    handle = extent.handle;
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  EXPECT_EQ(handles[0], handles[1]);
  EXPECT_EQ(daemon().count(abi::Operation::kAllocShared), 1u);
  EXPECT_EQ(daemon().count(abi::Operation::kFreeShared), 0u);
  EXPECT_EQ(daemon().count(abi::Operation::kNameShared), 0u);
}

TEST_F(MachineDevice, UnmappedMemory_IsGivenBackAsUnmapped) {
  if (!kernel_has_userfaultfd()) GTEST_SKIP() << "memory is not shared in place";
  std::uint32_t handle = 0;
  {
    const Pages pages(4);
    ibv_mr* mr = pages.add_to(pd_);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
    handle = last_extent().handle;
    FakeMemory& memory = session().shared.at(handle);
    EXPECT_EQ(memory.base[0], std::byte{1});
    ::munmap(memory.base, memory.place.bytes);  // the daemon's mapping in this process
    memory.base = nullptr;
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  }
  const Pages other(1);
  const abi::HandleBody unmapped{handle, abi::kIsUnmapped};
  for (int i = 0; i < 300 && !daemon().had(abi::Operation::kFreeShared, unmapped); ++i)
    ASSERT_EQ(ibv_dereg_mr(other.add_to(pd_)), 0);
  EXPECT_TRUE(daemon().had(abi::Operation::kFreeShared, unmapped));
}

TEST_F(MachineDevice, SharedMemoryWithMalformedPlace_IsLeft) {
  const std::function<void(abi::MemoryPlaces&)> changes[] = {
      [](abi::MemoryPlaces& places) { places.memory.offset += 8; },
      [](abi::MemoryPlaces& places) { places.memory.offset += abi::kPageBytes; },
      [](abi::MemoryPlaces& places) { places.memory.bytes = 0; },
      [](abi::MemoryPlaces& places) { places.memory.bytes = abi::kPageBytes; },
      [](abi::MemoryPlaces& places) { places.memory.bytes = ~std::uint64_t{0} << 12; }};
  for (const auto& change : changes) {
    const Pages pages(2);
    change_places(abi::Operation::kAllocShared, change);
    ibv_mr* mr = pages.add_to(pd_);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
    EXPECT_EQ(last_extent().kind, static_cast<std::uint32_t>(abi::ExtentKind::kProcess));
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  }
}

TEST_F(MachineDevice, ReplyWithMalformedPlaces_Eproto) {
  const std::function<void(abi::MemoryPlaces&)> changes[] = {
      [](abi::MemoryPlaces& places) { places.memory.offset += 1; },
      [](abi::MemoryPlaces& places) { places.memory.bytes += 1; },
      [](abi::MemoryPlaces& places) { places.memory.bytes = 0; },
      [](abi::MemoryPlaces& places) { places.memory.bytes = abi::kPageBytes; },
      [](abi::MemoryPlaces& places) { places.memory.offset = ~std::uint64_t{0} << 12; },
      [](abi::MemoryPlaces& places) { places.memory.bytes = ~std::uint64_t{0} << 12; },
      [](abi::MemoryPlaces& places) { places.vcbs.offset += 8; },
      [](abi::MemoryPlaces& places) { places.vcbs.bytes = 0; },
      [](abi::MemoryPlaces& places) { places.vcbs.bytes = 7 * abi::kPageBytes; }};
  for (const auto& change : changes) {
    change_places(abi::Operation::kHello, change);
    errno = 0;
    EXPECT_EQ(world_->open(), nullptr) << &change - changes;
    EXPECT_EQ(errno, EPROTO) << &change - changes;
  }
}

TEST_F(MachineDevice, WithoutVcbs_NeedsNoPlaceForThem) {
  daemon().set_vcbs(0);
  change_places(abi::Operation::kHello, [](abi::MemoryPlaces& places) { places.vcbs = {}; });
  ibv_context* context = world_->open();
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST_F(MachineDevice, SegmentWithMalformedPlace_QueueIsNotCreated) {
  for (const std::uint64_t bytes : {0, 100}) {
    change_places(abi::Operation::kCreateCq,
                  [bytes](abi::MemoryPlaces& places) { places.memory.bytes = bytes; });
    errno = 0;
    EXPECT_EQ(ibv_create_cq(context_, 16, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EPROTO);
  }
  EXPECT_EQ(ibv_destroy_cq(make_cq()), 0);
}

}  // namespace
}  // namespace softhca::provider::test
