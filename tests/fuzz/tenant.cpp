// SPDX-License-Identifier: Apache-2.0

// A process that writes whatever it likes into all the memory it shares with the daemon, between
// any two poll steps, beside others: within one daemon, or with its peers across a link. Only it
// may suffer.
#include <array>

#include "abi/checksum.hpp"
#include "tests/fuzz/arena.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using fuzz::Arena;
using fuzz::Input;
using fuzz::require;

constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::uint32_t kEntries = 4;
constexpr std::uint32_t kCqEntries = 16;
constexpr std::uint32_t kFarEntries = 16;

/// Little to set up, so that there are many runs a second.
EngineLimits small_limits() {
  EngineLimits limits = Adapter::small_limits();
  limits.levels = 1;
  limits.doorbells.entries = 4;  // so that they overflow
  limits.doorbells.threshold = 1;
  return limits;
}

class Run {
 public:
  explicit Run(Input& input)
      : input_(input),
        wire_(input.flag()),
        pair_(wire_ ? Way::kWire : Way::kLocal, {}, small_limits(), {.buffers = 64, .mtu = 1500}),
        evil_(*pair_.adapters[0], add_tenant()),
        peers_(wire_ ? *pair_.b : *pair_.a) {
    pair_.connect_pair();
    target_ = &pair_.b->make_buffer(64);
    source_ = &pair_.a->make_buffer(64);
    mine_.add_parts();
    theirs_.add_parts();
    make_queue_pairs();
    open_arenas();
  }

  void run() {
    while (!input_.done()) step();
    pair_.steps(5);
    mine_.check();
    theirs_.check();
    require(pair_.qa->qp.state == QpState::kRts && pair_.qb->qp.state == QpState::kRts,
            "others' connections stand");
    others_work();
    evil_.end();
    pair_.run_for(std::chrono::milliseconds(10));
    // The destructor of the pair checks that both adapters are idle.
  }

 private:
  Tenant& add_tenant() {
    Adapter& adapter = *pair_.adapters[0];
    if (wire_) adapter.engine.ports()[0]->neighbours->add_address({address(3), 24, true});
    return adapter.add_tenant("evil", address(3), wire_ ? std::optional(PortId(0)) : std::nullopt);
  }

  void make_queue_pairs() {
    cq_ = &evil_.make_cq(kCqEntries, 50);
    srq_ = &evil_.make_srq(kEntries);
    QpOptions options{.send_entries = kEntries, .receive_entries = kEntries};
    add(&evil_.make_qp(*cq_, *cq_, options));
    options.srq = srq_;
    add(&evil_.make_qp(*cq_, *cq_, options));
    options.srq = nullptr;
    options.type = QpType::kUc;
    add(&evil_.make_qp(*cq_, *cq_, options));
    options.type = QpType::kUd;
    add(&evil_.make_qp(*cq_, *cq_, options));
    handle_ = evil_.make_ah(address(wire_ ? 2 : 3));
    TestCq& far_cq = wire_ ? *pair_.cb : *pair_.ca;
    far_ = &peers_.make_qp(far_cq, far_cq, {.send_entries = kFarEntries});
    bring_up(peers_, *far_, qps_[0]->qp.qpn, address(3), kConnection);
    for (std::size_t i = 0; i < qps_.size(); ++i) bring_up_again(i);
  }
  void add(TestQp* qp) { qps_[count_++] = qp; }

  /// The first is connected with an honest process, the others with themselves.
  void bring_up_again(std::size_t i) {
    TestQp& qp = *qps_[i];
    if (i == 3) return bring_up_datagram(evil_, qp, kQkey);
    if (i == 0)
      bring_up(evil_, qp, far_->qp.qpn, peers_.tenant.addresses[0].gid, kConnection);
    else
      bring_up(evil_, qp, qp.qp.qpn, address(3), kConnection);
  }

  /// What others may change: that is for their owners to say, once for all.
  void open_arenas() {
    const Arena::Part& shared = theirs_.parts()[0];
    theirs_.open(shared.key, Arena::kIova, Arena::kBytes, memory::kRemoteWrite);
    for (const Arena::Part& part : mine_.parts())
      mine_.open(part.key, Arena::kIova, Arena::kBytes, memory::kLocalWrite);
  }

