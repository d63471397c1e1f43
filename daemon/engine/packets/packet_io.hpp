// SPDX-License-Identifier: Apache-2.0

// Packets from and to the wire: the frames of the ports, the headers before the transport header,
// and the link addresses that those need.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/engine/addresses/local_addresses.hpp"
#include "daemon/engine/diagnostics/captures.hpp"
#include "daemon/engine/diagnostics/faults.hpp"
#include "daemon/engine/packets/peer_authentication.hpp"
#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/engine/receive/payload_reader.hpp"
#include "daemon/engine/records/route.hpp"
#include "daemon/engine/records/step_clock.hpp"
#include "daemon/engine/turns/cpu_scheduler.hpp"
#include "daemon/roce/transport/congestion.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/frame.hpp"

namespace softhca::engine {

/// Whether datagrams to an address can be sent.
enum class Reach : std::uint8_t {
  kReady,    ///< inside this daemon, or the link address is known
  kUnknown,  ///< the link address was requested
  kNone,     ///< no port or network leads to the address
};

class PacketIo {
 public:
  PacketIo(const StepClock& clock, const CongestionParameters& congestion,
           const LocalAddresses& addresses, CpuScheduler& cpu, PayloadReader& payloads,
           EventLog& log, const Capture::Sizes& sizes)
      : clock_(clock),
        congestion_(congestion),
        addresses_(addresses),
        cpu_(cpu),
        payloads_(payloads),
        authentication_(clock, log),
        faults_(clock),
        captures_(clock, sizes) {}

  /// Adds a port. Ports are numbered in the order in which they are added.
  void add_port(std::unique_ptr<PortBinding> binding);
  /// Allocates the memory that the existing ports need for a tenant.
  void add_user(TenantId tenant);
  const std::vector<std::unique_ptr<PortBinding>>& ports() const { return ports_; }
  Captures& captures() { return captures_; }
  Faults& faults() { return faults_; }
  const Faults& faults() const { return faults_; }

  /// Exchanges the table of peers. It takes effect with the next packet. `table`: null for none;
  /// receives the table that was in use before.
  void exchange_peers(std::unique_ptr<PeerTable>& table);
  /// Has the headers of all routes built anew.
  void rebuild_frames();
  PeerAuthentication& authentication() { return authentication_; }

  /// Polls the ports. Calls `take(PortBinding&, const wire::ParsedFrame&)` for each RoCEv2 packet
  /// that is intact and belongs to its port's VLAN. The packet is valid during the call. Other
  /// frames are passed to the neighbour tables, or are dropped and counted. Returns the number of
  /// frames.
  template <class Take>
  std::size_t receive(Take&& take) {
    std::size_t received = 0;
    for (const auto& binding : ports_) {
      const std::size_t count = binding->port->receive(burst_);
      if (count == 0) continue;
      const std::span<const port::Frame> frames = std::span(burst_).first(count);
      received += count;
      const Subject port(Subject::Kind::kPort, binding->id.value);
      clock_.work_on(port);
      if (!binding->is_served()) [[unlikely]] {
        drop_all(*binding, frames);
        continue;
      }
      bool dropped = false;
      wire::ParsedFrame parsed;
      for (std::size_t i = 0; i < count; ++i) {
        if (i + 1 < count) __builtin_prefetch(frames[i + 1].data);
        wire::FrameWalk packets(frames[i].bytes(), frames[i].segment);
        do {
          if (!parse(*binding, frames[i], packets, parsed)) {
            dropped = true;
            continue;
          }
          if (std::exchange(dropped, false)) cpu_.end_any_work();
          take(*binding, std::as_const(parsed));
          clock_.work_on(port);
          cpu_.end_work();
        } while (packets.has_more());
      }
      if (dropped) cpu_.end_any_work();
      binding->port->release(frames);
    }
    if (faults_.on()) [[unlikely]]
      received += take_held(take);
    return received;
  }

  /// Sends a packet. `qp`: the queue pair that sends the packet and has its payload; null: an
  /// answer on behalf of a queue pair that is gone. kSent is also returned if the packet is lost.
  /// kNoBuffer: the port is full, or the link address of the next hop is not known yet. kNoAccess:
  /// the payload cannot be read.
  transport::SendResult send(Route& route, const wire::Headers& h,
                             const transport::PayloadSource& payload, QueuePair* qp);
  /// Does the same, with the headers below the transport given.
  transport::SendResult send(PortBinding& binding, const wire::FrameTemplate& path,
                             const wire::Headers& h, const transport::PayloadSource& payload,
                             QueuePair* qp);

  /// Returns whether datagrams can be sent on this path. If the link address is not known and
  /// `may_ask` is true, the engine requests it.
  Reach reach_of(const AddressPath& path, bool may_ask = true);
  /// Returns the link address of the next hop to `destination`, for packets from `source`. Nothing:
  /// it is not known, or no network leads there. If it is not known and `may_ask` is true, the
  /// engine requests it.
  std::optional<MacAddress> link_address(PortBinding& binding, const Gid& source,
                                         const Gid& destination, bool may_ask = true);

  /// Ends the batch of a poll step: runs the timers of the neighbour tables and flushes the ports.
  void finish_batch();
  Time next_deadline() const;

 private:
  static constexpr std::size_t kBurst = 64;

