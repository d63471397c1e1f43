// SPDX-License-Identifier: Apache-2.0

// A process that has called ibv_fork_init(), without the preload library: libibverbs would keep
// registered pages from its children, with all else that lies in them.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

class Fork : public DeviceTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(ibv_fork_init(), 0);
    DeviceTest::SetUp();
  }
};

/// True if a child finds the text, and may write over it.
bool child_finds(char* text, const char* wanted) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool found = std::strcmp(text, wanted) == 0;
    text[0] = '!';
    ::_exit(found ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0 && std::strcmp(text, wanted) == 0;
}

TEST_F(Fork, RegisteredMemoryAndItsNeighbours_AfterForkInit_AreCopiedToChildren) {
  if (world_ == nullptr) return;
  auto* memory = static_cast<char*>(
      ::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::strcpy(memory, "neighbour");
  std::strcpy(memory + 100, "head");
  std::strcpy(memory + kPage, "whole");
  for (const int access : {0, int{IBV_ACCESS_ON_DEMAND}}) {
    ibv_mr* mr = ibv_reg_mr(pd_, memory + 100, 3 * kPage - 200, IBV_ACCESS_LOCAL_WRITE | access);
    ASSERT_NE(mr, nullptr);
    EXPECT_TRUE(child_finds(memory, "neighbour"));
    EXPECT_TRUE(child_finds(memory + 100, "head"));
    EXPECT_TRUE(child_finds(memory + kPage, "whole"));
    ASSERT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, pd_, memory + 101, 2 * kPage, 0),
              0);
    EXPECT_TRUE(child_finds(memory, "neighbour"));
    ibv_dereg_mr(mr);
    EXPECT_TRUE(child_finds(memory + kPage, "whole"));
  }
  ::munmap(memory, 3 * kPage);
}

}  // namespace
}  // namespace softhca::provider::test
