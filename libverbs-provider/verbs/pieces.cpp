// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/verbs/pieces.hpp"

#include <bit>
#include <cstring>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/verbs/send_commands.hpp"

namespace softhca::provider {
namespace {

unsigned current_vcb(const OpenCommand& open) { return open.vcbs[open.begun_vcbs - 1]; }

/// True if the chain is written in pieces. An engine that collects pieces takes the cache line from
/// the program each time. By itself, mode kAuto accepts that only if the engine has nothing else to
/// do for this send queue.
bool in_pieces(const Qp& qp, KickMode mode) {
  if (mode != KickMode::kAuto) return mode != KickMode::kWhole;
  return qp.open.first == qp.send.completed.load(std::memory_order_acquire);
}

std::uint64_t all_vcbs(const OpenCommand& open) {
  std::uint64_t bits = 0;
  for (std::uint32_t i = 0; i < open.begun_vcbs; ++i) bits |= std::uint64_t{1} << open.vcbs[i];
  return bits;
}

}  // namespace

void begin_pieces(Qp& qp) {
  OpenCommand& open = qp.open;
  ClientSession& session = qp.context->session;
  open.in_vcb = false;
  open.shown = 0;
  const std::uint32_t place = qp.send.next - open.first;
  if (!in_pieces(qp, session.kick_mode()) || open.error != 0 || place != open.begun_vcbs ||
      place == kLongestVcbChain || doorbell_pends(qp))
    return;
  const ClaimedVcbs claimed = session.claim_vcbs(1);
  if (claimed.bits == 0) return;
  const auto vcb = static_cast<std::uint8_t>(std::countr_zero(claimed.bits));
  if (!session.begin_vcb(vcb)) return;
  open.vcbs[open.begun_vcbs++] = vcb;
  open.in_vcb = true;
}

void show_header(const Qp& qp, unsigned first, unsigned end) {
  const OpenCommand& open = qp.open;
  if (!open.in_vcb) return;
  const std::size_t offset = first * abi::kSegmentBytes;
  qp.context->session.write_piece(current_vcb(open), offset,
                                  reinterpret_cast<const std::byte*>(&open.header) + offset,
                                  (end - first) * abi::kSegmentBytes);
}

void show_payload(Qp& qp, bool all) {
  OpenCommand& open = qp.open;
  constexpr unsigned kWithinSegment = abi::kSegmentBytes - 1;
  const unsigned end =
      all ? open.header.payload_bytes : open.header.payload_bytes & ~kWithinSegment;
  if (!open.in_vcb || end <= open.shown) return;
  qp.context->session.write_piece(current_vcb(open), sizeof open.header + open.shown,
                                  next_payload(qp.send) + open.shown, end - open.shown);
  open.shown = static_cast<std::uint16_t>(end);
}

int finish_pieces(Qp& qp) {
  OpenCommand& open = qp.open;
  ClientSession& session = qp.context->session;
  if (open.begun_vcbs == 0) return announce(qp, open.first);
  for (std::uint32_t i = 0; i < open.begun_vcbs; ++i) {
    const std::byte* command = slot_of(qp.send, open.first + i);
    abi::CommandHeader header;
    std::memcpy(&header, command, sizeof header);
    session.finish_vcb(open.vcbs[i], command, abi::unused_segments(header.payload_bytes));
  }
  const bool handed_over = session.hand_over_finished(all_vcbs(open));
  const bool all = qp.send.next - open.first == open.begun_vcbs;
  return handed_over && all ? 0 : announce_by_doorbell(qp, open.first);
}

void withdraw_pieces(Qp& qp) {
  if (qp.open.begun_vcbs != 0) qp.context->session.withdraw(all_vcbs(qp.open));
}

}  // namespace softhca::provider
