// SPDX-License-Identifier: Apache-2.0

// The engine's side of a session's memory (abi/session.hpp): active and released bits, VCB pages,
// doorbell ring, parking. One engine thread uses it.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>

#include "abi/session.hpp"
#include "daemon/tenant_memory/untrusted.hpp"

namespace softhca::shm {

class SessionView {
 public:
  /// Initialises zeroed memory of abi::session_bytes(vcbs) bytes before a tenant maps it. Grants
  /// all VCBs.
  static void format(std::byte* base, std::uint32_t vcbs,
                     std::uint32_t version = abi::kAbiVersion) {
    auto* header = reinterpret_cast<abi::SessionHeader*>(base);
    header->magic = abi::kSessionMagic;
    header->version = version;
    header->vcbs = vcbs;
    header->granted = below(vcbs);
  }

  /// The memory of a session: header and doorbells; VCB pages, behind them or elsewhere.
  struct Places {
    std::byte* base;
    std::byte* vcbs;
    Places(std::byte* whole) : base(whole), vcbs(whole + abi::kVcbOffset) {}  // NOLINT: implicit
    Places(std::byte* head, std::byte* pages) : base(head), vcbs(pages) {}
  };

  /// REQUIRES: formatted memory that outlives the view; vcbs <= kMaxVcbsPerSession.
  /// `doorbells_taken`: the counter to continue from.
  SessionView(Places places, std::uint32_t vcbs, std::uint32_t doorbells_taken = 0)
      : base_(places.base),
        pages_(reinterpret_cast<const abi::VcbPage*>(places.vcbs)),
        mask_(below(vcbs)),
        vcbs_(vcbs),
        doorbells_taken_(doorbells_taken),
        doorbells_seen_(doorbells_taken) {
    assert(vcbs <= abi::kMaxVcbsPerSession);
  }

  /// Continues in memory that an earlier engine has used: as many VCBs are granted as then, and
  /// neither VCBs nor doorbells are taken twice. A tenant that writes where only the engine writes
  /// loses its own commands. The session is not parked. REQUIRES: as for the constructor.
  static SessionView resume(Places places, std::uint32_t vcbs) {
    SessionView view(places, vcbs);
    abi::SessionHeader& header = view.header();
    const std::uint64_t granted = header.granted.load(std::memory_order_seq_cst);
    view.mask_ = below(std::min(vcbs, static_cast<std::uint32_t>(std::bit_width(granted))));
    header.granted.store(view.mask_, std::memory_order_seq_cst);
    view.released_ = header.released.load(std::memory_order_seq_cst);
    view.doorbells_taken_ = view.doorbells_seen_ =
        header.doorbell_consumer.load(std::memory_order_seq_cst);
    view.unpark();
    return view;
  }

  /// Tells the process on which processor the engine runs.
  void set_engine_cpu(unsigned cpu) {
    header().engine_cpu.store(cpu + 1, std::memory_order_relaxed);
  }

  std::uint32_t vcbs() const { return vcbs_; }
  std::uint32_t granted() const { return static_cast<std::uint32_t>(std::bit_width(mask_)); }

  /// Grants the process the VCBs below `count`. REQUIRES: granted() <= count <= vcbs().
  void grant(std::uint32_t count) {
    assert(granted() <= count && count <= vcbs_);
    mask_ = below(count);
    header().granted.store(mask_, std::memory_order_seq_cst);
  }
  /// Revokes the VCBs from `count` on, except those up to the last one that the process has handed
  /// over. Returns how many stay granted. The store and the load after it are seq_cst, as are the
  /// process's post and its read of `granted`. So either this call sees that a revoked VCB was
  /// posted, or the process sees that it is revoked.
  std::uint32_t revoke(std::uint32_t count) {
    if (count >= granted()) return granted();
    header().granted.store(below(count), std::memory_order_seq_cst);
    const std::uint64_t busy =
        (header().active.load(std::memory_order_seq_cst) ^ released_) & mask_;
    mask_ = below(std::max(count, static_cast<std::uint32_t>(std::bit_width(busy))));
    if (granted() > count) header().granted.store(mask_, std::memory_order_seq_cst);
    return granted();
  }

  /// Returns the VCBs that the process has handed to the engine: bit i for VCB i.
  std::uint64_t pending() const {
    return (header().active.load(std::memory_order_acquire) ^ released_) & mask_;
  }

  /// Hands VCBs back to the tenant. REQUIRES: each bit was in a pending() since its last release.
  /// If the tenant toggles an active bit meanwhile, the engine collects its VCB once more.
  void release(std::uint64_t vcb_bits) {
    released_ ^= vcb_bits & mask_;
    header().released.store(released_, std::memory_order_release);
  }

  // --- VCB pages; vcb < vcbs()

  /// Returns the segments written, and possibly kExplicitKick. The tenant may write any value.
  std::uint64_t scoreboard(std::uint32_t vcb) const {
    return page(vcb).scoreboard.load(std::memory_order_acquire);
  }

