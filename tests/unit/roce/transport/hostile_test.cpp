// SPDX-License-Identifier: Apache-2.0

// Random packets against state machines that are at work: nothing may trip an assertion, complete
// twice or go on for ever.
#include <random>
#include <set>

#include "daemon/roce/transport/uc.hpp"
#include "daemon/roce/transport/ud.hpp"
#include "tests/unit/roce/transport/script.hpp"

namespace softhca::transport {
namespace {

constexpr int kLives = 300;
constexpr int kPackets = 200;

class Hostile : public RequesterTest {
 protected:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  /// Fields of any value, opcode and PSN often such that they are looked at.
  wire::Headers packet(std::uint8_t first_opcode) {
    wire::Headers h;
    h.opcode = static_cast<std::uint8_t>(below(8) == 0 ? random_() : first_opcode + below(0x18));
    h.psn = Psn(below(8) == 0 ? static_cast<std::uint32_t>(random_()) : below(12));
    h.ack_request = below(2) == 0;
    h.syndrome = static_cast<std::uint8_t>(below(2) == 0 ? below(0x40) : random_());
    h.msn = static_cast<std::uint32_t>(random_()) & Psn::kMask;
    h.remote_addr = below(2) == 0 ? 0x1000 : random_();
    h.dma_length = below(2) == 0 ? below(1024) : static_cast<std::uint32_t>(random_());
    return h;
  }
  std::vector<std::byte> payload() {
    constexpr std::size_t kSizes[] = {0, 0, 1, 44, 255, 256, 256, 257};
    return bytes(kSizes[below(8)]);
  }
  void expect_each_done_once() {
    std::set<std::string> numbers;
    for (const std::string& line : env.done)
      EXPECT_TRUE(numbers.insert(line.substr(0, line.find(' '))).second) << line;
    EXPECT_EQ(numbers.size(), number);
  }

 private:
  std::mt19937_64 random_{7};
};

TEST_F(Hostile, ResponsesToARequester) {
  for (int life = 0; life < kLives; ++life) {
    env = FakeEnvironment();
    number = 0;
    start_at(0);
    for (int i = 0; i < kPackets; ++i) {
      if (!requester.full()) post(static_cast<RequestKind>(below(8)), below(600));
      run(below(8));
      requester.receive(env, packet(0x0d), payload(), now);
      if (below(4) == 0) pass(microseconds(below(2000)));
    }
    requester.flush(env);
    expect_each_done_once();
    EXPECT_EQ(requester.deadline(), kNever);
  }
}

TEST_F(Hostile, RequestsToAResponder) {
  OwnReplays replays;
  Responder responder;
  for (int life = 0; life < kLives; ++life) {
    env = FakeEnvironment();
    attributes.max_dest_rd_atomic = static_cast<std::uint8_t>(below(4));
    responder.configure(attributes, replays.places());
    responder.reset(Psn(0));
    for (int i = 0; i < kPackets; ++i) {
      if (below(2) == 0) env.receives.push_back(below(1024));
      responder.receive(env, packet(0), payload(), now);
      responder.transmit(env, below(8));
    }
    responder.flush(env);
    EXPECT_FALSE(responder.pending());
    EXPECT_EQ(env.received.size(), env.next_receive);
  }
}

TEST_F(Hostile, Unreliable) {
  UcResponder uc;
  UdResponder ud;
  uc.configure({.mtu = 256});
  ud.configure({.mtu = 256});
  for (int life = 0; life < kLives; ++life) {
    env = FakeEnvironment();
    uc.reset(Psn(0));
    ud.reset();
    for (int i = 0; i < kPackets; ++i) {
      if (below(2) == 0) env.receives.push_back(below(1024));
      uc.receive(env, packet(0x20), payload());
      ud.receive(env, packet(0x64), payload());
    }
    uc.flush(env);
    ud.flush(env);
    EXPECT_EQ(env.received.size(), env.next_receive);
  }
}

}  // namespace
}  // namespace softhca::transport
