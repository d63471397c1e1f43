// SPDX-License-Identifier: Apache-2.0

// Regions that are paged on demand, and advice on them.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <string>

#include "tests/emulated.hpp"
#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

using abi::Operation;

constexpr int kOnDemand = IBV_ACCESS_ON_DEMAND;
constexpr int kWritable = kOnDemand | IBV_ACCESS_LOCAL_WRITE;

class OnDemand : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (world_ == nullptr) return;
    memory_ = static_cast<char*>(::mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  void TearDown() override {
    if (memory_ != nullptr) ::munmap(memory_, kPages * kPage);
    DeviceTest::TearDown();
  }

  ibv_mr* add(int access = kWritable, void* addr = nullptr, std::size_t length = kPages * kPage) {
    ibv_mr* mr = ibv_reg_mr(pd_, addr == nullptr ? memory_ : addr, length, access);
    EXPECT_NE(mr, nullptr) << std::strerror(errno);
    return mr;
  }
  /// What the daemon was told of the last region.
  struct Told {
    abi::RegisterMrRequest head;
    abi::MrExtent extent;
  };
  Told told() { return daemon().last<Told>(Operation::kRegisterMr); }

  int advise(ibv_mr* mr, ibv_advise_mr_advice advice, std::uint64_t offset, std::uint32_t length,
             std::uint32_t flags = IBV_ADVISE_MR_FLAG_FLUSH) {
    ibv_sge range{reinterpret_cast<std::uintptr_t>(mr->addr) + offset, length, mr->lkey};
    return ibv_advise_mr(pd_, advice, flags, &range, 1);
  }
  /// Which of the pages are there, one character each.
  std::string present() {
    std::array<unsigned char, kPages> state{};
    EXPECT_EQ(::mincore(memory_, kPages * kPage, state.data()), 0);
    std::string text;
    for (const unsigned char page : state) text += (page & 1) != 0 ? 'x' : '-';
    return text;
  }

  static constexpr std::size_t kPages = 4;
  char* memory_ = nullptr;
};

/// A session in which the daemon cannot reach the memory of the process.
class WithoutProcessMemory : public OnDemand {
 protected:
  void SetUp() override {
    std::string reason;
    if (World* world = World::instance(reason)) world->daemon().device().capabilities = 0;
    OnDemand::SetUp();
  }
  void TearDown() override {
    OnDemand::TearDown();
    if (world_ != nullptr)
      daemon().device().capabilities = abi::kCanReachProcess | abi::kCanResizeSrq;
  }
};

TEST_F(OnDemand, IsForAllThatQueuePairsDo) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  EXPECT_EQ(attr.odp_caps.general_caps, std::uint64_t{IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT});
  const auto& caps = attr.odp_caps.per_transport_caps;
  constexpr std::uint32_t kMessages =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  EXPECT_EQ(caps.ud_odp_caps, kMessages);
  EXPECT_EQ(caps.uc_odp_caps, kMessages | IBV_ODP_SUPPORT_WRITE);
  const std::uint32_t reliable = caps.uc_odp_caps | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
  EXPECT_EQ(caps.rc_odp_caps, reliable | 1u << 6 | 1u << 7) << "flush and atomic write, too";
  EXPECT_EQ(attr.xrc_odp_caps, reliable);
}

TEST_F(OnDemand, RegionIsOfAddressesAndSharesNothing) {
  // Nothing need be mapped there yet.
  ::munmap(memory_ + kPage, kPage);
  ibv_mr* mr = add();
  ASSERT_NE(mr, nullptr);
  const auto addr = reinterpret_cast<std::uintptr_t>(memory_);
  EXPECT_EQ(told().head.addr, addr);
  EXPECT_EQ(told().head.iova, addr);
  EXPECT_EQ(told().head.length, kPages * kPage);
  EXPECT_EQ(told().head.access, static_cast<std::uint32_t>(kWritable));
  ASSERT_EQ(told().head.extents, 1u);
  EXPECT_EQ(told().extent.addr, addr);
  EXPECT_EQ(told().extent.length, kPages * kPage);
  EXPECT_EQ(told().extent.kind, static_cast<std::uint32_t>(abi::ExtentKind::kProcess));
  EXPECT_EQ(daemon().count(Operation::kAllocShared), 0u);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(OnDemand, RegionMayBeOfAllAddresses) {
  if (!kernel_takes_advice()) GTEST_SKIP() << "madvise(2) does not reach the kernel";
  ibv_mr* mr = ibv_reg_mr(pd_, nullptr, SIZE_MAX, kWritable);
  ASSERT_NE(mr, nullptr) << std::strerror(errno);
  EXPECT_EQ(told().head.addr, 0u);
  EXPECT_EQ(told().head.length, SIZE_MAX);
  EXPECT_EQ(told().extent.length, SIZE_MAX);
  memory_[2 * kPage] = 1;
  ibv_sge range{reinterpret_cast<std::uintptr_t>(memory_), 10, mr->lkey};
  EXPECT_EQ(
      ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1),
      0);
  EXPECT_EQ(present(), "x-x-");
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr_iova2(pd_, nullptr, SIZE_MAX, 4096, kWritable), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pd_, nullptr, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT) << "not on demand: all would have to be there";
}

