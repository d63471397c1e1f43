// SPDX-License-Identifier: Apache-2.0

#include "daemon/control_thread/blocking_calls.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/frontend/unix/sockets/message.hpp"
#include "daemon/frontend/unix/sockets/peer_socket.hpp"
#include "tests/unit/frontend/unix/sockets/lingering.hpp"

namespace softhca::control {
namespace {

using namespace std::chrono_literals;

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    ours = UniqueFd(ends[0]);
    theirs = UniqueFd(ends[1]);
  }
  UniqueFd ours, theirs;
};

bool is_closed(const UniqueFd& peer_of) {
  pollfd look{peer_of.get(), 0, 0};
  return ::poll(&look, 1, 0) == 1 && (look.revents & POLLHUP) != 0;
}

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 20'000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

/// Gives `calls` a socket to close. The close blocks until `what` ends.
void close_in_vain(BlockingCalls& calls, const std::string& owner, Lingering& what) {
  Pair pair;
  const std::array<std::byte, 1> record{};
  ASSERT_TRUE(send_record(pair.theirs.get(), record, std::array{what.get()}));
  what.let_go();
  calls.close(std::move(pair.ours), owner);
}

TEST(BlockingCalls, ClosesWhatItIsGiven) {
  BlockingCalls calls;
  Pair pair;
  calls.close(std::move(pair.ours), "a");
  EXPECT_TRUE(eventually([&] { return is_closed(pair.theirs); }));
  EXPECT_TRUE(eventually([&] { return calls.waiting() == 0; }));
}

TEST(BlockingCalls, OneThatDoesNotComeBackHoldsUpItsOwnerAlone) {
  Lingering lingering(60);
  BlockingCalls calls;
  close_in_vain(calls, "hostile", lingering);
  ASSERT_TRUE(eventually([&] { return calls.stuck("hostile"); }));
  EXPECT_FALSE(calls.stuck("good"));
  Pair good, own;
  calls.close(std::move(good.ours), "good");
  calls.close(std::move(own.ours), "hostile");
  EXPECT_TRUE(eventually([&] { return is_closed(good.theirs); }));
  EXPECT_EQ(calls.waiting(), 2u);
  EXPECT_FALSE(is_closed(own.theirs));
  lingering.end();
  EXPECT_TRUE(eventually([&] { return calls.waiting() == 0; }));
  EXPECT_TRUE(is_closed(own.theirs));
  EXPECT_FALSE(calls.stuck("hostile"));
}

TEST(BlockingCalls, AsManyOwnersAsLikeMayBeStuck) {
  std::list<Lingering> lingering;
  BlockingCalls calls;
  for (int i = 0; i < 8; ++i) {
    close_in_vain(calls, std::to_string(i), lingering.emplace_back(60));
    ASSERT_TRUE(eventually([&] { return calls.stuck(std::to_string(i)); }));
  }
  Pair good;
  calls.close(std::move(good.ours), "good");
  EXPECT_TRUE(eventually([&] { return is_closed(good.theirs); }));
  for (Lingering& one : lingering) one.end();
  EXPECT_TRUE(eventually([&] { return calls.waiting() == 0; }));
}

void finish_one(BlockingCalls& calls) {
  pollfd look{calls.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&look, 1, 60'000), 1);
  calls.finish();
}

TEST(BlockingCalls, WhatFollowsACallIsDoneByWhoFinishes) {
  BlockingCalls calls;
  const auto here = std::this_thread::get_id();
  std::vector<int> order;
  const auto note = [&](int number, bool is_here) {
    EXPECT_EQ(std::this_thread::get_id() == here, is_here) << number;
    order.push_back(number);
  };
  calls.make(
      "a", [&] { note(1, false); }, [&] { note(2, true); });
  finish_one(calls);
  calls.make("a", [&] { note(3, false); });
  calls.make(
      "a", [&] { note(4, false); }, [&] { note(5, true); });
  finish_one(calls);
  EXPECT_EQ(order, (std::vector{1, 2, 3, 4, 5}));
  pollfd look{calls.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&look, 1, 0), 0) << "nothing is left to do";
}

