// What local delivery asks of the adapter around it: the other end, and the copy between the two.
#pragma once

#include <cstdint>

#include "daemon/transport/upcalls.hpp"

namespace softhca::transport {

/// The other end of a local connection, as it is in one step.
struct LocalPeer {
  RemoteMemory& memory;
  ReceiveSource& receives;
  QueuePairEvents& events;
  std::uint8_t max_dest_rd_atomic;
  std::uint8_t min_rnr_timer;
};

class LocalLink {
 public:
  /// How drawing a receive of the peer went.
  enum class Draw : std::uint8_t {
    kTaken,
    kEmpty,
    kUnusable,  ///< its queue is not to be used again
  };
  /// How a copy went. One number, since gcc returns two by way of memory, which costs more than all
  /// the rest of the call.
  class Moved {
   public:
    /// `peer_at_fault`: not kOk, and its memory is to blame.
    constexpr explicit Moved(Verdict verdict = Verdict::kOk, bool peer_at_fault = false)
        : bits_(static_cast<unsigned>(verdict) | (peer_at_fault ? kPeer : 0)) {}
    constexpr Verdict verdict() const { return static_cast<Verdict>(bits_ & ~kPeer); }
    constexpr bool peer_at_fault() const { return (bits_ & kPeer) != 0; }

   private:
    static constexpr unsigned kPeer = 0x100;
    unsigned bits_;
  };

  /// Does this end execute requests? Not once it is about to fail.
  virtual bool goes_on() const = 0;
  /// Looks for the other end; null: there is none that is connected to this one. What follows is
  /// about the one found last.
  virtual const LocalPeer* find_peer() = 0;

  /// Do the rates of the other end, and the memory of both, let the request begin?
  virtual bool is_within_rate(const Request& request) const = 0;
  /// This end waits for its turn from now on. REQUIRES: !is_within_rate().
  virtual void wait_for_rate(const Request& request) = 0;
  /// Does it still?
  virtual bool waits_for_rate() const = 0;

  /// Does the memory of both ends let the message at hand go on? If not, a turn follows when it
  /// does.
  virtual bool may_go_on() const = 0;

  /// Has a receive been drawn, and not completed?
  virtual bool has_drawn() const = 0;
  /// Could a receive be drawn? True also when only drawing can tell.
  virtual bool has_receive() const = 0;
  /// Draws a receive. REQUIRES: !has_drawn().
  virtual Draw draw() = 0;
  /// Bytes that the receive drawn holds.
  virtual std::uint64_t drawn_bytes() const = 0;

  /// Copies bytes [offset, offset+bytes) of a send, write or read. kBusy: it is to be called again
  /// with the same offset and as many bytes or fewer, in a turn that follows.
  virtual Moved move(const Request& request, std::uint32_t offset, std::uint32_t bytes) = 0;
  /// Runs an atomic or atomic write, its result into the memory of this end. kBusy: as move().
  virtual Moved run_atomic(const Request& request) = 0;
  /// `bytes` were moved, at the beginning of a message or in it. Returns what that takes of the
  /// budget.
  virtual std::uint64_t charge(std::uint32_t bytes, bool begins) = 0;
  /// A message begins, and counts for the rates of the other end.
  virtual void begins(const Request& request) = 0;
  /// A message has arrived whole.
  virtual void arrived(const Request& request) = 0;

 protected:
  ~LocalLink() = default;
};

}  // namespace softhca::transport