  void step() {
    switch (input_.below(14)) {
      case 0:
        return scribble();
      case 1:
      case 2:
      case 3:
        return command();
      case 4:
        return evil_.ring(pick_qpn(), any_sequence(*qps_[input_.below(4)]));
      case 5:
        return receive();
      case 6:
        return pair_.steps(1 + input_.below(8));
      case 7:
        return pair_.run_for(std::chrono::microseconds(20 * input_.byte()));
      case 8:
        return change_state();
      case 9:
        return park();
      case 10:
        return set_index();
      case 11:
        return peer_posts();
      case 12:
        (void)cq_->poll_all();
        return;
      case 13:
        evil_.header().active.fetch_xor(input_.byte());
        return;
    }
  }

  void scribble() {
    const auto write = [&](std::byte* base, std::size_t bytes) {
      const std::size_t at = input_.take<std::uint16_t>() % bytes;
      const auto from = input_.bytes(std::min<std::size_t>(input_.byte() % 72, bytes - at));
      if (!from.empty()) std::memcpy(base + at, from.data(), from.size());
    };
    TestQp& qp = *qps_[input_.below(4)];
    switch (input_.below(6)) {
      case 0:
        return write(evil_.memory() + abi::kDoorbellOffset, abi::kDoorbellEntries * 8);
      case 1:
        return write(reinterpret_cast<std::byte*>(&evil_.vcb(input_.below(Process::kVcbs))), 464);
      case 2:
        return write(qp.slot(0), shm::SendRing::bytes_for(kEntries, qp.stride));
      case 3:
        return write(qp.receives.base(), shm::ReceiveRing::bytes_for(kEntries, 4));
      case 4:
        return write(srq_->ring.base(), shm::ReceiveRing::bytes_for(kEntries, 4));
      case 5:
        return write(evil_.memory(), sizeof(abi::SessionHeader));
    }
  }

  std::uint32_t pick_qpn() {
    const std::uint8_t choice = input_.byte();
    if (choice < 240) return qps_[choice % 4]->qp.qpn.value;
    if (choice < 248) return pair_.qa->qp.qpn.value;
    return input_.take<std::uint32_t>();
  }
  std::uint32_t any_sequence(const TestQp& qp) {
    return qp.sequence + static_cast<std::uint32_t>(input_.take<std::int8_t>());
  }
  std::uint32_t key() {
    const std::uint8_t choice = input_.byte();
    if (choice < 128) return mine_.parts()[choice % 3].key;
    if (choice < 240) return theirs_.parts()[choice % 3].key;
    // Keys cannot be guessed; where the peer is its owner, this one is withheld.
    return choice < 250 && !wire_ ? target_->key : input_.take<std::uint32_t>();
  }
  std::uint64_t any_address() {
    const auto at = input_.take<std::uint16_t>();
    if (at == 0xffff) return input_.take<std::uint64_t>();
    return Arena::kIova + at % (Arena::kBytes + 64);
  }
  std::vector<abi::ScatterGather> entries() {
    std::vector<abi::ScatterGather> list;
    for (std::uint32_t n = input_.below(5); n > 0; --n) {
      const std::uint8_t length = input_.byte();
      list.push_back({any_address(), length < 250 ? length * 8u : 0xfffffff0u, key()});
    }
    return list;
  }

  /// A plausible command, with what the input wants spoilt of it, by one of the two ways.
  void command() {
    TestQp& qp = *qps_[input_.below(4)];
    Work work;
    work.opcode = static_cast<abi::Opcode>(input_.below(11));
    work.flags = input_.byte() & 0x0f;
    if ((work.flags & abi::kCommandInline) != 0)
      work.bytes.resize(input_.byte());
    else
      work.sge = entries();
    work.remote_addr = any_address();
    work.rkey = key();
    work.remote_qpn = pick_qpn();
    work.remote_qkey = kQkey;
    work.address_handle = handle_;
    const std::uint8_t how = input_.byte();
    if ((how & 1) != 0) qp.sequence += static_cast<std::uint32_t>(input_.take<std::int8_t>());
    const std::uint32_t sequence = evil_.write_command(qp, work);
    auto& header = *reinterpret_cast<abi::CommandHeader*>(qp.slot(sequence));
    if ((how & 2) != 0)
      header.checksum = abi::command_checksum(header, qp.slot(sequence) + sizeof header);
    if ((how & 4) != 0) header.payload_bytes = input_.take<std::uint16_t>();
    if ((how & 8) != 0) header.qpn = pick_qpn();
    if ((how & 16) != 0) return evil_.ring(qp.qp.qpn.value, qp.sequence);
    const std::uint32_t vcb = input_.below(Process::kVcbs);
    if ((how & 32) == 0) evil_.vcb(vcb).scoreboard.store(0);
    evil_.fill_vcb(vcb, qp, sequence,
                   (how & 64) != 0 ? input_.take<std::uint64_t>() : abi::kAllSegments);
    if ((how & 128) == 0) evil_.hand_over(vcb);
  }

