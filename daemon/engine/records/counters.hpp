// SPDX-License-Identifier: Apache-2.0

// What the engine counts. The engine thread alone writes; the metrics and control threads read at
// any time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "abi/session.hpp"
#include "daemon/base/counter.hpp"
#include "daemon/base/histogram.hpp"
#include "daemon/engine/records/qp_failure.hpp"
#include "daemon/engine/records/wait_causes.hpp"
#include "daemon/qos/receive/policy.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/frame.hpp"

namespace softhca::engine {

using abi::DoorbellCause;

/// Why a VCB command became a doorbell (A5).
enum class SendQueueCause : std::uint8_t {
  kNoPcb,         ///< no PCB was available
  kOrder,         ///< doorbells of its queue pair are pending (B3)
  kKickListFull,  ///< the kick list of its TVL is full
  kRate,          ///< a rate of its queue pair is used up
  kCount,
};

/// RoCE packets to and from ports.
struct WireCounters {
  Counter tx_packets, tx_bytes;  ///< bytes of transport payload
  Counter rx_packets, rx_bytes;
  Counter tx_octets, rx_octets;        ///< of these packets, whole frames without FCS
  Counter tx_multicast, rx_multicast;  ///< of these packets, those to multicast groups
  Counter unresolved;                  ///< packets dropped since their neighbour does not answer

  void count_transmitted(std::uint64_t octets, std::uint64_t payload, bool multicast) {
    tx_packets.add();
    tx_bytes.add(payload);
    tx_octets.add(octets);
    if (multicast) tx_multicast.add();
  }
  void count_received(const wire::ParsedFrame& frame) {
    rx_packets.add();
    rx_bytes.add(frame.payload.size());
    rx_octets.add(wire::frame_length(frame));
    if (frame.destination.is_multicast()) rx_multicast.add();
  }
};

struct CongestionCounters {
  Counter marked_packets;   ///< packets received with a congestion mark (ECN)
  Counter cnps_sent;        ///< congestion notifications
  Counter cnps_handled;     ///< received, and slowed a queue pair or a path down
  Counter cnps_ignored;     ///< received, without an effect
  Gauge paced_queue_pairs;  ///< slowed down at present
  Counter paced_rate;       ///< bits per second that these may send at present, together
  Gauge slowed_paths;       ///< of datagrams, slowed down at present
  Counter questions;        ///< probes to peers about datagrams that came
};

struct CompletionCounters {
  Counter completions, completion_errors;
  Counter events;           ///< completion and asynchronous events
  Counter events_deferred;  ///< the process did not read its channel
  Counter cq_overflows;
  std::array<Counter, static_cast<std::size_t>(QpFailure::kCount)> failures;  ///< of queue pairs

  Counter& failed(QpFailure why) { return failures[static_cast<std::size_t>(why)]; }
};

/// Errors that no correct provider causes.
struct RefusalCounters {
  Counter malformed_commands;  ///< work requests that failed validation
  Counter bad_checksums;       ///< of these, torn: the checksum is wrong (C5)
  Counter hostile_memory;      ///< false words in a ring or in session memory
};

struct MemoryCounters {
  Counter registered_bytes;  ///< at present
  Counter process_accesses;  ///< to memory of its processes that is not shared (MemoryProxy)
  Counter late_accesses;     ///< of these, reached their time limit
  Counter held;              ///< messages of the tenant that had to wait for such memory
};

/// How the collection of a command that came by VCB ended (C3).
enum class Kick : std::uint8_t {
  kWhole,     ///< the command was whole when it was handed over
  kVirtual,   ///< handed over first; its last piece kicked it
  kExplicit,  ///< an explicit kick
  kCount,
};

/// Commands that come by VCB.
struct CollectCounters {
  std::array<Counter, static_cast<std::size_t>(Kick::kCount)> kicks;
  Counter in_pieces;  ///< of these, a part was seen before the rest was there
  Counter withdrawn;  ///< withdrawn by the process

  Counter& kicked(Kick by) { return kicks[static_cast<std::size_t>(by)]; }
};

struct TenantCounters {
  Counter commands_vcb;       ///< collected from a virtual collect buffer
  Counter commands_doorbell;  ///< fetched by the send queue scheduler
  CollectCounters collect;
  Counter commands_given_back;  ///< started, and returned as the peer was not ready
  Gauge stalled_queue_pairs;    ///< their peer is not ready at present
  Gauge set_aside_queue_pairs;  ///< suspended: the next command waits for something else (QpStall)
  Counter send_queue_mode;      ///< VCB commands turned into doorbells (A5)
  std::array<Counter, static_cast<std::size_t>(SendQueueCause::kCount)> send_queue_cause;
  /// Rung by its processes.
  std::array<Counter, static_cast<std::size_t>(DoorbellCause::kCount)> doorbells;
  Counter local_messages, local_bytes;  ///< moved between queue pairs of this daemon
  Histogram arbitration_wait;           ///< ns from kick to start
  /// Engine time, for all tenants, from the scan before a command was seen to the command's
  /// successful end; ns.
  Histogram command_engine_time;
  Counter engine_time;  ///< of the tenant, in cost units (costs.hpp)
  WaitCounters waits;   ///< of commands that belong to no level
  WireCounters wire;
  CongestionCounters congestion;
  CompletionCounters completion;
  RefusalCounters refused;
  MemoryCounters memory;
  receive::ProvisioningCounters receive;        ///< of its shared receive queues
  Gauge sessions, queue_pairs, memory_regions;  ///< at present
  std::array<Counter, static_cast<std::size_t>(transport::Count::kCount)> transport;

  std::uint64_t value(transport::Count what) const {
    return transport[static_cast<std::size_t>(what)].value();
  }
};

/// Counters of one level. The counters of its tenant contain the same.
struct LevelCounters {
  Counter commands_vcb;
  Counter commands_doorbell;
  Counter send_queue_mode;
  Histogram arbitration_wait;  ///< ns from kick to start
  WaitCounters waits;
  Gauge sessions;
  Gauge assigned_queue_pairs;  ///< of processes of other levels, assigned by their paths
};

/// Why the engine dropped a received frame that parsed.
enum class FrameDrop : std::uint8_t {
  kUnknownAddress,  ///< destination address of no tenant
  kUnknownQueuePair,
  kForeignPeer,     ///< addresses or port differ from those of the connection
  kForeignVlan,     ///< tagged for a network that is not the port's
  kWrongTransport,  ///< opcode of a transport that is not the queue pair's
  kPartitionKey,
  kNoGroupMember,  ///< multicast without a member here
  kPortDown,       ///< PortBinding::service is not kOn
  kCount,
};

struct PortDropCounters {
  std::array<Counter, static_cast<std::size_t>(wire::DropReason::kCount)> parse;
  std::array<Counter, static_cast<std::size_t>(FrameDrop::kCount)> frame;
  void add(FrameDrop why) { frame[static_cast<std::size_t>(why)].add(); }
  Counter unresolved;  ///< packets to a neighbour that does not answer
  Counter no_buffer;   ///< sends put off because the port had no frame
  /// Packets accepted although only half of their ICRC confirms them (HiddenIdentifications).
  Counter weakly_checked;
};

const char* name_of(FrameDrop reason);
const char* name_of(SendQueueCause cause);
const char* name_of(DoorbellCause cause);
const char* name_of(Kick kick);

}  // namespace softhca::engine
