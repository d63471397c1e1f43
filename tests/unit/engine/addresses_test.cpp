// SPDX-License-Identifier: Apache-2.0

// A tenant's addresses change while a program of it connects: it has told its peer the one it read,
// and its queue pair gets the one that stands in the table when it is connected.
#include "daemon/engine/addresses/peer_address.hpp"
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

class AddressesTest : public BothWays {
 protected:
  AddressesTest() : pair(GetParam()) {
    pair.qa = &a.make_qp(*pair.ca, *pair.ca);
    pair.qb = &b.make_qp(*pair.cb, *pair.cb);
    here = &a.make_buffer(5000);
    there = &b.make_buffer(5000);
    if (!local()) a.adapter.engine.ports()[0]->neighbours->add_address({address(9), 24, true});
  }

  /// Sets the address table of `a`. Queue pairs get its first entry.
  void set_table(const std::vector<Gid>& now, const std::vector<Gid>& former) {
    const std::optional<PortId> port = local() ? std::nullopt : std::optional(PortId(0));
    std::vector<Tenant::Address> addresses, before;
    for (const Gid& gid : now) addresses.push_back({gid, port});
    for (const Gid& gid : former) before.push_back({gid, port});
    a.adapter.engine.addresses().set(a.tenant, addresses, before);
  }
  void connect_naming(const Gid& gid) {
    bring_up(a, *pair.qa, pair.qb->qp.qpn, b.tenant.addresses[0].gid);
    bring_up(b, *pair.qb, pair.qa->qp.qpn, gid);
  }
  Status write(Process& from, TestQp& qp, TestCq& cq, Buffer& source, Buffer& target) {
    source.fill(++round);
    from.post(qp, {.opcode = abi::Opcode::kRdmaWrite,
                   .sge = {source.all()},
                   .remote_addr = target.addr(),
                   .rkey = target.key});
    const Status status = pair.wait_status(cq);
    EXPECT_EQ(status == Status::kSuccess, source.equals(target));
    return status;
  }
  Status to_a() { return write(b, *pair.qb, *pair.cb, *there, *here); }
  Status to_b() { return write(a, *pair.qa, *pair.ca, *here, *there); }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Buffer* here = nullptr;
  Buffer* there = nullptr;
  unsigned round = 0;
};

TEST_P(AddressesTest, ThePeerMayNameTheFormerOne) {
  set_table({address(9)}, {address(1)});
  connect_naming(address(1));
  EXPECT_EQ(to_a(), Status::kSuccess);
  EXPECT_EQ(to_b(), Status::kSuccess);
}

TEST_P(AddressesTest, OrTheOneThatCame) {
  connect_naming(address(9));
  set_table({address(9)}, {address(1)});
  b.adapter.engine.queue_pairs().apply_attributes(pair.qb->qp);
  EXPECT_EQ(to_a(), Status::kSuccess);
  EXPECT_EQ(to_b(), Status::kSuccess);
}

TEST_P(AddressesTest, EitherEndMaySendFirst) {
  set_table({address(9)}, {address(1)});
  connect_naming(address(1));
  EXPECT_EQ(to_b(), Status::kSuccess);
}

TEST_P(AddressesTest, AnotherOfItsOwnIsNotTheOneOfTheQueuePair) {
  set_table({address(1), address(9)}, {});
  connect_naming(address(9));
  EXPECT_EQ(to_a(), Status::kRetryExceededError);
}

TEST_P(AddressesTest, NorIsOneThatIsGoneForGood) {
  set_table({address(9)}, {});
  connect_naming(address(1));
  EXPECT_EQ(to_a(), Status::kRetryExceededError);
}

/// Retransmissions alternate between the address that the program named and the former ones, and
/// keep off another address of the tenant. When the former ones are gone, the named one is left.
TEST_P(AddressesTest, RetransmissionsComeBackToTheNamedOne) {
  set_table({address(9)}, {});
  connect_naming(address(9));
  set_table({address(8), address(9)}, {address(1)});
  const Gid& source = pair.qa->qp.connection.route.path.source;
  for (int turn = 0; turn < 2; ++turn) {
    try_other_source(pair.qa->qp);
    EXPECT_EQ(source, address(1));
    try_other_source(pair.qa->qp);
    EXPECT_EQ(source, address(9));
  }
  try_other_source(pair.qa->qp);
  set_table({address(8), address(9)}, {});
  try_other_source(pair.qa->qp);
  EXPECT_EQ(source, address(9));
}

INSTANTIATE_TEST_SUITE_P(Both, AddressesTest, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