TEST_F(WithoutProcessMemory, RegionsAreSharedInPlaceAndNoneIsOfAllAddresses) {
  if (!kernel_has_userfaultfd()) GTEST_SKIP() << "memory is not shared in place";
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  EXPECT_EQ(attr.odp_caps.general_caps, std::uint64_t{IBV_ODP_SUPPORT});
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pd_, nullptr, SIZE_MAX, kWritable), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(daemon().count(Operation::kRegisterMr), 0u);
  ibv_mr* mr = add();
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(told().extent.kind, static_cast<std::uint32_t>(abi::ExtentKind::kShared));
  EXPECT_EQ(advise(mr, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 10), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(OnDemand, RegionChangesToAndFromItWithItsMemory) {
  ibv_mr* mr = add(IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(advise(mr, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1), ENOENT);
  EXPECT_NE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kWritable), 0);
  constexpr int kBoth = IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION;
  EXPECT_EQ(ibv_rereg_mr(mr, kBoth, nullptr, memory_, 2 * kPage, kWritable), 0);
  const auto request = daemon().last<abi::ReregisterMrRequest>(Operation::kReregisterMr);
  EXPECT_EQ(request.region.extents, 1u);
  EXPECT_EQ(advise(mr, IBV_ADVISE_MR_ADVICE_PREFETCH, 2 * kPage - 1, 1), 0);
  EXPECT_EQ(advise(mr, IBV_ADVISE_MR_ADVICE_PREFETCH, 2 * kPage, 1), EFAULT);
  EXPECT_EQ(ibv_rereg_mr(mr, kBoth, nullptr, memory_, kPage, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(advise(mr, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1), ENOENT);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(OnDemand, AdviceBringsPagesIn) {
  if (!kernel_takes_advice()) GTEST_SKIP() << "madvise(2) does not reach the kernel";
  ibv_mr* mr = add();
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(present(), "----");
  EXPECT_EQ(advise(mr, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, 4 * kPage), 0);
  EXPECT_EQ(advise(mr, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, 0), 0);
  EXPECT_EQ(present(), "----");
  EXPECT_EQ(advise(mr, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 2 * kPage - 1, 2), 0);
  EXPECT_EQ(present(), "-xx-");
  EXPECT_EQ(advise(mr, IBV_ADVISE_MR_ADVICE_PREFETCH, 3 * kPage, kPage), 0);
  EXPECT_EQ(present(), "-xxx");
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(OnDemand, AdviceGoesByTheAddressThatKeysReferTo) {
  if (!kernel_takes_advice()) GTEST_SKIP() << "madvise(2) does not reach the kernel";
  ibv_mr* mr = ibv_reg_mr_iova2(pd_, memory_ + kPage, 2 * kPage, 1 << 20, kWritable);
  ASSERT_NE(mr, nullptr);
  ibv_sge range{(1 << 20) + kPage, kPage, mr->lkey};
  EXPECT_EQ(
      ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1),
      0);
  EXPECT_EQ(present(), "--x-");
  range.addr = reinterpret_cast<std::uintptr_t>(memory_ + kPage);
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1), EFAULT);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(OnDemand, BadAdviceIsRefused) {
  ibv_mr* mr = add();
  ibv_mr* constant = add(kOnDemand | IBV_ACCESS_REMOTE_READ);
  ASSERT_TRUE(mr != nullptr && constant != nullptr);
  constexpr auto kPrefetch = IBV_ADVISE_MR_ADVICE_PREFETCH;
  constexpr auto kWrite = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  EXPECT_EQ(advise(mr, static_cast<ibv_advise_mr_advice>(3), 0, 1), EOPNOTSUPP);
  EXPECT_EQ(advise(mr, kPrefetch, 0, 1, 2), EINVAL) << "an unknown flag";
  EXPECT_EQ(ibv_advise_mr(pd_, kPrefetch, 0, nullptr, 0), EINVAL);
  EXPECT_EQ(advise(mr, kPrefetch, 4 * kPage - 1, 2), EFAULT);
  EXPECT_EQ(advise(mr, kPrefetch, ~std::uint64_t{0}, 2), EFAULT);
  EXPECT_EQ(advise(constant, kPrefetch, 0, 1), 0);
  EXPECT_EQ(advise(constant, kWrite, 0, 1), EPERM);
  ibv_pd* other = ibv_alloc_pd(context_);
  ibv_sge ranges[] = {{reinterpret_cast<std::uintptr_t>(memory_), 1, mr->lkey},
                      {reinterpret_cast<std::uintptr_t>(memory_), 1, mr->lkey ^ 0x10}};
  EXPECT_EQ(ibv_advise_mr(other, kPrefetch, 0, ranges, 1), EPERM);
  EXPECT_EQ(ibv_advise_mr(pd_, kPrefetch, 0, ranges, 2), ENOENT);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  // Missing memory is an error only if the call waits for the pages.
  ::munmap(memory_, kPage);
  if (kernel_takes_advice()) {
    EXPECT_EQ(advise(mr, kPrefetch, 0, 1), EFAULT);
  }
  EXPECT_EQ(advise(mr, kPrefetch, 0, 1, 0), 0);
  const std::uint32_t lkey = mr->lkey;
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  ranges[0].lkey = lkey;
  EXPECT_EQ(ibv_advise_mr(pd_, kPrefetch, 0, ranges, 1), ENOENT) << "it has gone";
  EXPECT_EQ(ibv_dereg_mr(constant), 0);
}

TEST_F(WithoutProcessMemory, ThatItCannotBeRegisteredIsSaidOnceWithTheSetting) {
  char on_the_stack[100];
  ibv_mr* mr = nullptr;
  const auto refuse = [&] {
    daemon().fail_next(Operation::kOfferMemory, EOPNOTSUPP);
    errno = 0;
    mr = ibv_reg_mr(pd_, on_the_stack, sizeof on_the_stack, IBV_ACCESS_LOCAL_WRITE);
    EXPECT_EQ(errno, EOPNOTSUPP);
  };
  testing::internal::CaptureStderr();
  refuse();
  EXPECT_EQ(mr, nullptr);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("a memory region of 100 bytes"), std::string::npos) << said;
  EXPECT_NE(said.find("tenant.process_memory"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  testing::internal::CaptureStderr();
  refuse();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace softhca::provider::test
