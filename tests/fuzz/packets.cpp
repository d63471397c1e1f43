// SPDX-License-Identifier: Apache-2.0

// A live queue pair of a whole engine, and a peer on the wire that sends it any sequence of packets
// while the process posts and time passes. The input gives packet sequence numbers relative to the
// expected ones, so that most packets pass the sequence check.
#include "daemon/roce/wire/opcode.hpp"
#include "tests/fuzz/arena.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/wire_peer.hpp"

namespace softhca::engine {
namespace {

using fuzz::Arena;
using fuzz::Input;
using fuzz::require;
using fuzz::WirePeer;

constexpr std::uint32_t kPeerQpn = 0x77;
constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::uint32_t kMtu = 256;
constexpr std::uint32_t kEntries = 8;
constexpr Psn kFirstPsn(0xfffff0);  // as bring_up() gives both directions

std::vector<std::uint8_t> opcodes_of(wire::Transport transport) {
  std::vector<std::uint8_t> out;
  for (unsigned i = 0; i < 256; ++i)
    if (wire::kOpcodeTable[i].transport == transport) out.push_back(static_cast<std::uint8_t>(i));
  return out;
}

const std::vector<std::uint8_t>& opcodes_of(QpType type) {
  static const auto kRc = opcodes_of(wire::Transport::kRc);
  static const auto kUc = opcodes_of(wire::Transport::kUc);
  static const auto kUd = opcodes_of(wire::Transport::kUd);
  return type == QpType::kRc ? kRc : type == QpType::kUc ? kUc : kUd;
}

/// Little to set up, so that there are many runs a second.
EngineLimits small_limits() {
  EngineLimits limits = Adapter::small_limits();
  limits.levels = 1;
  return limits;
}

class Run {
 public:
  explicit Run(Input& input) : input_(input) {
    auto [near, far] = port::MemoryPort::make_pair({.buffers = 64, .mtu = 1500});
    const MacAddress mac = near->mac();
    adapter_.add_port(std::move(near), address(1));
    peer_ = std::make_unique<WirePeer>(std::move(far), address(2), address(1), mac);
    Tenant& ours = adapter_.add_tenant("a", address(1), PortId(0));
    process_ = std::make_unique<Process>(adapter_, ours);
    other_ = std::make_unique<Process>(adapter_, adapter_.add_tenant("b", address(3)));
    arena_ = std::make_unique<Arena>(*process_);
    arena_->add_parts();
    untouched_ = std::make_unique<Arena>(*other_);
    untouched_->add_parts();
    make_queue_pair();
  }

  void run() {
    while (!input_.done()) {
      step();
      world_.steps(2);
      settle();
    }
    world_.run_for(std::chrono::milliseconds(20));
    settle();
    arena_->check();
    untouched_->check();
    process_->end();
    other_->end();
    adapter_.expect_idle();
  }

 private:
  void make_queue_pair() {
    static constexpr QpType kTypes[] = {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kRc};
    const std::uint32_t kind = input_.below(4);
    type_ = kTypes[kind];
    TestSrq* srq = kind == 3 ? &process_->make_srq(kEntries) : nullptr;
    cq_ = &process_->make_cq(64);
    qp_ = &process_->make_qp(*cq_, *cq_,
                             {.type = type_,
                              .send_entries = kEntries,
                              .receive_entries = kEntries,
                              .srq = srq,
                              .signal_all = true});
    receives_ = srq != nullptr ? &srq->ring : &qp_->receives;
    handle_ = process_->make_ah(address(2));
    bring_up_again();
  }
  void bring_up_again() {
    if (type_ == QpType::kUd)
      bring_up_datagram(*process_, *qp_, kQkey);
    else
      bring_up(*process_, *qp_, Qpn(kPeerQpn), address(2), {.mtu = kMtu, .rnr_retry = 2});
    expected_ = type_ == QpType::kUd ? Psn(0) : kFirstPsn;
  }
  std::size_t mtu() const { return type_ == QpType::kUd ? qp_->qp.rc.mtu : kMtu; }

