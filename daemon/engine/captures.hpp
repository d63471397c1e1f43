// Captures that the operator has asked for: packets of tenants, as they are or would be on the
// wire, go into the ring of each (capture_ring.hpp). With none, a packet costs one branch, on().
// The engine does not wait for whoever reads a ring: what finds no room there is counted.
//
// Packets are told singly, also those that travel as a train, with the time of their poll step.
// Who sees them: PacketIo (sent, lost, malformed), demux_capture (received, with why they were
// dropped), captured_link and datagrams_capture (those that stay inside the daemon).
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/engine/capture_remarks.hpp"
#include "daemon/engine/capture_ring.hpp"
#include "daemon/engine/clock.hpp"
#include "daemon/engine/port_binding.hpp"
#include "daemon/engine/tenant.hpp"
#include "daemon/wire/frame.hpp"

namespace softhca::engine {

struct QueuePair;

struct CaptureOptions {
  std::string tenant;          ///< its packets alone; empty: all packets
  std::optional<PortId> port;  ///< what passes this port alone
  std::uint32_t snaplen = 0;   ///< bytes of a frame that are kept, at most
  /// Time of day (since 1970-01-01 00:00 UTC) less time of the engine.
  std::chrono::nanoseconds time_of_day{};
};

/// What a queue pair would have sent, had it not been for local delivery: the requester's side.
struct CapturedFlow {
  Psn next;
  Psn message;                ///< first number of the message under way
  std::uint32_t packets = 0;  ///< of it; 0: none is under way
  Psn sequence;               ///< messages that have arrived, 24 bits
  bool begun = false;         ///< false: `next` is not known yet
};

/// One capture.
class Capture {
 public:
  using Part = CaptureRing::Part;

  struct Sizes {
    std::size_t tenants;
    std::size_t queue_pairs;
  };
  /// `memory`: as for CaptureRing. It outlives the capture.
  Capture(std::span<std::byte> memory, CaptureOptions options, const Sizes& sizes);

  /// How a packet goes.
  struct Passage {
    const Tenant* tenant;     ///< whose it is; null: nobody's
    const PortBinding* port;  ///< null: it stays inside the daemon
    abi::CaptureDirection direction;
    CaptureRemark remark;
  };
  bool wants(const Passage& passage);
  void add(const Passage& passage, std::span<const Part> parts, Time when);

 private:
  friend class Captures;
  /// Of pcapng: one for what a tenant has on the wire, one for what stays inside, one for what
  /// comes by a port and is no tenant's.
  struct Interface {
    enum class State : std::uint8_t { kNew, kUnwanted, kNumbered, kAnnounced } state = State::kNew;
    std::uint16_t id = 0;
  };
  struct OfTenant {
    Interface wire, local;
  };

  void forget(const Tenant& tenant);
  Interface* interface_of(const Passage& passage);
  void decide(Interface& at, const Passage& passage);
  bool announce(Interface& at, const Passage& passage);

  CaptureRing ring_;
  CaptureOptions options_;
  std::vector<OfTenant> of_tenant_;  ///< by TenantId
  std::vector<Interface> of_port_;   ///< by PortId
  std::vector<CapturedFlow> flows_;  ///< for Captures, made where there is time
  std::uint16_t next_id_ = 0;
  bool others_announced_ = false;
};

class Captures {
 public:
  using Part = Capture::Part;

  Captures(const StepClock& clock, const Capture::Sizes& sizes) : clock_(clock), sizes_(sizes) {}
  /// On any thread.
  const Capture::Sizes& sizes() const { return sizes_; }

  // --- in tasks
  void add(Capture& capture);
  void remove(Capture& capture);
  /// The tenant is about to go.
  void forget(const Tenant& tenant);

  /// False: nothing else here is to be called.
  bool on() const { return on_; }

  void sent(const PortBinding& port, const Tenant* tenant, std::span<const Part> parts,
            CaptureRemark remark = CaptureRemark::kNone);
  void received(const PortBinding& port, const Tenant* tenant, std::span<const Part> parts,
                CaptureRemark remark);
  void received(const PortBinding& port, const Tenant* tenant, const wire::ParsedFrame& frame,
                CaptureRemark remark);
  /// Stays inside the daemon. It is told once: as sent, unless only its receiver's packets are
  /// wanted.
  void local(const Tenant* from, const Tenant* to, std::span<const std::byte> frame,
             CaptureRemark remark);

  /// Makes a frame that does not exist. `read(std::span<std::byte>)` fills in its payload, or
  /// returns false: it stays 0. Valid until the next call. REQUIRES: at most kMostPayload bytes.
  template <class Read>
  std::span<const std::byte> build(const wire::FramePath& path, const wire::Headers& h,
                                   std::size_t payload, Read&& read) {
    const wire::FrameTemplate frame(path);
    wire::FrameBuilder builder(scratch_, frame, h, payload, 0);
    if (payload != 0 && !read(builder.payload()))
      std::fill(builder.payload().begin(), builder.payload().end(), std::byte{0});
    return std::span(scratch_).first(builder.finish());
  }
  static constexpr std::size_t kMostPayload = 8192;

  /// Begins with the first number that the program has set, at the first message that is seen.
  CapturedFlow& flow_of(const QueuePair& qp);
  /// The queue pair begins anew.
  void restart(const QueuePair& qp);

 private:
  void add_to_all(const Capture::Passage& passage, std::span<const Part> parts);

  const StepClock& clock_;
  const Capture::Sizes sizes_;
  bool on_ = false;
  std::vector<Capture*> captures_;
  std::vector<CapturedFlow> flows_;  ///< by slot, while there are captures
  std::array<std::byte, kMostPayload + 256> scratch_;
};

}  // namespace softhca::engine
