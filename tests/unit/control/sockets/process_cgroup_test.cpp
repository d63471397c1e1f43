// The cgroup of a process, as /proc/PID/cgroup says it (cgroups(7)).
#include "daemon/control/sockets/process_cgroup.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "daemon/base/unique_fd.hpp"

namespace softhca::control {
namespace {

TEST(ProcessCgroup, TheUnifiedHierarchyGoesBeforeThatOfSystemd) {
  EXPECT_EQ(cgroup_in("0::/system.slice/fio.service\n"), "/system.slice/fio.service");
  EXPECT_EQ(cgroup_in("12:cpu,cpuacct:/a\n1:name=systemd:/b\n0::/c\n"), "/c");
  EXPECT_EQ(cgroup_in("12:cpu,cpuacct:/a\n1:name=systemd:/b\n"), "/b");
  EXPECT_EQ(cgroup_in("0::/with:colon\n"), "/with:colon");
  EXPECT_EQ(cgroup_in("0::/no-line-end"), "/no-line-end");
}

TEST(ProcessCgroup, WhatNamesNoneIsNone) {
  for (const char* text : {"", "\n", "0", "0:", "0::", "0::relative\n", "12:cpu:/a\n", "::/a\n"})
    EXPECT_EQ(cgroup_in(text), std::nullopt) << text;
}

TEST(ProcessCgroup, APathIsInItselfAndInThoseAbove) {
  EXPECT_TRUE(is_in_cgroup("/a.slice", "/a.slice"));
  EXPECT_TRUE(is_in_cgroup("/a.slice/b", "/a.slice"));
  EXPECT_TRUE(is_in_cgroup("/a.slice", "/"));
  EXPECT_FALSE(is_in_cgroup("/a.slice2", "/a.slice"));
  EXPECT_FALSE(is_in_cgroup("/", "/a.slice"));
}

TEST(ProcessCgroup, IsAskedOfAProcessThatIsThere) {
  std::ifstream file("/proc/self/cgroup");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  ASSERT_TRUE(self);
  EXPECT_EQ(cgroup_of(::getpid(), self.get()), cgroup_in(text));

  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  const UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  ASSERT_TRUE(ended);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(cgroup_of(child, ended.get()), std::nullopt) << "it has ended, and is still there";
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace softhca::control