  void step() {
    switch (input_.below(16)) {
      default:
        return send_packet();
      case 8:
      case 9:
        return post();
      case 10:
      case 11:
        return post_receive();
      case 12:
        return answer();
      case 13:
        return world_.run_for(std::chrono::microseconds(20 * input_.byte()));
      case 14:
        return peer_->send_raw(input_.bytes(input_.byte()));
      case 15:
        return change_state();
    }
  }

  /// Any packet, most of them fitting.
  void send_packet() {
    wire::Headers h;
    const auto& opcodes = opcodes_of(type_);
    const std::uint8_t choice = input_.byte();
    h.opcode = choice < 0xf0 ? opcodes[choice % opcodes.size()] : input_.byte();
    const wire::OpcodeInfo& info = wire::opcode_info(h.opcode);
    if (!info.is_known()) return;
    const std::uint8_t flags = input_.byte();
    h.ack_request = (flags & 1) != 0;
    h.solicited = (flags & 2) != 0;
    h.fecn = h.becn = (flags & 4) != 0;
    h.destination =
        (flags & 0xf8) == 0xf8 ? Qpn(input_.take<std::uint32_t>() & 0xffffff) : qp_->qp.qpn;
    h.psn = base_psn(info) + static_cast<std::uint32_t>(input_.take<std::int8_t>());
    const std::size_t payload =
        info.mask.has_all(wire::kPayload) ? payload_length(input_.byte()) : 0;
    fill_extended(h, info, payload);
    note_request(h, info);
    peer_->send(h, payload);
  }

  Psn base_psn(const wire::OpcodeInfo& info) {
    if (!info.mask.has_all(wire::kResponse)) return expected_;
    const auto& requests = peer_->requests();
    if (requests.empty()) return kFirstPsn;
    return requests[input_.byte() % requests.size()].headers.psn;
  }
  static std::size_t payload_length(std::uint8_t code) {
    return code < 192 ? code : code < 240 ? kMtu : kMtu + (code - 247) * 4;
  }

  void fill_extended(wire::Headers& h, const wire::OpcodeInfo& info, std::size_t payload) {
    if (info.mask.has_any(wire::kReth | wire::kAtomicEth)) {
      h.rkey = Rkey(key());
      h.remote_addr = far_address();
      const std::uint8_t length = input_.byte();
      h.dma_length = length < 128   ? static_cast<std::uint32_t>(payload)
                     : length < 250 ? (length - 128u) * 16
                                    : input_.take<std::uint32_t>();
      h.swap_add = input_.byte();
      h.compare = input_.byte();
    }
    if (info.mask.has_any(wire::kAeth)) {
      h.syndrome = input_.byte();
      h.msn = input_.byte();
      h.original = h.msn;
    }
    if (info.mask.has_any(wire::kDeth)) {
      h.qkey = input_.byte() < 250 ? kQkey : 1;
      h.source = Qpn(kPeerQpn);
    }
    h.imm = 5;
    if (info.mask.has_any(wire::kIeth)) h.invalidate = Rkey(key());
    h.xrc_srq = input_.flag() ? 1 : 0;
  }

  /// Returns a key of the process under test, a key of another process, or an arbitrary number.
  std::uint32_t key() {
    const std::uint8_t choice = input_.byte();
    const auto& mine = arena_->parts();
    if (choice < 200) return mine[choice < 120 ? 0 : choice % mine.size()].key;
    if (choice < 250) return untouched_->parts()[choice % untouched_->parts().size()].key;
    return input_.take<std::uint32_t>();
  }
  std::uint64_t far_address() {
    const auto at = input_.take<std::uint16_t>();
    if (at == 0xffff) return input_.take<std::uint64_t>();
    return Arena::kIova + at % (Arena::kBytes + 64);
  }

