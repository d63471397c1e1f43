// SPDX-License-Identifier: Apache-2.0

// Memory windows and atomic writes, between queue pairs of one adapter and over the wire.
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint32_t kOpen = Process::kFull | memory::kBindWindow;
constexpr std::uint32_t kRemote = memory::kRemoteWrite | memory::kRemoteRead;

class Windows : public BothWays {
 protected:
  Windows() : pair(GetParam()) { pair.connect_pair(); }
  ~Windows() { pair.expect_idle(); }

  std::uint32_t window(Process& owner, bool type_2 = true) {
    return (*owner.adapter.engine.memory().windows().insert(owner.pd, type_2))->key;
  }
  /// `b` binds; the new key.
  std::uint32_t bind(std::uint32_t key, Buffer& to, std::size_t offset, std::size_t bytes,
                     std::uint32_t access = kRemote) {
    b.post(*pair.qb, bind_work(key ^ 1, to, offset, bytes, access));
    EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
    return key ^ 1;
  }
  static Work bind_work(std::uint32_t key, Buffer& to, std::size_t offset, std::size_t bytes,
                        std::uint32_t access = kRemote) {
    return {.opcode = abi::Opcode::kBindWindow,
            .imm = access,
            .remote_addr = to.addr() + offset,
            .rkey = key,
            .compare_add = bytes,
            .swap = to.key};
  }
  Work access(abi::Opcode opcode, Buffer& near, Buffer& far, std::size_t offset,
              std::uint32_t rkey) {
    return {
        .opcode = opcode, .sge = {near.all()}, .remote_addr = far.addr() + offset, .rkey = rkey};
  }
  Status write(Buffer& near, Buffer& far, std::size_t offset, std::uint32_t rkey) {
    a.post(*pair.qa, access(abi::Opcode::kRdmaWrite, near, far, offset, rkey));
    return pair.wait_status(*pair.ca);
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
};

TEST_P(Windows, OpenPartOfARegion) {
  for (const bool type_2 : {false, true}) {
    Buffer& near = a.make_buffer(64);
    Buffer& far = b.make_buffer(256, memory::kLocalWrite | memory::kBindWindow);
    near.fill(3);
    const std::uint32_t key = bind(window(b, type_2), far, 64, 128);
    EXPECT_EQ(write(near, far, 128, key), Status::kSuccess);
    EXPECT_EQ(std::memcmp(far.data() + 128, near.data(), 64), 0);
    Buffer& back = a.make_buffer(64);
    a.post(*pair.qa, access(abi::Opcode::kRdmaRead, back, far, 128, key));
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    EXPECT_TRUE(back.equals(near));
  }
}

TEST_P(Windows, EndWhereTheyWereBound) {
  Buffer& near = a.make_buffer(64);
  Buffer& far = b.make_buffer(256, kOpen);
  near.fill(3);
  const std::uint32_t key = bind(window(b), far, 64, 128);
  EXPECT_EQ(write(near, far, 129, key), Status::kRemoteAccessError);
  EXPECT_TRUE(far.is_zero());
}

TEST_P(Windows, AreInvalidatedByTheirOwner) {
  Buffer& near = a.make_buffer(64);
  Buffer& far = b.make_buffer(256, kOpen);
  const std::uint32_t key = bind(window(b), far, 0, 256);
  EXPECT_EQ(write(near, far, 0, key), Status::kSuccess);
  b.post(*pair.qb, {.opcode = abi::Opcode::kLocalInvalidate, .rkey = key});
  const auto done = pair.wait(*pair.cb);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, Status::kSuccess);
  EXPECT_EQ(done->opcode, abi::CompletionOpcode::kLocalInvalidate);
  EXPECT_EQ(write(near, far, 0, key), Status::kRemoteAccessError);
}

