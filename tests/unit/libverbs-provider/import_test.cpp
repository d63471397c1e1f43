// SPDX-License-Identifier: Apache-2.0

// Contexts, protection domains and regions that one process takes over from another
// (ibv_import_device and its kin).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "libverbs-provider/device_file.hpp"
#include "tests/emulated.hpp"
#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

using abi::Operation;

class Import : public DeviceTest {
 protected:
  /// A context by a copy of ours, as another process would make it.
  ibv_context* import() { return ibv_import_device(::dup(context_->cmd_fd)); }
};

TEST_F(Import, DeviceFileTellsItsTokenToWhoHasIt) {
  struct stat status {};
  ASSERT_EQ(::fstat(context_->cmd_fd, &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode)) << "as the library wants it";
  struct stat null {};
  ASSERT_EQ(::stat("/dev/null", &null), 0);
  EXPECT_EQ(status.st_rdev, null.st_rdev);
  DeviceFileContent content{};
  ASSERT_TRUE(read_device_file(context_->cmd_fd, content));
  EXPECT_EQ(content.number, null.st_rdev);
  EXPECT_EQ(std::memcmp(&content.token, &FakeDaemon::kToken, sizeof content.token), 0);
  EXPECT_LT(::write(context_->cmd_fd, "x", 1), 0) << "no process changes it for the others";
  EXPECT_NE(::ftruncate(context_->cmd_fd, 0), 0);
  EXPECT_NE(::fcntl(context_->cmd_fd, F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(Import, ContextJoinsTheSessionOfTheFile) {
  const int fd = ::dup(context_->cmd_fd);
  ibv_context* imported = ibv_import_device(fd);
  ASSERT_NE(imported, nullptr) << std::strerror(errno);
  EXPECT_EQ(imported->cmd_fd, fd);
  EXPECT_EQ(daemon().session_count(), 2u);
  const auto token = daemon().last<abi::ContextToken>(Operation::kJoinContext);
  EXPECT_EQ(std::memcmp(&token, &FakeDaemon::kToken, sizeof token), 0);
  EXPECT_EQ(daemon().count(Operation::kShareContext), 1u) << "its file is the other's";
  // It has asynchronous events and completion channels of its own.
  session().send_async_event(1, IBV_EVENT_PORT_ACTIVE);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(imported, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
  ibv_ack_async_event(&event);
  if (kernel_refuses_ioctls()) {
    ibv_comp_channel* channel = ibv_create_comp_channel(imported);
    ASSERT_NE(channel, nullptr) << std::strerror(errno);
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  }
  EXPECT_EQ(ibv_close_device(imported), 0);
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "closed with it";
}

TEST_F(Import, RefusalIsTheErrorOfTheImport) {
  daemon().fail_next(Operation::kJoinContext, EACCES);
  errno = 0;
  EXPECT_EQ(import(), nullptr);
  EXPECT_EQ(errno, EACCES);
}

TEST_F(Import, OtherFilesAreRefused) {
  struct Content {
    DeviceFileContent ours;
    char more;
  } wrong{};
  std::memcpy(wrong.ours.magic, kDeviceFileMagic, sizeof kDeviceFileMagic);
  const auto refused = [](int fd, int error) {
    errno = 0;
    const bool is_null = ibv_import_device(fd) == nullptr;
    return is_null && errno == error;
  };
  EXPECT_TRUE(refused(::open("/dev/null", O_RDWR), EINVAL)) << "the device's, without a token";
  EXPECT_TRUE(refused(::open("/dev/zero", O_RDWR), ENODEV));
  int memory = ::memfd_create("longer", MFD_CLOEXEC);
  EXPECT_EQ(::write(memory, &wrong, sizeof wrong), static_cast<ssize_t>(sizeof wrong));
  EXPECT_TRUE(refused(memory, EINVAL));
  memory = ::memfd_create("no device", MFD_CLOEXEC);
  EXPECT_EQ(::write(memory, &wrong, sizeof wrong.ours), static_cast<ssize_t>(sizeof wrong.ours));
  EXPECT_TRUE(refused(memory, ENODEV));
  EXPECT_TRUE(refused(-1, EINVAL));
  // Those that the imports began have ended, or will soon.
  for (int i = 0; i < 500 && daemon().session_count() != 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(daemon().session_count(), 1u);
}

TEST_F(Import, DomainAndRegionComeByTheirHandles) {
  ibv_context* imported = import();
  ASSERT_NE(imported, nullptr) << std::strerror(errno);
  ibv_pd* pd = ibv_import_pd(imported, 17);
  ASSERT_NE(pd, nullptr) << std::strerror(errno);
  EXPECT_EQ(pd->handle, 17u);
  EXPECT_EQ(pd->context, imported);
  EXPECT_EQ(daemon().last<abi::HandleBody>(Operation::kImportPd).handle, 17u);
  ibv_mr* mr = ibv_import_mr(pd, 5);
  ASSERT_NE(mr, nullptr) << std::strerror(errno);
  EXPECT_EQ(daemon().last<abi::HandleBody>(Operation::kImportMr).handle, 5u);
  EXPECT_EQ(mr->handle, 5u);
  EXPECT_EQ(mr->addr, nullptr);
  EXPECT_EQ(mr->length, 100u);
  EXPECT_EQ(mr->lkey, 0x501u);
  EXPECT_EQ(mr->rkey, 0x502u);
  EXPECT_EQ(mr->pd, pd);
  EXPECT_NE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0), 0);
  // They live on for others ...
  ibv_unimport_mr(mr);
  ibv_unimport_pd(pd);
  EXPECT_EQ(daemon().count(Operation::kDeregisterMr), 0u);
  EXPECT_EQ(daemon().count(Operation::kDeallocPd), 0u);
  // ... unless they are ended.
  pd = ibv_import_pd(imported, 17);
  mr = ibv_import_mr(pd, 5);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(daemon().last<abi::HandleBody>(Operation::kDeregisterMr).handle, 5u);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(daemon().last<abi::HandleBody>(Operation::kDeallocPd).handle, 17u);
  EXPECT_EQ(ibv_close_device(imported), 0);
}

TEST_F(Import, HandlesOfNothingAreRefused) {
  daemon().fail_next(Operation::kImportPd, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_import_pd(context_, 17), nullptr);
  EXPECT_EQ(errno, EINVAL);
  daemon().fail_next(Operation::kImportMr, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_import_mr(pd_, 5), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Import, AdviceOnARegionOfAnotherProcessIsCheckedAndHasNoEffect) {
  ibv_mr* mr = ibv_import_mr(pd_, 5);
  ASSERT_NE(mr, nullptr);
  ibv_sge range{0x1000, 100, mr->lkey};
  const auto advise = [&] {
    return ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1);
  };
  EXPECT_EQ(advise(), 0);
  range.length = 101;
  EXPECT_EQ(advise(), EFAULT);
  ibv_unimport_mr(mr);
  EXPECT_EQ(advise(), ENOENT);
}

TEST_F(Import, MakerOfARegionMayLeaveItToOthers) {
  static std::byte memory[100];
  ibv_mr* mr = ibv_reg_mr(pd_, memory, sizeof memory, IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  ibv_unimport_mr(mr);
  EXPECT_EQ(daemon().count(Operation::kDeregisterMr), 0u);
}

}  // namespace
}  // namespace softhca::provider::test