  void receive() {
    const std::uint32_t which = input_.below(5);
    if (which == 4)
      srq_->ring.post(input_.byte(), entries());
    else
      evil_.post_receive(*qps_[which], entries());
  }

  void set_index() {
    const auto value = static_cast<std::uint32_t>(input_.take<std::int8_t>());
    switch (input_.below(5)) {
      case 0:
        qps_[input_.below(4)]->receives.producer() = value;
        return;
      case 1:
        srq_->ring.producer() = value;
        return;
      case 2:
        evil_.header().doorbell_producer.fetch_add(value);
        return;
      case 3:
        cq_->arm(value);
        return;
      case 4:
        evil_.adapter.engine.receive_queues().set_limit(srq_->srq, value);
        return;
    }
  }

  void change_state() {
    Engine& engine = evil_.adapter.engine;
    const std::size_t i = input_.below(4);
    TestQp& qp = *qps_[i];
    switch (input_.below(4)) {
      case 0:
        return engine.queue_pairs().enter_error(qp.qp);
      case 1:
        if (qp.qp.state == QpState::kRts) engine.queue_pairs().enter_drain(qp.qp, input_.flag());
        return;
      case 2:
        if (qp.qp.state == QpState::kSqd) engine.queue_pairs().enter_ready_to_send(qp.qp, Psn(0));
        return;
      case 3:
        qp.sequence += static_cast<std::uint32_t>(input_.take<std::int8_t>());
        engine.queue_pairs().reset(qp.qp, qp.sequence);
        qp.next_receive = 0;
        qp.receives.restart();
        return bring_up_again(i);
    }
  }

  void park() {
    Engine& engine = evil_.adapter.engine;
    if (evil_.session->parked)
      engine.intake().unpark(*evil_.session);
    else
      (void)engine.intake().park(*evil_.session);
  }

  /// The honest process at the other end of the first connection.
  void peer_posts() {
    if (far_->sequence == kFarEntries) return;  // it polls nothing
    static constexpr abi::Opcode kOpcodes[] = {abi::Opcode::kSend, abi::Opcode::kRdmaWrite,
                                               abi::Opcode::kRdmaRead, abi::Opcode::kFetchAdd};
    const std::uint32_t part = input_.below(2);
    peers_.post(*far_, {.opcode = kOpcodes[input_.below(4)],
                        .sge = {{Arena::kIova + (part == 0 ? 1024 : 1500), input_.byte() * 4u,
                                 theirs_.parts()[0].key}},
                        .remote_addr = any_address(),
                        .rkey = mine_.parts()[input_.below(3)].key});
  }

  /// Data from one honest process to the other, by a connection of theirs.
  void others_work() {
    source_->fill(7);
    pair_.a->post(*pair_.qa, {.opcode = abi::Opcode::kRdmaWrite,
                              .sge = {source_->all()},
                              .remote_addr = target_->addr(),
                              .rkey = target_->key});
    bool done = false;
    (void)pair_.run_until(
        [&] {
          while (const auto c = pair_.ca->poll())
            if (c->qpn == pair_.qa->qp.qpn.value) done = c->status == Status::kSuccess;
          return done;
        },
        std::chrono::seconds(1));
    require(done, "others' commands succeed");
    require(source_->equals(*target_), "and do what they say");
  }

  static constexpr Connection kConnection{.mtu = 256, .retry_count = 1, .rnr_retry = 1};

  Input& input_;
  bool wire_;
  Pair pair_;
  Process evil_;
  Process& peers_;  ///< that evil is connected with
  Arena mine_{evil_};
  Arena theirs_{peers_};
  TestCq* cq_ = nullptr;
  TestSrq* srq_ = nullptr;
  std::array<TestQp*, 4> qps_{};
  std::size_t count_ = 0;
  TestQp* far_ = nullptr;
  std::uint32_t handle_ = 0;
  Buffer* target_ = nullptr;
  Buffer* source_ = nullptr;
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