  /// What the packet allows the engine to write, and which one is due after it.
  void note_request(const wire::Headers& h, const wire::OpcodeInfo& info) {
    if (info.mask.has_all(wire::kReth | wire::kWrite))
      arena_->open(h.rkey.value, h.remote_addr, h.dma_length, memory::kRemoteWrite);
    if (info.mask.has_all(wire::kAtomicEth))
      arena_->open(h.rkey.value, h.remote_addr, 8, memory::kRemoteAtomic);
    if (!info.mask.has_all(wire::kRequest) || h.psn != expected_) return;
    const bool read = info.mask.has_all(wire::kRead);
    expected_ = expected_ + (read ? std::max(1u, (h.dma_length + kMtu - 1) / kMtu) : 1);
  }

  std::vector<abi::ScatterGather> entries(bool written) {
    std::vector<abi::ScatterGather> list;
    for (std::uint32_t n = input_.below(4); n > 0; --n) {
      const abi::ScatterGather entry{far_address(), input_.byte() * 4u, key()};
      if (written) arena_->open(entry.lkey, entry.addr, entry.length, memory::kLocalWrite);
      list.push_back(entry);
    }
    return list;
  }

  void post() {
    if (posted_ - completed_ >= kEntries) return;
    static constexpr abi::Opcode kOpcodes[] = {abi::Opcode::kSend,
                                               abi::Opcode::kRdmaWrite,
                                               abi::Opcode::kRdmaRead,
                                               abi::Opcode::kFetchAdd,
                                               abi::Opcode::kCompareSwap,
                                               abi::Opcode::kSendWithImm,
                                               abi::Opcode::kRdmaWriteWithImm,
                                               abi::Opcode::kSendWithInvalidate};
    Work work;
    work.opcode = kOpcodes[input_.below(std::size(kOpcodes))];
    const std::uint8_t flags = input_.byte();
    work.flags = flags & (abi::kCommandFence | abi::kCommandSignaled | abi::kCommandSolicited);
    const bool written = work.opcode == abi::Opcode::kRdmaRead ||
                         work.opcode == abi::Opcode::kFetchAdd ||
                         work.opcode == abi::Opcode::kCompareSwap;
    if ((flags & 0x10) != 0 && !written) {
      work.flags |= abi::kCommandInline;
      work.bytes.resize(input_.byte());
    } else {
      work.sge = entries(written);
    }
    work.remote_addr = far_address();
    work.rkey = key();
    work.remote_qpn = kPeerQpn;
    work.remote_qkey = kQkey;
    work.address_handle = handle_;
    process_->post(*qp_, work, (flags & 0x20) != 0 ? Process::Way::kDoorbell : Process::Way::kVcb);
    ++posted_;
  }

  void post_receive() {
    if (received_posted_ - received_ >= kEntries) return;
    const auto list = entries(true);
    std::uint64_t bytes = 0;
    for (const abi::ScatterGather& entry : list) bytes += entry.length;
    receive_bytes_[received_posted_ % kEntries] = bytes;
    receives_->post(received_posted_++, list);
  }

  /// What an honest peer would answer to one of the latest requests.
  void answer() {
    const auto& requests = peer_->requests();
    if (requests.empty() || type_ != QpType::kRc) return;
    const auto& request = requests[requests.size() - 1 - input_.byte() % requests.size()];
    const wire::OpcodeMask mask = wire::opcode_info(request.headers.opcode).mask;
    wire::Headers h;
    h.destination = qp_->qp.qpn;
    h.psn = request.headers.psn;
    h.syndrome = wire::kSyndromeNoCreditLimit;
    h.msn = input_.byte();
    if (mask.has_all(wire::kAtomic)) {
      h.opcode = wire::raw(wire::Opcode::kRcAtomicAck);
    } else if (!mask.has_all(wire::kRead)) {
      h.opcode = wire::raw(wire::Opcode::kRcAck);
    } else {
      return answer_read(h, request.headers.dma_length);
    }
    peer_->send(h, 0);
  }
  void answer_read(wire::Headers h, std::uint32_t length) {
    for (bool first = true; first || length > 0; first = false) {
      const std::uint32_t part = std::min(length, kMtu);
      const bool last = part == length;
      h.opcode = wire::raw(first && last ? wire::Opcode::kRcReadResponseOnly
                           : first       ? wire::Opcode::kRcReadResponseFirst
                           : last        ? wire::Opcode::kRcReadResponseLast
                                         : wire::Opcode::kRcReadResponseMiddle);
      peer_->send(h, part);
      ++h.psn;
      length -= part;
    }
  }

