// SPDX-License-Identifier: Apache-2.0

// Upcalls of local delivery to the adapter around it: the other end, and the copy between both.
#pragma once

#include <cstdint>

#include "daemon/roce/transport/upcalls.hpp"

namespace softhca::transport {

/// The other end of a local connection, during one step.
struct LocalPeer {
  RemoteMemory& memory;
  ReceiveSource& receives;
  QueuePairEvents& events;
  Psn& expected;      ///< PSN of the next packet; the sending end moves it on
  std::uint32_t mtu;  ///< path MTU in bytes
  std::uint8_t max_dest_rd_atomic;
  std::uint8_t min_rnr_timer;
};

class LocalLink {
 public:
  /// Result of drawing a receive of the peer.
  enum class Draw : std::uint8_t {
    kTaken,
    kEmpty,
    kUnusable,  ///< the queue must not be used again
  };
  /// Result of a copy. It is one number: gcc returns two through memory, which costs more than the
  /// rest of the call.
  class Moved {
   public:
    /// `peer_at_fault`: the verdict is not kOk, because of the peer's memory.
    constexpr explicit Moved(Verdict verdict = Verdict::kOk, bool peer_at_fault = false)
        : bits_(static_cast<unsigned>(verdict) | (peer_at_fault ? kPeer : 0)) {}
    constexpr Verdict verdict() const { return static_cast<Verdict>(bits_ & ~kPeer); }
    constexpr bool peer_at_fault() const { return (bits_ & kPeer) != 0; }

   private:
    static constexpr unsigned kPeer = 0x100;
    unsigned bits_;
  };

  /// True if this end executes requests. False if it is about to fail.
  virtual bool goes_on() const = 0;
  /// Returns the other end, or null if none is connected to this one. The calls below refer to the
  /// end found last.
  virtual const LocalPeer* find_peer() = 0;

  /// True if the request may begin, given the rate limits of the other end and the memory of both.
  virtual bool is_within_rate(const Request& request) const = 0;
  /// Makes this end wait for its turn. REQUIRES: !is_within_rate().
  virtual void wait_for_rate(const Request& request) = 0;
  /// True if this end still waits for its turn.
  virtual bool waits_for_rate() const = 0;

  /// True if the memory of both ends lets the current message continue. If not, transmit() is
  /// called when it does.
  virtual bool may_go_on() const = 0;

  /// True if a receive is drawn and not completed.
  virtual bool has_drawn() const = 0;
  /// True if a receive may be available. Also true if only draw() can tell.
  virtual bool has_receive() const = 0;
  /// Draws a receive. REQUIRES: !has_drawn().
  virtual Draw draw() = 0;
  /// Returns the bytes that the drawn receive holds.
  virtual std::uint64_t drawn_bytes() const = 0;

  /// Copies bytes [offset, offset+bytes) of a send, write or read. After kBusy it must be called
  /// again, in a later turn, with the same offset and at most as many bytes.
  virtual Moved move(const Request& request, std::uint32_t offset, std::uint32_t bytes) = 0;
  /// Runs an atomic or atomic write and stores its result in the memory of this end. kBusy: as
  /// move().
  virtual Moved run_atomic(const Request& request) = 0;
  /// Records that `bytes` were moved, at the start of a message (`begins`) or inside it. Returns
  /// their cost in units of the budget.
  virtual std::uint64_t charge(std::uint32_t bytes, bool begins) = 0;
  /// Records the start of a message for the rate limits of the other end.
  virtual void begins(const Request& request) = 0;
  /// Records that a message has arrived completely.
  virtual void arrived(const Request& request) = 0;

 protected:
  ~LocalLink() = default;
};

}  // namespace softhca::transport
