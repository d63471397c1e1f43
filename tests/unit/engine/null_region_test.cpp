// SPDX-License-Identifier: Apache-2.0

// Null regions: reads return zeros, writes are dropped, and peers cannot reach them.
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

class NullRegions : public BothWays {
 protected:
  NullRegions() : pair(GetParam()) {
    pair.connect_pair();
    far.fill(5);
    near.fill(3);
  }
  ~NullRegions() { pair.expect_idle(); }

  static std::uint32_t make_null(Process& owner) {
    auto region = memory::Region::make_null(owner.tenant.id, owner.pd);
    return (*owner.adapter.engine.keys().insert(std::move(region)))->key();
  }
  /// So many bytes of the null region of `owner`.
  static abi::ScatterGather null_part(Process& owner, std::uint32_t bytes) {
    return {0xdead0001, bytes, make_null(owner)};
  }
  Status run(const Work& work) {
    a.post(*pair.qa, work);
    return pair.wait_status(*pair.ca);
  }
  static bool same(Buffer& x, std::size_t at_x, Buffer& y, std::size_t at_y, std::size_t bytes) {
    return std::memcmp(x.data() + at_x, y.data() + at_y, bytes) == 0;
  }
  static bool zeros(Buffer& x, std::size_t at, std::size_t bytes) {
    return std::all_of(x.data() + at, x.data() + at + bytes,
                       [](std::byte byte) { return byte == std::byte{0}; });
  }

  static constexpr std::size_t kPart = 100;
  static constexpr std::size_t kHole = 3001;  ///< several packets
  static constexpr std::size_t kBytes = 2 * kPart + kHole;

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Buffer& near = a.make_buffer(kBytes);
  Buffer& far = b.make_buffer(kBytes);
};

TEST_P(NullRegions, SendZeros) {
  b.post_receive(*pair.qb, {far.all()});
  EXPECT_EQ(run({.sge = {near.part(0, kPart), null_part(a, kHole), near.part(kPart, kPart)}}),
            Status::kSuccess);
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
  EXPECT_TRUE(same(far, 0, near, 0, kPart));
  EXPECT_TRUE(zeros(far, kPart, kHole));
  EXPECT_TRUE(same(far, kPart + kHole, near, kPart, kPart));
}

TEST_P(NullRegions, DropWhatIsReceived) {
  b.post_receive(*pair.qb, {far.part(0, kPart), null_part(b, kHole), far.part(kPart, kPart)});
  EXPECT_EQ(run({.sge = {near.all()}}), Status::kSuccess);
  const auto got = pair.wait(*pair.cb);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, Status::kSuccess);
  EXPECT_EQ(got->byte_len, kBytes);
  EXPECT_TRUE(same(far, 0, near, 0, kPart));
  EXPECT_TRUE(same(far, kPart, near, kPart + kHole, kPart));
}

TEST_P(NullRegions, ZerosAreDropped) {
  b.post_receive(*pair.qb, {null_part(b, kHole)});
  EXPECT_EQ(run({.sge = {null_part(a, kHole)}}), Status::kSuccess);
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
}

TEST_P(NullRegions, WriteZeros) {
  EXPECT_EQ(run({.opcode = abi::Opcode::kRdmaWrite,
                 .sge = {null_part(a, kHole)},
                 .remote_addr = far.addr(),
                 .rkey = far.key}),
            Status::kSuccess);
  EXPECT_TRUE(zeros(far, 0, kHole));
  EXPECT_FALSE(zeros(far, kHole, 2 * kPart));
}

TEST_P(NullRegions, DropWhatIsRead) {
  EXPECT_EQ(run({.opcode = abi::Opcode::kRdmaRead,
                 .sge = {null_part(a, kHole), near.part(0, kPart)},
                 .remote_addr = far.addr(),
                 .rkey = far.key}),
            Status::kSuccess);
  EXPECT_TRUE(same(near, 0, far, kHole, kPart));
}

TEST_P(NullRegions, DropTheResultOfAnAtomic) {
  far.words[0] = 40;
  EXPECT_EQ(run({.opcode = abi::Opcode::kFetchAdd,
                 .sge = {null_part(a, 8)},
                 .remote_addr = far.addr(),
                 .rkey = far.key,
                 .compare_add = 2}),
            Status::kSuccess);
  EXPECT_EQ(far.words[0], 42u);
}

TEST_P(NullRegions, AreNotReachedByPeers) {
  const std::uint32_t key = make_null(b);
  for (const abi::Opcode opcode :
       {abi::Opcode::kRdmaWrite, abi::Opcode::kRdmaRead, abi::Opcode::kFetchAdd}) {
    EXPECT_EQ(run({.opcode = opcode, .sge = {near.part(0, 8)}, .remote_addr = 0x1000, .rkey = key}),
              Status::kRemoteAccessError);
    pair.connect_pair();
  }
}

TEST_P(NullRegions, TakeNoWindow) {
  const std::uint32_t window = (*a.adapter.engine.memory().windows().insert(a.pd, true))->key ^ 1;
  EXPECT_EQ(run({.opcode = abi::Opcode::kBindWindow,
                 .imm = memory::kRemoteRead,
                 .remote_addr = 0x1000,
                 .rkey = window,
                 .compare_add = 64,
                 .swap = make_null(a)}),
            Status::kBindError);
}

TEST_P(NullRegions, BelongToTheirDomain) {
  EXPECT_EQ(run({.sge = {null_part(b, 8)}}), Status::kLocalProtectionError);
}

INSTANTIATE_TEST_SUITE_P(BothWays, NullRegions, ::testing::Values(Way::kLocal, Way::kWire),
                         way_name);

}  // namespace
}  // namespace softhca::engine
