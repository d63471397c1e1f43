// SPDX-License-Identifier: Apache-2.0

// Replays captures of a kernel's RoCE (tests/wire) to this adapter. The requests of each capture of
// a reliable connection go to a queue pair of its own. The responses must match the captured ones
// packet for packet, except for addresses, numbers and credits.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/packets/peer.hpp"
#include "tests/unit/engine/fixture/process.hpp"
#include "tests/unit/roce/wire/pcap.hpp"

namespace softhca::packets {
namespace {

constexpr std::size_t kCaptureMemory = 1 << 20;

/// A packet of a capture, with the frame it points into.
struct Captured {
  test::Bytes bytes;
  wire::ParsedFrame frame;
  bool is_request = false;
};

std::vector<Captured> packets_of(const std::string& file) {
  std::vector<Captured> packets;
  for (test::Bytes& bytes : test::read_capture(file)) {
    Captured packet{std::move(bytes), {}, false};
    if (wire::parse_frame(packet.bytes, packet.frame) != wire::DropReason::kNone) continue;
    const auto& info = wire::opcode_info(packet.frame.headers.opcode);
    if (info.transport != wire::Transport::kRc) continue;
    packet.is_request = info.mask.has_all(wire::kRequest);
    packets.push_back(std::move(packet));
  }
  return packets;
}

bool is_rnr(const wire::Headers& h) { return (h.syndrome & 0xe0) == wire::kSyndromeRnr; }

/// One answer in words. Credits are each responder's own.
std::string said(const wire::Headers& h, std::size_t length) {
  const auto& info = wire::opcode_info(h.opcode);
  std::ostringstream out;
  out << info.name << " psn " << h.psn.value() << " length " << length;
  if (info.mask.has_all(wire::kAeth))
    out << " msn " << h.msn << " syndrome " << ((h.syndrome & 0xe0) == 0 ? 0u : h.syndrome);
  return out.str();
}

struct Circumstances {
  bool knows_key = true;           ///< the key of the capture stands for a region here
  std::size_t receive = 64 << 10;  ///< bytes
};

class Replay {
 public:
  explicit Replay(const std::vector<Captured>& packets, const Circumstances& circumstances = {})
      : packets_(packets), circumstances_(circumstances) {
    auto [left, right] = port::MemoryPort::make_pair();
    engine::Adapter& adapter = world_.add();
    adapter.add_port(std::move(left), engine::address(1));
    adapter.add_tenant("a", engine::address(1), PortId(0));
    peer_ = std::make_unique<Peer>(std::move(right), engine::address(2), engine::address(1));
    process_ = std::make_unique<engine::Process>(adapter, *adapter.tenants[0]);
    memory_ = &process_->make_buffer(kCaptureMemory);
    (void)adapter.engine.ports()[0]->neighbours->resolve(engine::address(2), world_.now);
    step();
    connect();
  }
  ~Replay() { process_->end(); }

  void run(std::vector<std::string>& ours, std::vector<std::string>& theirs) {
    for (std::size_t i = 0; i < packets_.size(); ++i) {
      const Captured& packet = packets_[i];
      if (!packet.is_request) {
        theirs.push_back(said(packet.frame.headers, packet.frame.payload.size()));
        continue;
      }
      if (needs_receive(i))
        process_->post_receive(*qp_, {memory_->part(kCaptureMemory / 2, circumstances_.receive)});
      ask(packet.frame);
      step();
      while (const auto heard = peer_->next())
        ours.push_back(said(heard->parsed.headers, heard->parsed.payload.size()));
    }
  }

