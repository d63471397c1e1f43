#include "daemon/control/sockets/socket_closer.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "daemon/control/sockets/message.hpp"
#include "tests/unit/control/lingering.hpp"

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

/// A socket whose close takes until `what` ends, in the closer's hands.
void close_in_vain(SocketCloser& closer, const std::string& owner, Lingering& what) {
  Pair pair;
  const std::array<std::byte, 1> record{};
  ASSERT_TRUE(send_record(pair.theirs.get(), record, std::array{what.get()}));
  what.let_go();
  closer.close(std::move(pair.ours), owner);
}

TEST(SocketCloser, ClosesWhatItIsGiven) {
  SocketCloser closer;
  Pair pair;
  closer.close(std::move(pair.ours), "a");
  EXPECT_TRUE(eventually([&] { return is_closed(pair.theirs); }));
  EXPECT_TRUE(eventually([&] { return closer.waiting() == 0; }));
}

TEST(SocketCloser, OneThatDoesNotComeBackHoldsUpItsOwnerAlone) {
  Lingering lingering(60);
  SocketCloser closer;
  close_in_vain(closer, "hostile", lingering);
  ASSERT_TRUE(eventually([&] { return closer.stuck("hostile"); }));
  EXPECT_FALSE(closer.stuck("good"));
  Pair good, own;
  closer.close(std::move(good.ours), "good");
  closer.close(std::move(own.ours), "hostile");
  closer.tick();
  EXPECT_TRUE(eventually([&] { return is_closed(good.theirs); }));
  EXPECT_EQ(closer.waiting(), 2u);
  EXPECT_FALSE(is_closed(own.theirs));
  lingering.end();
  EXPECT_TRUE(eventually([&] { return closer.waiting() == 0; }));
  EXPECT_TRUE(is_closed(own.theirs));
  EXPECT_FALSE(closer.stuck("hostile"));
}

TEST(SocketCloser, AsManyOwnersAsLikeMayBeStuck) {
  std::list<Lingering> lingering;
  SocketCloser closer;
  for (int i = 0; i < 8; ++i) {
    close_in_vain(closer, std::to_string(i), lingering.emplace_back(60));
    ASSERT_TRUE(eventually([&] {
      closer.tick();
      return closer.stuck(std::to_string(i));
    }));
  }
  Pair good;
  closer.close(std::move(good.ours), "good");
  EXPECT_TRUE(eventually([&] {
    closer.tick();
    return is_closed(good.theirs);
  }));
  for (Lingering& one : lingering) one.end();
  EXPECT_TRUE(eventually([&] { return closer.waiting() == 0; }));
}

TEST(SocketCloser, ItsEndWaitsForNone) {
  Lingering lingering(60);
  auto closer = std::make_unique<SocketCloser>();
  close_in_vain(*closer, "hostile", lingering);
  ASSERT_TRUE(eventually([&] { return closer->stuck("hostile"); }));
  closer.reset();  // with a close that is waited for, the test ends after a minute
  lingering.end();
}

TEST(PeerSocket, TellsThePeerAtOnce) {
  SocketCloser closer;
  Pair pair;
  PeerSocket socket(std::move(pair.ours), closer, "a");
  socket.reset();
  std::byte byte;
  EXPECT_EQ(::recv(pair.theirs.get(), &byte, 1, MSG_DONTWAIT), 0);
}

TEST(OneWay, NothingCanBeSentToOurEnd) {
  SocketCloser closer;
  Pair pair;
  const PeerSocket socket(std::move(pair.ours), closer, "a");
  PeerSocket ours;
  Reply reply;
  ASSERT_EQ(make_one_way(SOCK_SEQPACKET, socket, ours, reply), 0);
  const std::array<std::byte, 1> record{};
  EXPECT_TRUE(send_record(ours.get(), record, {}));
  EXPECT_FALSE(send_record(reply.fds().front(), record, std::array{pair.theirs.get()}));
  EXPECT_EQ(errno, EPIPE);
}

}  // namespace
}  // namespace softhca::control
