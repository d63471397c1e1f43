// SPDX-License-Identifier: Apache-2.0

// The provider's session against the engine's view, each in threads of its own, while VCBs are
// granted and taken away: every command arrives, and only those twice that were told to ring.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "daemon/base/sealed_memory.hpp"
#include "daemon/tenant_memory/session_view.hpp"
#include "libverbs-provider/client_session.hpp"

namespace softhca::provider {
namespace {

constexpr std::uint32_t kVcbs = 64;
constexpr std::uint32_t kThreads = 2;
constexpr std::uint32_t kCommands = 100000;  // of each thread
constexpr int kMostRounds = 50;

class SessionGrant : public ::testing::Test {
 protected:
  SessionGrant() {
    auto memory = SealedMemory::create("session-grant", abi::session_bytes(kVcbs));
    EXPECT_TRUE(memory);
    memory_ = std::move(*memory);
    shm::SessionView::format(memory_.base(), kVcbs);
    EXPECT_EQ(session_.open(::dup(memory_.fd()), ::eventfd(0, EFD_NONBLOCK),
                            {.vcbs = kVcbs, .version = abi::kAbiVersion}, nullptr),
              0);
  }
  abi::CommandHeader command(std::uint32_t id) {
    abi::CommandHeader header{};
    header.qpn = id;
    header.sequence = ~id;
    return header;
  }
  void ring(std::uint32_t id) {
    while (!session_.ring_doorbell({id, ~id})) std::this_thread::yield();
  }
  /// As ibv_post_send() does.
  void post(std::uint32_t id) {
    const ClaimedVcbs claimed = session_.claim_vcbs(1);
    if (claimed.bits == 0) return ring(id);
    const abi::CommandHeader header = command(id);
    session_.write_vcb(static_cast<unsigned>(std::countr_zero(claimed.bits)), &header,
                       sizeof header);
    if (id % 16 == 0) std::this_thread::yield();  // the others' turn, with one processor for all
    if (session_.hand_over(claimed.bits)) return;
    told_to_ring_.fetch_add(1, std::memory_order_relaxed);
    told_[id] = true;
    ring(id);
  }
  /// A look of the engine. Returns how many commands came that had not come before.
  std::uint32_t look() {
    std::uint32_t found = 0;
    const auto arrived = [&](std::uint32_t id) {
      ASSERT_LT(id, arrivals_.size());
      if (arrivals_[id]++ == 0) ++found;
    };
    for (std::uint64_t pending = view_->pending(); pending != 0; pending &= pending - 1) {
      const auto vcb = static_cast<std::uint32_t>(std::countr_zero(pending));
      const bool withdrawn = (view_->scoreboard(vcb) & abi::kWithdrawn) != 0;
      abi::CommandHeader header;
      std::byte payload[abi::kCommandPayloadBytes];
      EXPECT_EQ(view_->copy_command(vcb, header, payload), Verdict::kOk);
      EXPECT_EQ(header.sequence, ~header.qpn);
      if (!withdrawn) arrived(header.qpn);
      view_->release(std::uint64_t{1} << vcb);
    }
    abi::Doorbell doorbell;
    while (view_->next_doorbell(doorbell) == shm::Take::kTaken) {
      arrived(doorbell.qpn);
      view_->take_doorbell();
    }
    return found;
  }
  void run_programs();

  SealedMemory memory_;
  ClientSession session_;
  std::optional<shm::SessionView> view_;
  std::vector<std::uint8_t> arrivals_ = std::vector<std::uint8_t>(kThreads * kCommands);
  std::vector<std::uint8_t> told_ = std::vector<std::uint8_t>(kThreads * kCommands);
  std::atomic<std::uint32_t> told_to_ring_ = 0;
  std::mt19937 random_{1};
};

TEST_F(SessionGrant, ClaimsNoneThatIsNotGranted) {
  view_.emplace(memory_.base(), kVcbs);
  view_->revoke(3);
  EXPECT_EQ(session_.claim_vcbs(4).bits, 0u);
  const ClaimedVcbs claimed = session_.claim_vcbs(3);
  EXPECT_EQ(claimed.bits, 0b111u);
  EXPECT_TRUE(session_.hand_over(claimed.bits));
  view_->revoke(0);
  EXPECT_EQ(view_->granted(), 3u) << "they are handed over";
  view_->release(0b111);
  EXPECT_EQ(view_->revoke(0), 0u);
  EXPECT_EQ(session_.claim_vcbs(1).bits, 0u);
  view_->grant(1);
  EXPECT_EQ(session_.claim_vcbs(1).bits, 0b1u);
}

TEST_F(SessionGrant, AVcbThatIsTakenAwayBeforeItIsHandedOverIsWithdrawn) {
  view_.emplace(memory_.base(), kVcbs);
  const ClaimedVcbs claimed = session_.claim_vcbs(1);
  const abi::CommandHeader header = command(7);
  session_.write_vcb(0, &header, sizeof header);
  EXPECT_EQ(view_->revoke(0), 0u);
  EXPECT_FALSE(session_.hand_over(claimed.bits));
  EXPECT_EQ(view_->pending(), 0u);
  view_->grant(1);
  EXPECT_EQ(view_->pending(), 1u);
  EXPECT_EQ(look(), 0u) << "a doorbell speaks for it";
  EXPECT_EQ(session_.claim_vcbs(1).bits, 1u);
}

/// Programs post while VCBs come and go.
void SessionGrant::run_programs() {
  std::ranges::fill(arrivals_, 0);
  std::ranges::fill(told_, 0);
  std::vector<std::thread> programs;
  for (std::uint32_t t = 0; t < kThreads; ++t)
    programs.emplace_back([this, t] {
      for (std::uint32_t i = 0; i < kCommands; ++i) post(t * kCommands + i);
    });
  std::uint32_t arrived = 0, idle = 0;
  while (arrived < kThreads * kCommands && idle < 1u << 24) {
    const std::uint32_t found = look();
    arrived += found;
    idle = found == 0 ? idle + 1 : 0;
    if (found == 0) std::this_thread::yield();
    const std::uint32_t count = random_() % 4;
    if (count >= view_->granted())
      view_->grant(count);
    else
      view_->revoke(count);
  }
  for (std::thread& program : programs) program.join();
  EXPECT_EQ(arrived, kThreads * kCommands);
  for (std::uint32_t id = 0; id < arrivals_.size(); ++id) {
    ASSERT_GE(arrivals_[id], 1) << id;
    if (told_[id] == 0) {
      ASSERT_EQ(arrivals_[id], 1) << id;
    }
  }
}

/// A round may end without a VCB that is taken away from under a command.
TEST_F(SessionGrant, EveryCommandArrivesWhileVcbsComeAndGo) {
  view_.emplace(memory_.base(), kVcbs);
  for (int round = 0; round < kMostRounds && told_to_ring_ == 0 && !HasFailure(); ++round)
    run_programs();
  EXPECT_GT(told_to_ring_.load(), 0u) << "the race this is about did not occur";
}

}  // namespace
}  // namespace softhca::provider
