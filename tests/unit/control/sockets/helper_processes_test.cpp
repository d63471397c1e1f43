#include "daemon/control/sockets/helper_processes.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
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

TEST(HelperProcesses, NoneIsNeeded) {
  const auto memory = SealedMemory::create("test", 4096);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(seal(nullptr, memory->fd()));
  EXPECT_NE(::fcntl(memory->fd(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
}

}  // namespace
}  // namespace softhca::control
