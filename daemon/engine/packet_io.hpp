// Packets from and to the wire: frames of the ports, what stands in them before the transport
// header, and the link addresses needed for that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/base/congestion.hpp"
#include "daemon/engine/captures.hpp"
#include "daemon/engine/clock.hpp"
#include "daemon/engine/cpu_scheduler.hpp"
#include "daemon/engine/faults.hpp"
#include "daemon/engine/local_addresses.hpp"
#include "daemon/engine/payload_reader.hpp"
#include "daemon/engine/peer_authentication.hpp"
#include "daemon/engine/port_binding.hpp"
#include "daemon/engine/route.hpp"
#include "daemon/transport/upcalls.hpp"
#include "daemon/wire/frame.hpp"

namespace softhca::engine {

/// Whether datagrams to an address can go.
enum class Reach : std::uint8_t {
  kReady,    ///< inside this daemon, or the link address is known
  kUnknown,  ///< it has been asked for
  kNone,     ///< no port or network leads there
};

class PacketIo {
 public:
  PacketIo(const StepClock& clock, const CongestionParameters& congestion,
           const LocalAddresses& addresses, CpuScheduler& cpu, PayloadReader& payloads,
           Captures& captures, Faults& faults, EventLog& log)
      : clock_(clock),
        congestion_(congestion),
        addresses_(addresses),
        cpu_(cpu),
        payloads_(payloads),
        captures_(captures),
        faults_(faults),
        authentication_(clock, log) {}

  /// Ports are numbered in the order they come.
  void add_port(std::unique_ptr<PortBinding> binding);
  /// Allocates what the existing ports keep for a tenant.
  void add_user(TenantId tenant);
  const std::vector<std::unique_ptr<PortBinding>>& ports() const { return ports_; }
  Captures& captures() { return captures_; }
  Faults& faults() { return faults_; }
  const Faults& faults() const { return faults_; }

  /// Takes effect with the next packet. `table`: null for none; gets the one in use before.
  void exchange_peers(std::unique_ptr<PeerTable>& table);
  PeerAuthentication& authentication() { return authentication_; }

  /// Gives the RoCEv2 packets that have come, sound and of their port's VLAN, to
  /// `take(PortBinding&, const wire::ParsedFrame&)`, for the time of the call. Everything else that
  /// comes is for neighbours, or is dropped and counted. Returns the number of frames.
  template <class Take>
  std::size_t receive(Take&& take) {
    std::size_t received = 0;
    for (const auto& binding : ports_) {
      std::array<port::Frame, kBurst> frames;
      const std::size_t count = binding->port->receive(frames);
      bool dropped = false;
      for (std::size_t i = 0; i < count; ++i) {
        if (i + 1 < count) __builtin_prefetch(frames[i + 1].data);
        wire::FrameWalk packets(frames[i].bytes(), frames[i].segment);
        wire::ParsedFrame parsed;
        do {
          if (!parse(*binding, frames[i], packets, parsed)) {
            dropped = true;
            continue;
          }
          if (std::exchange(dropped, false)) cpu_.end_any_work();
          take(*binding, std::as_const(parsed));
          cpu_.end_work();
        } while (packets.has_more());
      }
      if (dropped) cpu_.end_any_work();
      if (count != 0) binding->port->release({frames.data(), count});
      received += count;
    }
    if (faults_.on()) [[unlikely]]
      received += take_held(take);
    return received;
  }

  /// `qp`: the queue pair whose payload and packet it is; null: an answer on behalf of one that is
  /// gone. kSent also when the packet is lost. kNoBuffer: the port is full, or the next hop's link
  /// address is still asked for. kNoAccess: the payload cannot be read.
  transport::SendResult send(Route& route, const wire::Headers& h,
                             const transport::PayloadSource& payload, QueuePair* qp);
  /// The same, with the headers below the transport.
  transport::SendResult send(PortBinding& binding, const wire::FrameTemplate& path,
                             const wire::Headers& h, const transport::PayloadSource& payload,
                             QueuePair* qp);

  /// Can datagrams go this way? If the link address is not known, it is asked for, if `may_ask`.
  Reach reach_of(const AddressPath& path, bool may_ask = true);
  /// The link address of the next hop to `destination`, for packets from `source`; if `may_ask`,
  /// it is asked for when it is not known. Nothing: it is not known, or no network leads there.
  std::optional<MacAddress> link_address(PortBinding& binding, const Gid& source,
                                         const Gid& destination, bool may_ask = true);

  /// At the end of a poll step: does what is due for neighbours, and sends what ports have held
  /// back.
  void finish_batch();
  Time next_deadline() const;

 private:
  static constexpr std::size_t kBurst = 64;

  static bool has_icrc(PortBinding& binding, const wire::ParsedFrame& parsed);
  wire::DropReason check(PortBinding& binding, const wire::ParsedFrame& parsed);
  bool parse(PortBinding& binding, const port::Frame& frame, wire::FrameWalk& packets,
             wire::ParsedFrame& parsed, bool was_held = false);
  const wire::FrameTemplate* frame_for(Route& route, PortBinding& binding, const QueuePair* qp,
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
  void note_sender(const QueuePair& qp);

  // packet_faults.cpp
  /// What becomes of a packet that has come.
  enum class Arrival : std::uint8_t { kAsItCame, kDamaged, kNotNow };
  Arrival meet_faults(PortBinding& binding, const port::Frame& frame,
                      const wire::ParsedFrame& parsed);
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

  /// Who has handed over packets since the last flush.
  struct Sender {
    Tenant* tenant;
    QosClassId qos_class;
    bool first;  ///< before others, for a minimum rate
    std::uint64_t packets;
  };

  const StepClock& clock_;
  const CongestionParameters& congestion_;
  const LocalAddresses& addresses_;
  CpuScheduler& cpu_;
  PayloadReader& payloads_;
  Captures& captures_;
  Faults& faults_;
  std::vector<std::unique_ptr<PortBinding>> ports_;
  std::vector<Sender> senders_;
  std::uint16_t ip_identification_ = 0;
  PeerAuthentication authentication_;
  /// Headers of routes that are valid until then, or less long, were made with other keys.
  Time keys_changed_{};
};

}  // namespace softhca::engine
