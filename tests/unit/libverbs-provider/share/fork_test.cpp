// SPDX-License-Identifier: Apache-2.0

// A child sees the memory as it was at the fork, and changes nothing in its parent.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <functional>

#include "libverbs-provider/share/process.hpp"
#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"

namespace softhca::provider {
namespace {

/// Runs the function in a child; its result is the child's exit code.
int in_child(const std::function<int()>& function) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);  // sanitizers have a handler
    ::_exit(function());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

class Process : public testing::Test {
 protected:
  void share(const Anonymous& memory) {
    ASSERT_EQ(registry_.prepare(region(memory.base(), memory.bytes()), extents_), 0);
    ASSERT_EQ(shape(memory.base(), memory.bytes(), extents_), "S");
    daemon_.seal();
  }

  FakeDaemon daemon_;
  MemoryRegistry registry_{daemon_.source()};
  ExtentList extents_;
};

TEST_F(Process, AChildHasTheMemoryAsOfTheFork) {
  Anonymous memory(40);
  share(memory);
  int go[2];
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte;
    const bool told = ::read(go[0], &byte, 1) == 1;  // by now the parent has overwritten it all
    ::_exit(told && memory.intact() ? 0 : 1);
  }
  Anonymous::fill(memory.base(), memory.bytes(), 99);
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ::close(go[0]);
  ::close(go[1]);
}

TEST_F(Process, AChildsWritesStayItsOwn) {
  Anonymous memory(40);
  share(memory);
  EXPECT_EQ(in_child([&] {
              Anonymous::fill(memory.base(), memory.bytes(), 50);
              return memory.intact(50) ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(memory.intact());
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), memory.base(), memory.bytes()));
}

TEST_F(Process, ManyRangesAndOddProtectionsAreCopied) {
  Anonymous memory(200);
  share(memory);
  for (std::size_t page = 0; page < 200; page += 2) {
    ::mprotect(memory.base() + page * kPage, kPage, page % 4 == 0 ? PROT_READ : PROT_NONE);
  }
  const int code = in_child([&] {
    memory.base()[kPage] = 1;
    if (::mprotect(memory.base(), memory.bytes(), PROT_READ | PROT_WRITE) != 0) return 1;
    memory.base()[kPage] = Anonymous::value(kPage, 1);
    if (!memory.intact()) return 2;
    Anonymous::fill(memory.base(), memory.bytes(), 50);
    return 0;
  });
  EXPECT_EQ(code, 0);
  ::mprotect(memory.base(), memory.bytes(), PROT_READ | PROT_WRITE);
  EXPECT_TRUE(memory.intact());
  const int kept = in_child([&] {
    ::mprotect(memory.base(), kPage, PROT_READ);
    return in_child([&] {
      memory.base()[0] = 1;  // must not be allowed
      return 0;
    });
  });
  EXPECT_EQ(kept, SIGSEGV);  // 256 + SIGSEGV, modulo 256
}

TEST_F(Process, NoMappingsLeft_AChildHasTheMemoryAllTheSame) {
  if (mappings_allowed() > 1'000'000) GTEST_SKIP() << "vm.max_map_count is too high to be reached";
  Anonymous memory(40);
  share(memory);
  ::mprotect(memory.base() + kPage, kPage, PROT_READ);
  char* many = fill_mappings(mappings_allowed(), 0);
  const int code = in_child([&] {
    if (!memory.intact()) return 1;
    memory.base()[0] = 99;
    return 0;
  });
  ::munmap(many, mappings_allowed() * kPage);
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(memory.intact());
}

TEST_F(Process, NoDescriptorsLeft_AChildHasTheMemoryAsOfTheFork) {
  Anonymous memory(4000);
  share(memory);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{3, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(memory.intact() ? 0 : 1);
  std::memset(memory.base(), 99, memory.bytes());
  ::setrlimit(RLIMIT_NOFILE, &before);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Process, AChildDoesNotUseItsParentsSession) {
  Anonymous memory(4), other(4);
  share(memory);
  const int code = in_child([&] {
    ExtentList extents;
    if (registry_.prepare(region(other.base(), other.bytes()), extents) != 0) return 1;
    if (shape(other.base(), other.bytes(), extents) != "P") return 2;
    registry_.release(extents_.all());
    if (daemon_.allocs != 1 || !daemon_.freed.empty()) return 3;
    // A session of its own works.
    FakeDaemon own;
    MemoryRegistry registry(own.source());
    if (registry.prepare(region(memory.base(), memory.bytes()), extents) != 0) return 4;
    if (shape(memory.base(), memory.bytes(), extents) != "S" || !memory.intact()) return 5;
    // And so does a grandchild of that.
    return in_child([&] { return memory.intact() ? 0 : 6; });
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace softhca::provider