 private:
  void connect() {
    engine::TestCq& cq = process_->make_cq(256);
    qp_ = &process_->make_qp(cq, cq, {.receive_entries = 64});
    engine::Connection connection{.mtu = 1024, .max_rd_atomic = 16};
    Psn first;
    bool found = false;
    for (const Captured& packet : packets_) {
      const wire::Headers& h = packet.frame.headers;
      const auto mask = wire::opcode_info(h.opcode).mask;
      if (packet.is_request && !found) {
        first = h.psn;
        found = true;
      }
      // A packet that another follows in its message is as long as the path MTU.
      if (mask.has_all(wire::kPayload) && !mask.has_all(wire::kEnd))
        connection.mtu = static_cast<std::uint32_t>(packet.frame.payload.size());
      if (!packet.is_request && is_rnr(h)) connection.min_rnr_timer = h.syndrome & 0x1f;
      if (packet.is_request && mask.has_any(wire::kReth | wire::kAtomicEth) && !key_) {
        key_ = h.rkey;
        base_ = h.remote_addr;
      }
    }
    bring_up(*process_, *qp_, Qpn(0x123), engine::address(2), connection);
    process_->reset(*qp_);
    qp_->qp.state = engine::QpState::kInit;
    process_->adapter.engine.queue_pairs().enter_ready_to_receive(qp_->qp, first);
    process_->adapter.engine.queue_pairs().enter_ready_to_send(qp_->qp, first);
  }
  /// True: the packet draws the receive of its message, and the next answer does not say that there
  /// was none.
  bool needs_receive(std::size_t i) const {
    const wire::Headers& h = packets_[i].frame.headers;
    const auto mask = wire::opcode_info(h.opcode).mask;
    const bool draws = (mask.has_all(wire::kSend) && mask.has_all(wire::kStart)) ||
                       (mask.has_all(wire::kWrite) && mask.has_all(wire::kImmDt));
    if (!draws) return false;
    const auto answer =
        std::find_if(packets_.begin() + static_cast<std::ptrdiff_t>(i), packets_.end(),
                     [](const Captured& p) { return !p.is_request; });
    return answer == packets_.end() || !is_rnr(answer->frame.headers);
  }
  void ask(const wire::ParsedFrame& frame) {
    wire::Headers h = frame.headers;
    h.destination = qp_->qp.qpn;
    if (circumstances_.knows_key && key_ && h.rkey == *key_) h.rkey = Rkey(memory_->key);
    // Their memory begins somewhere below the first address used.
    h.remote_addr = h.remote_addr - base_ + memory_->addr() + kCaptureMemory / 4;
    Arguments none;
    peer_->send(h, frame.payload, none);
  }
  void step() {
    for (int i = 0; i < 100; ++i) {
      world_.step(Duration(100));
      peer_->listen(world_.now);
    }
  }

  const std::vector<Captured>& packets_;
  const Circumstances circumstances_;
  engine::World world_;
  std::unique_ptr<Peer> peer_;
  std::unique_ptr<engine::Process> process_;
  engine::Buffer* memory_ = nullptr;
  engine::TestQp* qp_ = nullptr;
  std::optional<Rkey> key_;
  std::uint64_t base_ = 0;
};

class KernelCapture : public testing::TestWithParam<std::string> {};

TEST_P(KernelCapture, IsAnsweredAlike) {
  const std::vector<Captured> packets = packets_of(GetParam() + ".pcap");
  ASSERT_FALSE(packets.empty());
  std::vector<std::string> ours, theirs;
  Replay(packets).run(ours, theirs);
  EXPECT_EQ(ours, theirs);
}

/// Not among them: what needs other circumstances, below, and the invalidation of a region that a
/// kernel's consumer has made for it.
std::vector<std::string> captures() {
  const std::set<std::string> others = {"rc_err_send_toolong", "rc_err_write_rkey", "rc_send_inv"};
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::capture_directory())) {
    const std::string name = entry.path().stem();
    const bool reliable = name.starts_with("rc_") || name.starts_with("atomic_");
    if (entry.path().extension() == ".pcap" && reliable && !others.contains(name))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Packets, KernelCapture, testing::ValuesIn(captures()),
                         [](const testing::TestParamInfo<std::string>& name) {
                           return name.param;
                         });

TEST(KernelCaptures, WrongKey) {
  const std::vector<Captured> packets = packets_of("rc_err_write_rkey.pcap");
  std::vector<std::string> ours, theirs;
  Replay(packets, {.knows_key = false}).run(ours, theirs);
  ASSERT_EQ(theirs.size(), 1u);
  EXPECT_EQ(ours, theirs);
}

/// The kernel says "remote operational error", the specification "invalid request".
TEST(KernelCaptures, MessageLongerThanItsReceive) {
  const std::vector<Captured> packets = packets_of("rc_err_send_toolong.pcap");
  std::vector<std::string> ours, theirs;
  Replay(packets, {.receive = 512}).run(ours, theirs);
  EXPECT_EQ(theirs, std::vector<std::string>{"RC_ACK psn 1193046 length 0 msn 0 syndrome 99"});
  EXPECT_EQ(ours, std::vector<std::string>{"RC_ACK psn 1193046 length 0 msn 0 syndrome 97"});
}

}  // namespace
}  // namespace softhca::packets