  /// Copies a whole command, with as much payload as the header says. Not kOk (kLocalQpOperation):
  /// the payload length is impossible; `header` is filled, `payload` is not. `payload` has room for
  /// kCommandPayloadBytes.
  Verdict copy_command(std::uint32_t vcb, abi::CommandHeader& header, std::byte* payload) const {
    const std::uint8_t* from = page(vcb).command;
    copy_once(&header, from, sizeof header);
    const Verdict verdict = check_payload(header, abi::kCommandPayloadBytes);
    if (verdict == Verdict::kOk)
      copy_once(payload, from + abi::kCommandHeaderBytes, header.payload_bytes);
    return verdict;
  }

  /// Copies the 8-byte segments named by bits 0..39 of `segments` and leaves the others as they
  /// are (a command collected in pieces). The caller validates when the command is complete.
  void copy_segments(std::uint32_t vcb, std::uint64_t segments, abi::CommandHeader& header,
                     std::byte* payload) const {
    constexpr std::uint64_t kHeaderSegments = (1u << abi::kCommandHeaderBytes / 8) - 1;
    const std::uint8_t* from = page(vcb).command;
    copy_runs(reinterpret_cast<std::byte*>(&header), from, segments & kHeaderSegments);
    copy_runs(payload, from + abi::kCommandHeaderBytes,
              (segments & abi::kAllSegments) >> abi::kCommandHeaderBytes / 8);
  }

  // --- doorbells

  /// Copies the oldest doorbell. kHostile: the producer index claims more doorbells than the ring
  /// holds. Every later call returns the same; the caller ends the session. The doorbell itself is
  /// unvalidated. take_doorbell() follows when it is recorded for the next engine.
  Take next_doorbell(abi::Doorbell& out) {
    if (doorbells_seen_ == doorbells_taken_) {
      doorbells_seen_ = header().doorbell_producer.load(std::memory_order_acquire);
      if (doorbells_seen_ == doorbells_taken_) return Take::kEmpty;
    }
    if (doorbells_seen_ - doorbells_taken_ > abi::kDoorbellEntries) return Take::kHostile;
    const auto* ring = reinterpret_cast<const abi::Doorbell*>(base_ + abi::kDoorbellOffset);
    copy_once(&out, &ring[doorbells_taken_ % abi::kDoorbellEntries], sizeof out);
    return Take::kTaken;
  }
  /// Takes the doorbell and publishes that its slot is free. REQUIRES: next_doorbell() returned it.
  void take_doorbell() {
    header().doorbell_consumer.store(++doorbells_taken_, std::memory_order_release);
  }

  /// True if the doorbell ring is not empty.
  bool rung() const {
    return header().doorbell_producer.load(std::memory_order_acquire) != doorbells_taken_;
  }
  /// Returns the number of doorbells in the ring: at most kDoorbellEntries, whatever the process
  /// claims.
  std::uint32_t doorbells() const {
    const std::uint32_t rung = header().doorbell_producer.load(std::memory_order_acquire);
    return std::min(rung - doorbells_taken_, abi::kDoorbellEntries);
  }
  /// True if the process has handed over a doorbell, or a VCB that is not in `ignored`.
  bool has_work(std::uint64_t ignored = 0) const { return (pending() & ~ignored) != 0 || rung(); }

  // --- parking

  /// Asks the tenant to write to the wake eventfd at its next post. Returns false, and does not
  /// park, if work arrived meanwhile; VCBs in `ignored` do not count. The store and the loads after
  /// it are seq_cst, as are the tenant's post and its read of `parked`. One of the two sees the
  /// other, so no wake-up is lost.
  bool park(std::uint64_t ignored = 0) {
    header().parked.store(1, std::memory_order_seq_cst);
    const std::uint64_t active = header().active.load(std::memory_order_seq_cst);
    const std::uint32_t doorbells = header().doorbell_producer.load(std::memory_order_seq_cst);
    if (((active ^ released_) & mask_ & ~ignored) == 0 && doorbells == doorbells_taken_)
      return true;
    unpark();
    return false;
  }
  void unpark() { header().parked.store(0, std::memory_order_seq_cst); }

 private:
  abi::SessionHeader& header() const { return *reinterpret_cast<abi::SessionHeader*>(base_); }
  const abi::VcbPage& page(std::uint32_t vcb) const {
    assert(vcb < vcbs_);
    return pages_[vcb];
  }

  static void copy_runs(std::byte* to, const std::uint8_t* from, std::uint64_t segments) {
    while (segments != 0) {
      const auto first = static_cast<std::size_t>(std::countr_zero(segments));
      const auto count = static_cast<std::size_t>(std::countr_one(segments >> first));
      copy_once(to + first * 8, from + first * 8, count * 8);
      segments &= ~(((std::uint64_t{1} << count) - 1) << first);
    }
  }

  static std::uint64_t below(std::uint32_t count) {
    return count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  }

  std::byte* base_;
  const abi::VcbPage* pages_;
  std::uint64_t mask_;          ///< the granted VCBs
  std::uint64_t released_ = 0;  ///< the value written to `released`; never read back
  std::uint32_t vcbs_;
  std::uint32_t doorbells_taken_;
  std::uint32_t doorbells_seen_;  ///< producer as last read
};

}  // namespace softhca::shm
