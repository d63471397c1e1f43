// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/memory_port.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/port/frames.hpp"

namespace softhca::port {
namespace {

TEST(MemoryPort, CarriesFramesBothWaysInOrder) {
  auto [a, b] = MemoryPort::make_pair();
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(send_bytes(*a, udp_frame(i)));
  ASSERT_TRUE(send_bytes(*b, udp_frame(99)));
  a->flush();
  b->flush();
  const auto at_b = receive_all(*b);
  ASSERT_EQ(at_b.size(), 10u);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(at_b[i], udp_frame(i));
  ASSERT_EQ(receive_all(*a).size(), 1u);
  EXPECT_EQ(a->counters().tx_frames, 10u);
  EXPECT_EQ(b->counters().rx_bytes, 10 * udp_frame(0).size());
  EXPECT_NE(a->mac(), b->mac());
}

TEST(MemoryPort, HoldsFramesUntilFlush) {
  auto [a, b] = MemoryPort::make_pair();
  ASSERT_TRUE(send_bytes(*a, udp_frame(1)));
  EXPECT_TRUE(receive_all(*b).empty());
  a->flush();
  EXPECT_EQ(receive_all(*b).size(), 1u);
}

TEST(MemoryPort, ReceivesNoMoreThanAsked) {
  auto [a, b] = MemoryPort::make_pair();
  for (std::uint32_t i = 0; i < 5; ++i) send_bytes(*a, udp_frame(i));
  a->flush();
  EXPECT_EQ(receive_all(*b, 3).size(), 3u);
  EXPECT_EQ(receive_all(*b, 3).size(), 2u);
}

TEST(MemoryPort, RunsOutOfBuffersAndRecovers) {
  auto [a, b] = MemoryPort::make_pair({.buffers = 8});
  for (std::uint32_t i = 0; i < 8; ++i) ASSERT_TRUE(send_bytes(*a, udp_frame(i)));
  EXPECT_FALSE(a->allocate());
  a->flush();
  EXPECT_FALSE(a->allocate());
  std::vector<Frame> held(8);
  ASSERT_EQ(b->receive(held), 8u);
  EXPECT_FALSE(a->allocate()) << "still in the receiver's hands";
  b->release({held.data(), 3});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send_bytes(*a, udp_frame(1)));
  EXPECT_FALSE(a->allocate());
}

TEST(MemoryPort, TakesBackAFrameThatIsNotSent) {
  auto [a, b] = MemoryPort::make_pair({.buffers = 1});
  for (int i = 0; i < 3; ++i) {
    Frame frame = a->allocate();
    ASSERT_TRUE(frame);
    a->release({&frame, 1});
  }
  a->flush();
  EXPECT_TRUE(receive_all(*b).empty());
}

TEST(MemoryPort, DropsWhileTheLinkIsDown) {
  auto [a, b] = MemoryPort::make_pair({.buffers = 2});
  a->set_link(false);
  EXPECT_FALSE(a->link_up());
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(send_bytes(*a, udp_frame(1)));
    a->flush();
  }
  EXPECT_TRUE(receive_all(*b).empty());
  EXPECT_EQ(a->counters().tx_dropped, 6u);
  a->set_link(true);
  send_bytes(*a, udp_frame(7));
  a->flush();
  EXPECT_EQ(receive_all(*b).size(), 1u);
}

TEST(MemoryPort, EndsMayBeDrivenByTwoThreads) {
  constexpr std::uint32_t kFrames = 100000;
  auto ends = MemoryPort::make_pair({.buffers = 64, .mtu = 256});
  std::thread sender([&port = *ends.first] {
    for (std::uint32_t i = 0; i < kFrames;) {
      if (send_bytes(port, udp_frame(i)))
        ++i;
      else
        std::this_thread::yield();
      port.flush();
    }
  });
  std::uint32_t next = 0;
  while (next < kFrames) {
    std::array<Frame, 16> frames;
    const std::size_t n = ends.second->receive(frames);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(number_of(frames[i]), next++);
    ends.second->release({frames.data(), n});
    if (n == 0) std::this_thread::yield();
  }
  sender.join();
}

TEST(MemoryPort, OutlivesItsPeer) {
  auto [a, b] = MemoryPort::make_pair();
  send_bytes(*a, udp_frame(5));
  a->flush();
  a.reset();
  const auto got = receive_all(*b);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0], udp_frame(5));
}

}  // namespace
}  // namespace softhca::port