TEST_P(Windows, AreInvalidatedByThePeer) {
  Buffer& near = a.make_buffer(64);
  Buffer& far = b.make_buffer(256, kOpen);
  const std::uint32_t key = bind(window(b), far, 0, 256);
  b.post_receive(*pair.qb, {far.all()});
  a.post(*pair.qa, {.opcode = abi::Opcode::kSendWithInvalidate, .sge = {near.all()}, .rkey = key});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  const auto got = pair.wait(*pair.cb);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, Status::kSuccess);
  EXPECT_NE(got->flags & abi::kCompletionWithInvalidate, 0);
  EXPECT_EQ(got->imm, key);
  EXPECT_EQ(write(near, far, 0, key), Status::kRemoteAccessError);
}

TEST_P(Windows, InvalidationWaitsForTheReceive) {
  Buffer& near = a.make_buffer(64);
  Buffer& far = b.make_buffer(256, kOpen);
  const std::uint32_t key = bind(window(b), far, 0, 256);
  a.post(*pair.qa, {.opcode = abi::Opcode::kSendWithInvalidate, .sge = {near.all()}, .rkey = key});
  pair.run_for(std::chrono::milliseconds(2));
  b.post_receive(*pair.qb, {far.all()});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
}

TEST_P(Windows, ForeignOnesCannotBeBoundOrInvalidated) {
  Buffer& own = a.make_buffer(64, kOpen);
  Buffer& far = b.make_buffer(64, kOpen);
  const std::uint32_t key = bind(window(b), far, 0, 64);
  const std::uint32_t unbound = window(b);
  a.post(*pair.qa, bind_work(unbound, own, 0, 64));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kBindError);
  pair.connect_pair();
  a.post(*pair.qa, {.opcode = abi::Opcode::kLocalInvalidate, .rkey = key});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kLocalQpOperationError);
  const auto* const window = b.adapter.engine.memory().windows().lookup(key);
  ASSERT_NE(window, nullptr);
  EXPECT_NE(window->bound, 0);
}

TEST_P(Windows, TheRegionOfAnotherTenantCannotBeOpened) {
  Buffer& near = a.make_buffer(64);
  Buffer& far = b.make_buffer(64, kOpen);
  const std::uint32_t key = window(a);
  Work work = bind_work(key, near, 0, 64);
  work.swap = far.key;
  work.remote_addr = far.addr();
  a.post(*pair.qa, work);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kBindError);
}

TEST_P(Windows, BindingWaitsForWhatWasPostedBefore) {
  Buffer& near = b.make_buffer(1 << 20);
  Buffer& far = a.make_buffer(1 << 20);
  Buffer& open = b.make_buffer(64, kOpen);
  const std::uint32_t key = window(b);
  b.post(*pair.qb, access(abi::Opcode::kRdmaWrite, near, far, 0, far.key));
  b.post(*pair.qb, bind_work(key, open, 0, 64));
  b.post(*pair.qb, access(abi::Opcode::kRdmaWrite, near, far, 0, far.key));
  for (const auto opcode : {abi::CompletionOpcode::kRdmaWrite, abi::CompletionOpcode::kBindWindow,
                            abi::CompletionOpcode::kRdmaWrite}) {
    const auto done = pair.wait(*pair.cb);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->status, Status::kSuccess);
    EXPECT_EQ(done->opcode, opcode);
  }
}

TEST_P(Windows, AtomicWriteStoresAWord) {
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(64);
  near.fill(9);
  for (int i = 0; i < 10; ++i) {
    a.post(*pair.qa, access(abi::Opcode::kAtomicWrite, near, far, 8, far.key));
    const auto done = pair.wait(*pair.ca);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->status, Status::kSuccess);
    EXPECT_EQ(done->opcode, abi::CompletionOpcode::kAtomicWrite);
  }
  EXPECT_EQ(std::memcmp(far.data() + 8, near.data(), 8), 0);
}

TEST_P(Windows, AtomicWriteNeedsAWholeWord) {
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(64);
  Work longer = access(abi::Opcode::kAtomicWrite, near, far, 8, far.key);
  longer.sge = {near.part(0, 4)};
  a.post(*pair.qa, longer);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kLocalLengthError);
  pair.connect_pair();
  a.post(*pair.qa, access(abi::Opcode::kAtomicWrite, near, far, 12, far.key));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteInvalidRequestError);
  EXPECT_TRUE(far.is_zero());
}

INSTANTIATE_TEST_SUITE_P(BothWays, Windows, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
