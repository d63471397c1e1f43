// SPDX-License-Identifier: Apache-2.0

// Every opcode after every other one, on one reliable connection, against the rule in short
// (InfiniBand specification, volume 1, 9.7.4.1.2 and table 37): a message is first, middles, last,
// or only; sends and writes do not mix; whatever does not follow is an invalid request. What is no
// request of a reliable connection never reaches the responder.
#include <gtest/gtest.h>

#include "tests/packets/peer.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::packets {
namespace {

using wire::OpcodeInfo;

constexpr std::uint32_t kMtu = 256;

class OpcodePairs : public testing::Test {
 protected:
  OpcodePairs() {
    auto [left, right] = port::MemoryPort::make_pair();
    engine::Adapter& adapter = world.add();
    adapter.add_port(std::move(left), engine::address(1));
    adapter.add_tenant("a", engine::address(1), PortId(0));
    peer = std::make_unique<Peer>(std::move(right), engine::address(2), engine::address(1));
    process = std::make_unique<engine::Process>(adapter, *adapter.tenants[0]);
    memory = &process->make_buffer(4096);
    (void)adapter.engine.ports()[0]->neighbours->resolve(engine::address(2), world.now);
    step();
  }
  ~OpcodePairs() override { process->end(); }

  void step() {
    for (int i = 0; i < 8; ++i) {
      world.step();
      peer->listen(world.now);
    }
  }
  /// A connection that has two receives, and answers PSN 0 first.
  void connect() {
    cq = &process->make_cq();
    qp = &process->make_qp(*cq, *cq);
    bring_up(*process, *qp, Qpn(0x123), engine::address(2), {.mtu = kMtu});
    process->reset(*qp);
    qp->qp.state = engine::QpState::kInit;
    process->adapter.engine.queue_pairs().enter_ready_to_receive(qp->qp, Psn(0));
    process->adapter.engine.queue_pairs().enter_ready_to_send(qp->qp, Psn(0));
    for (int i = 0; i < 2; ++i) process->post_receive(*qp, {memory->all()});
  }
  /// One packet that is right in itself: only its place may be wrong.
  void send(std::uint8_t opcode, std::uint32_t psn, std::uint32_t announced) {
    const OpcodeInfo& info = wire::opcode_info(opcode);
    wire::Headers h;
    h.opcode = opcode;
    h.destination = qp->qp.qpn;
    h.psn = Psn(psn);
    h.ack_request = true;
    h.rkey = Rkey(memory->key);
    h.remote_addr = memory->addr();
    std::size_t length = 0;
    if (info.mask.has_all(wire::kPayload)) length = info.mask.has_all(wire::kEnd) ? 8 : kMtu;
    h.dma_length = info.mask.has_all(wire::kEnd) ? 8 : announced;
    Arguments none;
    peer->send(h, std::vector<std::byte>(length), none);
    step();
  }

  engine::World world;
  std::unique_ptr<Peer> peer;
  std::unique_ptr<engine::Process> process;
  engine::Buffer* memory = nullptr;
  engine::TestCq* cq = nullptr;
  engine::TestQp* qp = nullptr;
};

enum class Answer { kNone, kOk, kInvalid, kNoSuchKey };

/// What the rule says, one packet after the other.
class Rule {
 public:
  Answer next(const OpcodeInfo& info) {
    if (failed_ || info.transport != wire::Transport::kRc || !info.mask.has_all(wire::kRequest))
      return Answer::kNone;
    const bool start = info.mask.has_all(wire::kStart);
    const bool follows = !start && info.mask.has_any(inside_);
    if (is_inside() ? !follows : !start) return fail(Answer::kInvalid);
    if (info.mask.has_all(wire::kIeth)) return fail(Answer::kNoSuchKey);
    if (info.mask.has_all(wire::kEnd))
      inside_ = wire::OpcodeMask();
    else
      inside_ = info.mask.has_all(wire::kSend) ? wire::kSend : wire::kWrite;
    return Answer::kOk;
  }

 private:
  Answer fail(Answer answer) {
    failed_ = true;
    return answer;
  }
  bool is_inside() const { return !(inside_ == wire::OpcodeMask()); }

  wire::OpcodeMask inside_;  ///< of which kind of message
  bool failed_ = false;
};

bool is_plain(const OpcodeInfo& info) {
  return info.is_known() &&
         info.mask.has_any(wire::kSend | wire::kWrite | wire::kRead | wire::kAtomic | wire::kAeth);
}

Answer heard(Peer& peer) {
  const auto answer = peer.next();
  if (!answer) return Answer::kNone;
  EXPECT_FALSE(peer.next()) << "one answer";
  switch (answer->parsed.headers.syndrome) {
    case wire::kSyndromeInvalidRequest:
      return Answer::kInvalid;
    case wire::kSyndromeRemoteAccess:
      return Answer::kNoSuchKey;
    default:
      EXPECT_EQ(answer->parsed.headers.syndrome & 0xe0, wire::kSyndromeAck);
      return Answer::kOk;
  }
}

class AfterOpcode : public OpcodePairs, public testing::WithParamInterface<unsigned> {};

TEST_P(AfterOpcode, EveryOther) {
  const auto first = static_cast<std::uint8_t>(GetParam());
  for (unsigned i = 0; i < 256; ++i) {
    const auto second = static_cast<std::uint8_t>(i);
    if (!is_plain(wire::opcode_info(second))) continue;
    SCOPED_TRACE(std::string("then ") + wire::opcode_info(second).name);
    connect();
    // What a first packet announces leaves room for the second.
    const bool middle = wire::opcode_info(second).mask.has_all(wire::kMiddle);
    const std::uint32_t announced = middle ? 2 * kMtu + 8 : kMtu + 8;
    Rule rule;
    std::uint32_t psn = 0;
    for (const std::uint8_t opcode : {first, second}) {
      const Answer wanted = rule.next(wire::opcode_info(opcode));
      send(opcode, psn, announced);
      EXPECT_EQ(heard(*peer), wanted) << wire::opcode_info(opcode).name;
      if (wanted == Answer::kOk) ++psn;
    }
    process->destroy(*qp);
  }
}

std::vector<unsigned> plain_opcodes() {
  std::vector<unsigned> all;
  for (unsigned i = 0; i < 256; ++i)
    if (is_plain(wire::opcode_info(static_cast<std::uint8_t>(i)))) all.push_back(i);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Packets, AfterOpcode, testing::ValuesIn(plain_opcodes()),
                         [](const testing::TestParamInfo<unsigned>& opcode) {
                           return wire::opcode_info(static_cast<std::uint8_t>(opcode.param)).name;
                         });

}  // namespace
}  // namespace softhca::packets
