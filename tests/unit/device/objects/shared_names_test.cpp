// SPDX-License-Identifier: Apache-2.0

// One memory, registered in several sessions of a process.
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/unit/device/session/client.hpp"
#include "tests/unit/engine/fixture/task.hpp"

namespace softhca::control {
namespace {

using configuration::Kind;

constexpr std::uint64_t kAddr = std::uint64_t{1} << 40;

class SharedNamesTest : public ::testing::Test {
 protected:
  SharedNamesTest() {
    for (Client* c : {&first, &second}) EXPECT_EQ(c->greet(), 0);
    abi::AllocSharedReply reply{};
    EXPECT_EQ(first.ask(Operation::kAllocShared, abi::AllocSharedRequest{kBytes}, &reply), 0);
    first.keep_descriptors();
    shared = reply.handle;
  }

  static int name(Client& c, std::uint32_t handle, abi::SharedToken& token) {
    return c.ask(Operation::kNameShared, abi::HandleBody{handle, 0}, &token);
  }
  static int join(Client& c, const abi::SharedToken& token, abi::HandleBody* out = nullptr) {
    return c.ask(Operation::kJoinShared, token, out);
  }
  /// The second session's handle.
  std::uint32_t joined() {
    abi::SharedToken token{};
    abi::HandleBody reply{};
    EXPECT_EQ(name(first, shared, token), 0);
    EXPECT_EQ(join(second, token, &reply), 0);
    return reply.handle;
  }
  static int add(Client& c, std::uint32_t handle, abi::RegisterMrReply* mr = nullptr) {
    struct {
      abi::RegisterMrRequest head;
      abi::MrExtent extent;
    } request{{kAddr, kBytes, kAddr, 1, c.make(Operation::kAllocPd), 1, 0},
              {kAddr, kBytes, 0, handle, 1}};
    return c.ask(Operation::kRegisterMr, request, mr);
  }
  static int remove(Client& c, std::uint32_t handle) {
    return c.ask(Operation::kDeregisterMr, abi::HandleBody{handle, 0});
  }
  void write(std::uint32_t lkey, char value) {
    daemon.worker.run(engine::Task{[&](engine::Engine& engine) {
      EXPECT_EQ(memory::write(*engine.keys().lookup(lkey), 5, std::as_bytes(std::span(&value, 1))),
                Verdict::kOk);
    }});
  }
  char read(std::uint32_t lkey) {
    char value = 0;
    daemon.worker.run(engine::Task{[&](engine::Engine& engine) {
      EXPECT_EQ(memory::read(*engine.keys().lookup(lkey), 5,
                             std::as_writable_bytes(std::span(&value, 1))),
                Verdict::kOk);
    }});
    return value;
  }
  std::uint64_t in_use(Kind kind) {
    return daemon.adapter.tenants[0]->control.accounts.in_use(kind);
  }

  static constexpr std::uint64_t kBytes = 2 * abi::kPageBytes;

