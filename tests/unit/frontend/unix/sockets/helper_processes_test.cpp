// SPDX-License-Identifier: Apache-2.0

#include "daemon/control_thread/helper_processes.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/sealed_memory.hpp"

namespace softhca::control {
namespace {

TEST(HelperProcesses, SealsAndSaysWhy) {
  const auto helpers = HelperProcesses::start();
  ASSERT_TRUE(helpers) << helpers.error().message;
  const auto memory = SealedMemory::create("test", 4096);
  ASSERT_TRUE(memory);
  ASSERT_TRUE((*helpers)->seal(memory->fd()));
  EXPECT_NE(::fcntl(memory->fd(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
  const auto again = (*helpers)->seal(memory->fd());
  ASSERT_FALSE(again) << "no further seal is allowed";
  EXPECT_EQ(again.error().code, EPERM);
}

TEST(HelperProcesses, ServesManyThreadsAtOnce) {
  const auto helpers = HelperProcesses::start();
  ASSERT_TRUE(helpers) << helpers.error().message;
  std::vector<SealedMemory> memories;
  for (int i = 0; i < 16; ++i) memories.push_back(std::move(*SealedMemory::create("test", 4096)));
  std::vector<std::thread> threads;
  for (const SealedMemory& memory : memories)
    threads.emplace_back([&] { EXPECT_TRUE((*helpers)->seal(memory.fd())); });
  for (std::thread& thread : threads) thread.join();
  for (const SealedMemory& memory : memories)
    EXPECT_NE(::fcntl(memory.fd(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
}

/// Processes of that name that are children of our child.
std::vector<pid_t> sealers() {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (entry.path().filename().string().find_first_not_of("0123456789") != std::string::npos)
      continue;
    const auto parent_of = [](const std::filesystem::path& process, std::string& name) {
      std::ifstream file(process / "stat");
      std::string text((std::istreambuf_iterator<char>(file)), {});
      const std::size_t end = text.rfind(')');
      if (end == std::string::npos) return 0;
      name = text.substr(0, end);
      return std::atoi(text.c_str() + end + 4);  // ") S PARENT"
    };
    std::string name, other;
    const int parent = parent_of(entry.path(), name);
    if (name.ends_with("(softhca-sealer") &&
        parent_of("/proc/" + std::to_string(parent), other) == ::getpid())
      found.push_back(std::atoi(entry.path().filename().c_str()));
  }
  return found;
}

TEST(HelperProcesses, SealsOneAfterTheOther_ByTheSameProcess) {
  // Those of other tests' helpers end by themselves.
  for (int i = 0; i < 10'000 && !sealers().empty(); ++i) ::usleep(1000);
  const auto helpers = HelperProcesses::start();
  ASSERT_TRUE(helpers) << helpers.error().message;
  const auto seal_one = [&] {
    const auto memory = SealedMemory::create("test", 4096);
    ASSERT_TRUE(memory);
    EXPECT_TRUE((*helpers)->seal(memory->fd()));
    EXPECT_NE(::fcntl(memory->fd(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
  };
  seal_one();
  const std::vector<pid_t> first = sealers();
  ASSERT_EQ(first.size(), 1u);
  seal_one();
  EXPECT_EQ(sealers(), first);
  ASSERT_EQ(::kill(first.front(), SIGKILL), 0);
  seal_one();
  for (const pid_t pid : sealers()) EXPECT_NE(pid, first.front()) << "that one is gone";
}

TEST(HelperProcesses, NoneIsNeeded) {
  const auto memory = SealedMemory::create("test", 4096);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(seal(nullptr, memory->fd()));
  EXPECT_NE(::fcntl(memory->fd(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
}

}  // namespace
}  // namespace softhca::control
