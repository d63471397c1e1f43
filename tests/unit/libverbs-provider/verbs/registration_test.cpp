// SPDX-License-Identifier: Apache-2.0

// Memory that the process cannot give, or cannot have mapped.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

using abi::Operation;

class ReadOnlyMemory : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    memory_ = static_cast<char*>(
        ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(::mprotect(memory_ + kPage, kPage, PROT_READ), 0);
  }
  void TearDown() override {
    if (memory_ != nullptr) ::munmap(memory_, 2 * kPage);
    DeviceTest::TearDown();
  }

  char* memory_ = nullptr;
};

TEST_F(ReadOnlyMemory, RegisteredForWriting_Efault) {
  constexpr int kWriting[] = {
      IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_MW_BIND};
  for (const int access : kWriting) {
    errno = 0;
    EXPECT_EQ(ibv_reg_mr(pd_, memory_, 2 * kPage, access), nullptr) << access;
    EXPECT_EQ(errno, EFAULT) << access;
  }
  static const char kConstant[] = "of the program";
  EXPECT_EQ(ibv_reg_mr(pd_, const_cast<char*>(kConstant), sizeof kConstant, IBV_ACCESS_LOCAL_WRITE),
            nullptr);
  EXPECT_EQ(errno, EFAULT);
}

TEST_F(ReadOnlyMemory, RegisteredForReading_ThenForWriting_Efault) {
  ibv_mr* const mr = ibv_reg_mr(pd_, memory_, 2 * kPage, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(mr, nullptr) << std::strerror(errno);
  errno = 0;
  EXPECT_NE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, pd_, nullptr, 0, IBV_ACCESS_LOCAL_WRITE),
            0);
  EXPECT_EQ(errno, EFAULT);
  errno = 0;
  EXPECT_NE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, pd_,
                         memory_ + kPage, kPage, IBV_ACCESS_LOCAL_WRITE),
            0);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(daemon().count(Operation::kReregisterMr), 0u);
  ASSERT_EQ(::mprotect(memory_ + kPage, kPage, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, pd_, nullptr, 0, IBV_ACCESS_LOCAL_WRITE),
            0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

/// A file that cannot be mapped comes in the place of the segment's memory.
FakeDaemon::Spoil unmappable() {
  return [](abi::ReplyHeader&, std::vector<std::byte>&, std::vector<int>& fds) {
    fds = {::open("/dev/null", O_RDWR | O_CLOEXEC)};  // ends with the process
  };
}

using UnmappableSegment = DeviceTest;

TEST_F(UnmappableSegment, QueueMade_IsDestroyedAgain) {
  daemon().spoil_next(Operation::kCreateCq, unmappable());
  EXPECT_EQ(ibv_create_cq(context_, 16, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(daemon().count(Operation::kDestroyCq), 1u);
  ibv_cq* const cq = make_cq();
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(UnmappableSegment, QueueResized_StaysAsItWas) {
  ibv_cq* const cq = make_cq(4);
  daemon().spoil_next(Operation::kResizeCq,
                      [](abi::ReplyHeader& header, std::vector<std::byte>& body, auto& fds) {
                        const abi::CreateCqReply segment_first{abi::kNoHandle, 0, {9, 0, 0}, 1, 0};
                        std::memcpy(body.data(), &segment_first, sizeof segment_first);
                        unmappable()(header, body, fds);
                      });
  const int error = ibv_resize_cq(cq, 16);
  EXPECT_NE(error, 0);
  EXPECT_NE(error, EPROTO);
  EXPECT_EQ(daemon().last<abi::HandleBody>(Operation::kDestroyCq).handle, abi::kNoHandle);
  EXPECT_EQ(ibv_resize_cq(cq, 16), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
}  // namespace softhca::provider::test
