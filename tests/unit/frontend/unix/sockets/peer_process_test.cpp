// SPDX-License-Identifier: Apache-2.0

// What /proc says of a process: its cgroup (cgroups(7)), and whether it is in our PID namespace.
#include "daemon/frontend/unix/sockets/peer_process.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "daemon/base/unique_fd.hpp"
#include "daemon/device/adapter/levels.hpp"

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

TEST(ProcessNamespace, OfOneThatHasANumberInASecondNamespace) {
  EXPECT_TRUE(has_one_number("Name:\tfio\nNStgid:\t12\nNSpid:\t12\nNSpgid:\t12\n"));
  EXPECT_FALSE(has_one_number("Name:\tfio\nNSpid:\t12\t1\nNSpgid:\t12\t1\n"));
  for (const char* text : {"", "Name:\tfio\n", "Name:\tNSpid:\n", "a\nNSpid:\n", "a\nNSpid:\t \n"})
    EXPECT_FALSE(has_one_number(text)) << text;
}

TEST(ProcessNamespace, IsAskedOfAProcessThatIsThere) {
  const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  ASSERT_TRUE(self);
  std::ifstream file("/proc/self/status");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(is_in_our_pid_namespace(::getpid(), self.get()), has_one_number(text));
  EXPECT_FALSE(is_in_our_pid_namespace(0, self.get())) << "of another namespace";
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
  EXPECT_FALSE(may_bind_low_ports(::getpid(), ended.get())) << "another has the number now";
  ::waitpid(child, nullptr, 0);
}

TEST(ProcessCapabilities, AreTheEffectiveOnes) {
  EXPECT_EQ(capabilities_in("Name:\tfio\nCapPrm:\t0000000000000001\nCapEff:\t0000000000000400\n"),
            0x400u);
  for (const char* text :
       {"", "CapEff:\t1\n", "a\nCapEff:\n", "a\nCapEff:\t1x\n", "a\nCapEff:\tx\n"})
    EXPECT_EQ(capabilities_in(text), 0u) << text;
}

TEST(ProcessCapabilities, LowPorts_AreForThoseThatMayBindThem) {
  const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  ASSERT_TRUE(self);
  std::ifstream file("/proc/self/status");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(may_bind_low_ports(::getpid(), self.get()), (capabilities_in(text) & 0x400) != 0);
  EXPECT_FALSE(may_bind_low_ports(0, self.get()));
}

}  // namespace
}  // namespace softhca::control