  Daemon daemon;
  Client first{daemon};
  Client second{daemon};
  std::uint32_t shared = 0;
};

TEST_F(SharedNamesTest, BothSessionsReachTheSameBytes) {
  const std::uint32_t theirs = joined();
  EXPECT_EQ(joined(), theirs) << "always the same";
  abi::RegisterMrReply ours{}, others{};
  ASSERT_EQ(add(first, shared, &ours), 0);
  ASSERT_EQ(add(second, theirs, &others), 0);
  write(ours.lkey, 'a');
  EXPECT_EQ(read(others.lkey), 'a');
  write(others.lkey, 'b');
  EXPECT_EQ(read(ours.lkey), 'b');
  EXPECT_EQ(in_use(Kind::kSharedBytes), kBytes) << "it is there once";
}

TEST_F(SharedNamesTest, WhoNamesItselfGetsItsOwnHandle) {
  abi::SharedToken token{}, again{};
  ASSERT_EQ(name(first, shared, token), 0);
  ASSERT_EQ(name(first, shared, again), 0);
  EXPECT_EQ(std::memcmp(token.bytes, again.bytes, sizeof token), 0);
  abi::HandleBody reply{};
  ASSERT_EQ(join(first, token, &reply), 0);
  EXPECT_EQ(reply.handle, shared);
  // And it can be named by way of the other.
  const std::uint32_t theirs = joined();
  ASSERT_EQ(name(second, theirs, again), 0);
  EXPECT_EQ(std::memcmp(token.bytes, again.bytes, sizeof token), 0);
}

TEST_F(SharedNamesTest, NobodyJoinsMemoryInWhichHolesCanBeMade) {
  const auto punch = [&] {
    return ::fallocate(first.kept(0), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                       abi::kPageBytes);
  };
  EXPECT_EQ(punch(), 0);
  abi::SharedToken token{};
  ASSERT_EQ(name(first, shared, token), 0);
  EXPECT_EQ(punch(), -1);
}

TEST_F(SharedNamesTest, OnlyTheUsersOwnSessionsJoinAndOnlyWithTheToken) {
  abi::SharedToken token{};
  ASSERT_EQ(name(first, shared, token), 0);
  Client of_another_tenant(daemon, 1);
  Client of_another_user(daemon, 0, ::getuid() + 1);
  for (Client* c : {&of_another_tenant, &of_another_user}) {
    ASSERT_EQ(c->greet(), 0);
    EXPECT_EQ(join(*c, token), EACCES);
    EXPECT_EQ(add(*c, shared), ESTALE);
  }
  for (std::size_t i = 0; i < sizeof token; ++i) {
    abi::SharedToken wrong = token;
    wrong.bytes[i] ^= 1;
    EXPECT_EQ(join(second, wrong), EACCES);
  }
  EXPECT_EQ(name(second, shared, token), ESTALE);
  EXPECT_EQ(second.ask(Operation::kJoinShared, abi::HandleBody{}), EINVAL);
  EXPECT_EQ(second.ask(Operation::kNameShared, token), EINVAL);
}

TEST_F(SharedNamesTest, ItIsKeptWhileAnyOfThemHasRegionsInIt) {
  const std::uint32_t theirs = joined();
  abi::RegisterMrReply ours{}, others{}, more{};
  ASSERT_EQ(add(first, shared, &ours), 0);
  ASSERT_EQ(add(second, theirs, &others), 0);
  ASSERT_EQ(remove(first, ours.handle), 0);
  daemon.adapter.tenants[0]->control.accounts.set_limit(Kind::kSharedBytes, kBytes);
  EXPECT_EQ(second.ask(Operation::kAllocShared, abi::AllocSharedRequest{abi::kPageBytes}), ENOMEM)
      << "it is not idle";
  first.end();
  write(others.lkey, 'c');
  EXPECT_EQ(add(second, theirs, &more), 0) << "by its own handle as before";
  EXPECT_EQ(read(more.lkey), 'c');
  EXPECT_EQ(in_use(Kind::kSharedBytes), kBytes);
  ASSERT_EQ(remove(second, others.handle), 0);
  ASSERT_EQ(remove(second, more.handle), 0);
  EXPECT_EQ(in_use(Kind::kSharedBytes), 0u);
  EXPECT_EQ(add(second, theirs), ESTALE);
}

TEST_F(SharedNamesTest, IdleMemoryIsGivenUpForBoth) {
  const std::uint32_t theirs = joined();
  abi::RegisterMrReply ours{}, others{};
  ASSERT_EQ(add(first, shared, &ours), 0);
  ASSERT_EQ(add(second, theirs, &others), 0);
  ASSERT_EQ(remove(first, ours.handle), 0);
  ASSERT_EQ(remove(second, others.handle), 0);
  daemon.adapter.tenants[0]->control.accounts.set_limit(Kind::kSharedBytes, kBytes);
  EXPECT_EQ(second.ask(Operation::kAllocShared, abi::AllocSharedRequest{kBytes}), 0);
  EXPECT_EQ(add(second, theirs), ESTALE);
  EXPECT_EQ(add(first, shared), ESTALE);
  abi::SharedToken token{};
  EXPECT_EQ(name(first, shared, token), ESTALE);
}

TEST_F(SharedNamesTest, AHandleThatIsGivenBackIsUnknown) {
  const std::uint32_t theirs = joined();
  EXPECT_EQ(second.ask(Operation::kFreeShared, abi::HandleBody{theirs, 0}), 0);
  EXPECT_EQ(second.ask(Operation::kFreeShared, abi::HandleBody{theirs, 0}), EINVAL);
  EXPECT_EQ(add(second, theirs), ESTALE);
  EXPECT_EQ(add(first, shared), 0) << "it lives on for the other";
  EXPECT_EQ(add(second, joined()), 0);
}

TEST_F(SharedNamesTest, ThoseThatHaveGoneAreForgotten) {
  for (int i = 0; i < 300; ++i) {
    joined();
    ASSERT_EQ(first.ask(Operation::kFreeShared, abi::HandleBody{shared, 0}), 0);
    abi::AllocSharedReply reply{};
    ASSERT_EQ(first.ask(Operation::kAllocShared, abi::AllocSharedRequest{kBytes}, &reply), 0);
    first.take_descriptors();
    shared = reply.handle;
  }
  EXPECT_LT(daemon.shared_objects.shared_names.size(), 150u);
}

}  // namespace
}  // namespace softhca::control