/// When a tenant is removed, continuations of its calls may not touch it any more.
TEST(BlockingCalls, WhatFollowsIsForgottenWithItsOwner) {
  BlockingCalls calls;
  const auto held = std::make_shared<int>();
  std::promise<void> begun, until;
  bool followed = false;
  calls.make(
      "gone", [] {}, [&followed, held] { followed = true; });
  calls.make(
      "stays", [] {}, [held] {});
  ASSERT_TRUE(eventually([&] { return calls.waiting() == 0; }));
  calls.make(
      "gone", [&] { begun.set_value(), until.get_future().wait(); },
      [&followed, held] { followed = true; });
  calls.make(
      "gone", [] {}, [&followed, held] { followed = true; });
  begun.get_future().wait();
  EXPECT_EQ(held.use_count(), 5);
  calls.forget("gone");
  EXPECT_EQ(held.use_count(), 2) << "of one that is over, of one being made, of one to come";
  until.set_value();
  ASSERT_TRUE(eventually([&] { return calls.waiting() == 0; }));
  calls.finish();
  EXPECT_FALSE(followed);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(BlockingCalls, WhatTakesManyStepsLetsOthersOfItsOwnerCome) {
  BlockingCalls calls;
  std::promise<void> go;
  std::string order;
  calls.make("a", [&] { go.get_future().wait(); });
  int steps = 0;
  calls.make_steps(
      "a", [&] { return order += 's', ++steps < 3; }, [&] { order += 'd'; });
  calls.make("a", [&] { order += 'o'; });
  go.set_value();
  finish_one(calls);
  EXPECT_EQ(order, "sossd");
}

TEST(BlockingCalls, WhatFollowsIsForgottenAtItsEnd) {
  Lingering lingering(60);
  const auto held = std::make_shared<int>();
  {
    BlockingCalls calls;
    close_in_vain(calls, "hostile", lingering);
    calls.make(
        "hostile", [] {}, [held] {});
    calls.make(
        "good", [] {}, [held] {});
    pollfd look{calls.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&look, 1, 60'000), 1);
    EXPECT_EQ(held.use_count(), 3);
  }
  EXPECT_EQ(held.use_count(), 1);
  lingering.end();
}

TEST(BlockingCalls, ItsEndWaitsForNone) {
  Lingering lingering(60);
  auto calls = std::make_unique<BlockingCalls>();
  close_in_vain(*calls, "hostile", lingering);
  ASSERT_TRUE(eventually([&] { return calls->stuck("hostile"); }));
  const auto held = std::make_shared<int>();
  calls->make("hostile", [held] {});
  calls.reset();  // with a close that is waited for, the test ends after a minute
  EXPECT_EQ(held.use_count(), 2);
  lingering.end();
  EXPECT_TRUE(eventually([&] { return held.use_count() == 1; }))
      << "what a call that is not made holds ends with the thread";
}

TEST(PeerSocket, TellsThePeerAtOnce) {
  BlockingCalls calls;
  Pair pair;
  PeerSocket socket(std::move(pair.ours), calls, "a");
  socket.reset();
  std::byte byte;
  EXPECT_EQ(::recv(pair.theirs.get(), &byte, 1, MSG_DONTWAIT), 0);
}

TEST(OneWay, NothingCanBeSentToOurEnd) {
  BlockingCalls calls;
  Pair pair;
  const PeerSocket socket(std::move(pair.ours), calls, "a");
  PeerSocket ours;
  Reply reply;
  ASSERT_EQ(make_one_way(SOCK_SEQPACKET, socket, ours, reply), 0);
  const std::array<std::byte, 1> record{};
  EXPECT_TRUE(send_record(ours.get(), record, {}));
  EXPECT_FALSE(send_record(reply.handles().front().number, record, std::array{pair.theirs.get()}));
  EXPECT_EQ(errno, EPIPE);
}

}  // namespace
}  // namespace softhca::control
