// SPDX-License-Identifier: Apache-2.0

// What a program writes into the memory that it shares with the engine: commands and receives, and
// whatever else it likes.
#include <algorithm>

#include "abi/checksum.hpp"
#include "tests/fuzz/requests/program.hpp"
#include "tests/unit/engine/fixture/queue_pairs.hpp"

namespace softhca::fuzz {
namespace {

constexpr abi::Opcode kOpcodes[] = {
    abi::Opcode::kRdmaWrite,   abi::Opcode::kRdmaWriteWithImm,   abi::Opcode::kSend,
    abi::Opcode::kSendWithImm, abi::Opcode::kRdmaRead,           abi::Opcode::kCompareSwap,
    abi::Opcode::kFetchAdd,    abi::Opcode::kLocalInvalidate,    abi::Opcode::kBindWindow,
    abi::Opcode::kFlush,       abi::Opcode::kSendWithInvalidate, abi::Opcode::kAtomicWrite};

/// The program overwrites a part of its memory.
void overwrite(Input& input, std::byte* base, std::size_t bytes) {
  const std::size_t at = input.take<std::uint16_t>() % bytes;
  const auto from = input.bytes(std::min<std::size_t>(input.byte() % 72, bytes - at));
  if (!from.empty()) std::memcpy(base + at, from.data(), from.size());
}

}  // namespace

std::uint64_t Program::any_place() {
  const auto at = input_.take<std::uint16_t>();
  if (at == 0xffff) return input_.take<std::uint64_t>();
  return at < 0xf000 ? kIova + at % 4160 : at % 4160;
}

std::vector<abi::ScatterGather> Program::any_entries() {
  std::vector<abi::ScatterGather> list;
  for (std::uint32_t n = input_.below(Srq::kMaxSge + 1); n > 0; --n) {
    const std::uint8_t length = input_.byte();
    list.push_back(
        {any_place(), length < 250 ? length * 8u : 0xfffffff0u, common_.names.keys.any(input_)});
  }
  return list;
}

std::uint32_t Program::any_queue_pair_number() {
  const std::uint8_t choice = input_.byte();
  if (choice < 32) return 1 + choice % 2;  // the daemon's own
  return choice < 48 ? engine::kMulticastQpn.value : common_.names.queue_pairs.any(input_);
}

/// Hands over a command, well made or spoilt, in a VCB or by a doorbell.
void Program::post() {
  Qp* const held = any_held();
  if (held == nullptr || !held->engine.sends()) return;
  engine::TestQp& qp = held->test;
  engine::Work work;
  work.opcode = kOpcodes[input_.byte() % std::size(kOpcodes)];
  work.flags = input_.byte() & 0x0f;
  if ((work.flags & abi::kCommandInline) != 0)
    work.bytes.resize(input_.byte());
  else
    work.sge = any_entries();
  work.remote_addr = any_place();
  work.rkey = common_.names.keys.any(input_);
  work.swap = common_.names.keys.any(input_);
  work.compare_add = input_.byte();
  work.imm = engine::Process::kFull & input_.byte();
  if (held->engine.type == engine::QpType::kUd) {
    work.remote_qpn = any_queue_pair_number();
    work.remote_qkey = input_.byte() < 240 ? kQkey : engine::kGeneralServicesQkey;
    work.address_handle = common_.names.address_handles.any(input_);
  }
  work.remote_srq = common_.names.receive_queues.any(input_);
  const std::uint8_t how = input_.byte();
  if ((how & 0x80) != 0 && (how & 1) != 0)
    qp.sequence += static_cast<std::uint32_t>(input_.take<std::int8_t>());
  const std::uint32_t sequence = engine::write_command(qp, work);
  auto& header = *reinterpret_cast<abi::CommandHeader*>(qp.slot(sequence));
  if ((how & 2) != 0)
    header.checksum = abi::command_checksum(header, qp.slot(sequence) + sizeof header);
  if ((how & 0x80) != 0 && (how & 4) != 0) header.payload_bytes = input_.take<std::uint16_t>();
  if ((how & 0x80) != 0 && (how & 8) != 0) header.qpn = any_queue_pair_number();
  auto& session = *reinterpret_cast<abi::SessionHeader*>(memory_->base());
  if ((how & 0x10) != 0 || places_ == 0) {
    const std::uint32_t at = session.doorbell_producer.load();
    auto* doorbells = reinterpret_cast<abi::Doorbell*>(memory_->base() + abi::kDoorbellOffset);
    doorbells[at % abi::kDoorbellEntries] = {header.qpn, qp.sequence};
    session.doorbell_producer.store(at + 1);
    return;
  }
  const std::uint32_t vcb = input_.byte() % places_;
  auto& page = reinterpret_cast<abi::VcbPage*>(memory_->base() + abi::kVcbOffset)[vcb];
  std::uint64_t segments = abi::kAllSegments;
  if ((how & 0x20) != 0) segments = input_.take<std::uint64_t>();
  std::memcpy(page.command, qp.slot(sequence),
              std::min<std::size_t>(qp.stride, sizeof page.command));
  page.scoreboard.store(segments);
  if ((how & 0x40) == 0) session.active.fetch_xor(std::uint64_t{1} << vcb);
}

void Program::ring() {
  auto& session = *reinterpret_cast<abi::SessionHeader*>(memory_->base());
  const std::uint32_t at = session.doorbell_producer.load();
  auto* doorbells = reinterpret_cast<abi::Doorbell*>(memory_->base() + abi::kDoorbellOffset);
  const Qp* const qp = common_.any_queue_pair();
  const std::uint32_t end = (qp != nullptr ? qp->test.sequence : 0) +
                            static_cast<std::uint32_t>(input_.take<std::int8_t>());
  doorbells[at % abi::kDoorbellEntries] = {
      qp != nullptr ? qp->engine.qpn.value : input_.take<std::uint32_t>(), end};
  session.doorbell_producer.store(at + 1);
}

void Program::post_receive() {
  const auto list = any_entries();
  if (input_.flag()) {
    if (Srq* const srq = any(srqs_)) srq->post(list);
    return;
  }
  Qp* const qp = any_held();
  if (qp == nullptr || !qp->engine.receives()) return;
  qp->test.receives.post(qp->test.next_receive++, list);
}

void Program::scribble() {
  auto& session = *reinterpret_cast<abi::SessionHeader*>(memory_->base());
  switch (input_.below(8)) {
    case 0:
      return overwrite(input_, memory_->base(), sizeof session);
    case 1:
      return overwrite(input_, memory_->base() + abi::kDoorbellOffset,
                       abi::kDoorbellEntries * sizeof(abi::Doorbell));
    case 2:
      if (places_ == 0) return;
      return overwrite(input_, memory_->base() + abi::kVcbOffset, places_ * sizeof(abi::VcbPage));
    case 3:
      if (Qp* const qp = any_held(); qp != nullptr && qp->engine.sends())
        overwrite(input_, qp->test.slot(0),
                  shm::SendRing::bytes_for(qp->engine.sq.ring.entries(), qp->test.stride));
      return;
    case 4:
      if (Qp* const qp = any_held(); qp != nullptr && qp->engine.receives())
        overwrite(input_, qp->test.receives.base(),
                  shm::ReceiveRing::bytes_for(qp->engine.rq.ring.entries(), Srq::kMaxSge));
      return;
    case 5:
      if (Srq* const srq = any(srqs_))
        overwrite(input_, srq->ring->base(),
                  shm::ReceiveRing::bytes_for(srq->engine.ring.entries(), Srq::kMaxSge));
      return;
    case 6:
      if (Cq* const cq = any(cqs_))
        overwrite(input_, cq->ring->base(),
                  shm::CompletionRing::bytes_for(cq->engine.ring.entries()));
      return;
    default:
      session.active.fetch_xor(input_.byte());
  }
}

}  // namespace softhca::fuzz