  void change_state() {
    Engine& engine = adapter_.engine;
    switch (input_.below(4)) {
      case 0:
        engine.queue_pairs().enter_error(qp_->qp);
        break;
      case 1:
        if (qp_->qp.state == QpState::kRts)
          engine.queue_pairs().enter_drain(qp_->qp, input_.flag());
        break;
      case 2:
        if (qp_->qp.state == QpState::kSqd)
          engine.queue_pairs().enter_ready_to_send(qp_->qp, kFirstPsn);
        break;
      case 3:
        return start_again();
    }
  }
  void start_again() {
    adapter_.engine.queue_pairs().reset(qp_->qp, 0);
    (void)cq_->poll_all();
    qp_->sequence = posted_ = completed_ = 0;
    if (receives_ == &qp_->receives) {
      receives_->restart();
      received_posted_ = received_ = 0;
    }
    failed_ = false;
    peer_->forget();
    bring_up_again();
  }

  /// Takes in what has come of the step.
  void settle() {
    peer_->drain(mtu());
    if (const auto seen = peer_->take_acknowledged())
      expected_ = seen->syndrome < 0x20 ? seen->psn + 1 : seen->psn;
    while (const auto completion = cq_->poll()) check(*completion);
  }
  void check(const Completed& c) {
    require(c.qpn == qp_->qp.qpn.value, "completions name the queue pair");
    if (c.is_receive) return check_receive(c);
    require(c.index == completed_ && completed_ < posted_, "each command completes once, in order");
    ++completed_;
    require(!failed_ || c.status != abi::CompletionStatus::kSuccess,
            "nothing succeeds after a failure");
    failed_ = failed_ || c.status != abi::CompletionStatus::kSuccess;
  }
  void check_receive(const Completed& c) {
    // One drawn from a shared queue is gone without a word when its queue pair is reset.
    const bool shared = receives_ != &qp_->receives;
    require(c.index < received_posted_ && (c.index == received_ || (shared && c.index > received_)),
            "each receive completes once, in order");
    const std::uint64_t room = receive_bytes_[c.index % kEntries];
    received_ = c.index + 1;
    if (c.status == abi::CompletionStatus::kSuccess && c.opcode == abi::CompletionOpcode::kReceive)
      require(c.byte_len <= room, "a message fits its receive");
  }

  Input& input_;
  World world_;
  Adapter& adapter_ = world_.add(small_limits());
  std::unique_ptr<WirePeer> peer_;
  std::unique_ptr<Process> process_, other_;
  std::unique_ptr<Arena> arena_, untouched_;
  QpType type_ = QpType::kRc;
  TestCq* cq_ = nullptr;
  TestQp* qp_ = nullptr;
  ReceivePoster* receives_ = nullptr;
  std::uint32_t handle_ = 0;
  Psn expected_;                 ///< request packet that is due, as far as the peer knows
  std::uint32_t posted_ = 0;     ///< commands
  std::uint32_t completed_ = 0;  ///< of them
  bool failed_ = false;          ///< one of them has failed
  std::uint32_t received_posted_ = 0;
  std::uint32_t received_ = 0;
  std::uint64_t receive_bytes_[kEntries] = {};
};

}  // namespace
}  // namespace softhca::engine

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // What the fixtures expect holds here too.
  GTEST_FLAG_SET(break_on_failure, true);
  softhca::fuzz::Input input(data, size);
  softhca::engine::Run(input).run();
  return 0;
}
