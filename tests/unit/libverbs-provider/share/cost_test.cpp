// SPDX-License-Identifier: Apache-2.0

// What a registration costs does not depend on how many mappings the process has.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <fstream>
#include <string>

#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"

namespace softhca::provider {
namespace {

/// Bytes that this thread has read, of files and of the kernel's lists.
std::uint64_t bytes_read() {
  std::ifstream io("/proc/thread-self/io");
  std::string word;
  std::uint64_t bytes = 0;
  io >> word >> bytes;
  return bytes;
}

bool kernel_can_be_asked() {
  Anonymous memory(1);
  const std::uint64_t before = bytes_read();
  MapsReader maps(reinterpret_cast<std::uint64_t>(memory.base()));
  Mapping mapping;
  EXPECT_TRUE(maps.next(mapping));
  const std::uint64_t by_itself = bytes_read() - before;
  const std::uint64_t again = bytes_read();
  return by_itself <= bytes_read() - again;
}

TEST(Cost, OfARegistrationDoesNotDependOnTheNumberOfMappings) {
  if (!kernel_can_be_asked()) GTEST_SKIP() << "this kernel has the list of mappings as text only";
  constexpr int kRegistrations = 200;
  FakeDaemon daemon;
  MemoryRegistry registry(daemon.source());
  const auto cost = [&] {
    Anonymous first(1), second(1);
    ExtentList extents;
    const std::uint64_t before = bytes_read();
    for (int i = 0; i < kRegistrations; ++i) {
      const Anonymous& memory = i % 2 == 0 ? first : second;
      EXPECT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
      EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), "S");
      registry.release(extents.all());
    }
    return bytes_read() - before;
  };
  const std::uint64_t few = cost();
  constexpr std::size_t kMany = 20000;
  Anonymous many(kMany);
  for (std::size_t page = 0; page < kMany; page += 2)
    ::mprotect(many.base() + page * kPage, kPage, PROT_READ);
  cost();  // finds out how many there are now
  // All of the list is read once at most: 200 registrations are worth looks at 51,200 mappings.
  EXPECT_LE(cost(), few + 4 * kMany * 64);
}

TEST(Cost, WhatWasUnmappedIsFoundWithinARoundOfManyMappings) {
  constexpr std::size_t kMany = 10000;
  Anonymous many(kMany);
  for (std::size_t page = 0; page < kMany; page += 2)
    ::mprotect(many.base() + page * kPage, kPage, PROT_READ);
  FakeDaemon daemon;
  MemoryRegistry registry(daemon.source());
  ExtentList extents;
  Anonymous other(1);
  for (int i = 0; i < 200; ++i) {
    Anonymous memory(1);
    ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
    registry.release(extents.all());
  }
  const std::size_t kept = in_machine() ? 100 : 60;  // pieces wait for another look
  EXPECT_LT(registry.idle_bytes(), kept * kPage);
  EXPECT_GT(daemon.freed.size(), 200 - kept);
}

TEST(Maps, FromAnAddressOnAreTheSameByQuestionAndByText) {
  Anonymous memory(400);
  for (std::size_t page = 0; page < 400; page += 2)
    ::mprotect(memory.base() + page * kPage, kPage, page % 4 == 0 ? PROT_READ : PROT_NONE);
  const auto from = reinterpret_cast<std::uint64_t>(memory.base()) + 100 * kPage + 5;
  MapsReader text;
  MapsReader asked(from);
  Mapping expected, mapping;
  int found = 0;
  while (text.next(expected)) {
    if (expected.end <= from || expected.begin >> 47 != 0) continue;  // the kernel's own page
    ++found;
    ASSERT_TRUE(asked.next(mapping));
    EXPECT_EQ(mapping.begin, expected.begin);
    EXPECT_EQ(mapping.end, expected.end);
    EXPECT_EQ(mapping.offset, expected.offset);
    EXPECT_EQ(mapping.inode, expected.inode);
    EXPECT_EQ(mapping.device_major, expected.device_major);
    EXPECT_EQ(mapping.device_minor, expected.device_minor);
    EXPECT_EQ(mapping.readable, expected.readable);
    EXPECT_EQ(mapping.writable, expected.writable);
    EXPECT_EQ(mapping.executable, expected.executable);
    EXPECT_EQ(mapping.shared, expected.shared);
    EXPECT_EQ(mapping.kind, expected.kind);
  }
  EXPECT_GE(found, 300);
  EXPECT_FALSE(asked.next(mapping));
}

}  // namespace
}  // namespace softhca::provider
