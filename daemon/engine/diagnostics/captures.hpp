// SPDX-License-Identifier: Apache-2.0

// Captures that the operator has started. Packets of tenants, as they are or would be on the wire,
// go into the ring of each capture (capture_ring.hpp). Without captures a packet costs one branch,
// on(). The engine does not wait for the reader of a ring: it counts packets that find no room.
//
// Packets are reported one by one, also those that travel as a train, with the time of their poll
// step. The callers are PacketIo (sent, lost, malformed), demux_capture (received, with the reason
// for a drop), captured_link and ud_sender_capture (those that stay inside the daemon).
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

#include "daemon/engine/diagnostics/capture_remarks.hpp"
#include "daemon/engine/diagnostics/capture_ring.hpp"
#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/engine/records/step_clock.hpp"
#include "daemon/engine/records/tenant.hpp"
#include "daemon/roce/wire/frame.hpp"

namespace softhca::engine {

struct QueuePair;

struct CaptureOptions {
  std::string tenant;          ///< only packets of this tenant; empty: all packets
  std::optional<PortId> port;  ///< only packets that pass this port
  std::uint32_t snaplen = 0;   ///< most bytes of a frame that are kept
  /// Time of day (since 1970-01-01 00:00 UTC) minus engine time.
  std::chrono::nanoseconds time_of_day{};
};

/// PSNs that the requester of a queue pair would have used on the wire, without local delivery.
struct CapturedFlow {
  Psn next;
  Psn message;                ///< first number of the message in progress
  std::uint32_t packets = 0;  ///< of that message; 0: none is in progress
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
  /// `memory`: as for CaptureRing; it outlives the capture.
  Capture(std::span<std::byte> memory, CaptureOptions options, const Sizes& sizes);

  /// Where a packet passes, and in which direction.
  struct Passage {
    const Tenant* tenant;     ///< to which it belongs; null: to none
    const PortBinding* port;  ///< null: it stays inside the daemon
    abi::CaptureDirection direction;
    CaptureRemark remark;
  };
  bool wants(const Passage& passage);
  void add(const Passage& passage, std::span<const Part> parts, Time when);

 private:
  friend class Captures;
  /// An interface of pcapng. A tenant has one for the wire and one for packets inside the daemon. A
  /// port has one for packets that belong to no tenant.
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
  std::vector<CapturedFlow> flows_;  ///< for Captures; allocated before the capture is added
  std::uint16_t next_id_ = 0;
  bool others_announced_ = false;
};

class Captures {
 public:
  using Part = Capture::Part;

  Captures(const StepClock& clock, const Capture::Sizes& sizes) : clock_(clock), sizes_(sizes) {}
  /// May be called on any thread.
  const Capture::Sizes& sizes() const { return sizes_; }

  // --- by requests
  void add(Capture& capture);
  void remove(Capture& capture);
  /// To be called before the tenant is removed.
  void forget(const Tenant& tenant);

  /// True if there are captures. If not, the functions below must not be called.
  bool on() const { return on_; }

  void sent(const PortBinding& port, const Tenant* tenant, std::span<const Part> parts,
            CaptureRemark remark = CaptureRemark::kNone);
  void received(const PortBinding& port, const Tenant* tenant, std::span<const Part> parts,
                CaptureRemark remark);
  void received(const PortBinding& port, const Tenant* tenant, const wire::ParsedFrame& frame,
                CaptureRemark remark);
  /// Reports a packet that stays inside the daemon, once: as sent, or as received if only its
  /// receiver's packets are wanted.
  void local(const Tenant* from, const Tenant* to, std::span<const std::byte> frame,
             CaptureRemark remark);

  /// Builds a frame that is not sent. `read(std::span<std::byte>)` fills in its payload; if it
  /// returns false the payload is 0. The result is valid until the next call. REQUIRES: at most
  /// kMostPayload bytes.
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

  /// Returns the flow of the queue pair. At the first message seen it begins with the PSN that the
  /// program has set.
  CapturedFlow& flow_of(const QueuePair& qp);
  /// To be called when the queue pair begins anew.
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