  static void drop_all(PortBinding& binding, std::span<const port::Frame> frames);
  wire::DropReason check(PortBinding& binding, const wire::ParsedFrame& parsed);
  bool parse(PortBinding& binding, const port::Frame& frame, wire::FrameWalk& packets,
             wire::ParsedFrame& parsed, bool was_held = false);
  /// Returns the headers below the transport for packets of the queue pair on this route. `qp`:
  /// null if the packet belongs to no queue pair. Null: the link address of the next hop is not
  /// known. `lost`: the next hop has not answered for so long that packets to it count as lost.
  const wire::FrameTemplate* frame_for(Route& route, PortBinding& binding, const QueuePair* qp,
                                       bool& lost) {
    lost = false;
    const bool is_built = clock_.now < route.valid_until && route.valid_until > outdated_until_;
    return is_built ? &route.frame : build_frame(route, binding, qp, lost);
  }
  const wire::FrameTemplate* build_frame(Route& route, PortBinding& binding, const QueuePair* qp,
                                         bool& lost);
  std::optional<MacAddress> resolve(PortBinding& binding, const Gid& source, const Gid& hop);
  std::uint8_t traffic_class_of(const Route& route, const Marking& marking) const;
  transport::SendResult hand_over(PortBinding& binding, const wire::FrameTemplate& path,
                                  const wire::Headers& h, const transport::PayloadSource& payload,
                                  const QueuePair* qp) {
    return binding.outbox ? send_gathered(binding, path, h, payload, qp)
                          : send_frame(binding, path, h, payload, qp);
  }
  transport::SendResult make_frame(PortBinding& binding, const wire::FrameTemplate& path,
                                   const wire::Headers& h, const transport::PayloadSource& payload,
                                   const QueuePair* qp, port::Frame& frame);
  transport::SendResult send_frame(PortBinding& binding, const wire::FrameTemplate& path,
                                   const wire::Headers& h, const transport::PayloadSource& payload,
                                   const QueuePair* qp);
  transport::SendResult send_gathered(PortBinding& binding, const wire::FrameTemplate& path,
                                      const wire::Headers& h,
                                      const transport::PayloadSource& payload, const QueuePair* qp);
  transport::SendResult refuse(QueuePair* qp, WaitCause cause);
  void note_sender(const QueuePair& qp, bool first);

  // packet_faults.cpp
  /// How a fault leaves a received packet.
  enum class Arrival : std::uint8_t { kAsItCame, kDamaged, kNotNow };
  Arrival meet_faults(PortBinding& binding, const port::Frame& frame, wire::ParsedFrame& parsed);
  bool keep(const FaultPassage& passage, const Faults::Fate& fate, const wire::ParsedFrame& parsed);
  transport::SendResult send_faulty(PortBinding& binding, const wire::FrameTemplate& path,
                                    const wire::Headers& h, const transport::PayloadSource& payload,
                                    const QueuePair* qp);
  bool send_copy(PortBinding& binding, std::span<const std::byte> packet);
  void send_held();
  template <class Take>
  std::size_t take_held(Take&& take) {
    return faults_.take_due(FaultDirection::kReceived, [&](PortId port, std::span<std::byte> held) {
      const port::Frame frame{.data = held.data(),
                              .length = static_cast<std::uint32_t>(held.size())};
      wire::FrameWalk packets(frame.bytes(), 0);
      wire::ParsedFrame parsed;
      PortBinding& binding = *ports_[port.value];
      if (!binding.is_served()) return binding.drops.add(FrameDrop::kPortDown);
      if (!parse(binding, frame, packets, parsed, true)) return cpu_.end_any_work();
      take(binding, std::as_const(parsed));
      cpu_.end_work();
    });
  }

  // packet_capture.cpp
  const Tenant* sender_of(const PortBinding& binding, const QueuePair* qp,
                          std::span<const std::byte> headers) const;
  void show_sent(const PortBinding& binding, const QueuePair* qp,
                 std::span<const Captures::Part> parts,
                 CaptureRemark remark = CaptureRemark::kNone);
  void show_lost(const PortBinding& binding, const Route& route, const wire::Headers& h,
                 const transport::PayloadSource& payload, const QueuePair* qp);
  void show_dropped(const PortBinding& binding, const port::Frame& frame,
                    const wire::ParsedFrame& parsed, CaptureRemark remark);

  /// A class that has sent packets since the last flush.
  struct Sender {
    Tenant* tenant;
    QosClassId qos_class;
    bool first;  ///< its turn went before others, for a minimum rate
    std::uint64_t packets;
  };

  const StepClock& clock_;
  const CongestionParameters& congestion_;
  const LocalAddresses& addresses_;
  CpuScheduler& cpu_;
  PayloadReader& payloads_;
  std::vector<std::unique_ptr<PortBinding>> ports_;
  std::vector<Sender> senders_;
  std::array<port::Frame, kBurst> burst_;  ///< for receive()
  std::uint16_t ip_identification_ = 0;
  PeerAuthentication authentication_;
  /// The end of validity of headers that were built just before keys or link addresses changed
  /// last. Headers that are valid until then or a shorter time are outdated.
  Time outdated_until_{};
  Faults faults_;
  Captures captures_;
};

}  // namespace softhca::engine
