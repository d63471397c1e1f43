#include "daemon/control/sockets/sealer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "daemon/base/sealed_memory.hpp"

namespace softhca::control {
namespace {

TEST(Sealer, SealsAndSaysWhy) {
  const auto sealer = Sealer::start();
  ASSERT_TRUE(sealer) << sealer.error().message;
  const auto memory = SealedMemory::create("test", 4096);
  ASSERT_TRUE(memory);
  ASSERT_TRUE((*sealer)->seal(memory->fd()));
  EXPECT_NE(::fcntl(memory->fd(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
  const auto again = (*sealer)->seal(memory->fd());
  ASSERT_FALSE(again) << "no further seal is allowed";
  EXPECT_EQ(again.error().code, EPERM);
}

TEST(Sealer, ServesManyThreadsAtOnce) {
  const auto sealer = Sealer::start();
  ASSERT_TRUE(sealer) << sealer.error().message;
  std::vector<SealedMemory> memories;
  for (int i = 0; i < 16; ++i) memories.push_back(std::move(*SealedMemory::create("test", 4096)));
  std::vector<std::thread> threads;
  for (const SealedMemory& memory : memories)
    threads.emplace_back([&] { EXPECT_TRUE((*sealer)->seal(memory.fd())); });
  for (std::thread& thread : threads) thread.join();
  for (const SealedMemory& memory : memories)
    EXPECT_NE(::fcntl(memory.fd(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
}

TEST(Sealer, NoneIsNeeded) {
  const auto memory = SealedMemory::create("test", 4096);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(seal(nullptr, memory->fd()));
  EXPECT_NE(::fcntl(memory->fd(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
}

}  // namespace
}  // namespace softhca::control
