// SPDX-License-Identifier: Apache-2.0

// Messages of the connection managers (InfiniBand specification, volume 1, 12.6 to 12.11), field by
// field, and the private data header of RDMA IP (annex A11). Host byte order. Encoding writes
// reserved fields as zero; decoding ignores them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/base/net.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/wire/mad.hpp"

namespace softhca::wire {

inline constexpr std::uint8_t kCmClassVersion = 2;

/// Attribute of a MAD of class kCommunication: the type of the message.
enum class CmAttribute : std::uint16_t {
  kClassPortInfo = 0x0001,
  kReq = 0x0010,
  kMra = 0x0011,
  kRej = 0x0012,
  kRep = 0x0013,
  kRtu = 0x0014,
  kDreq = 0x0015,
  kDrep = 0x0016,
  kSidrReq = 0x0017,
  kSidrRep = 0x0018,
  kLap = 0x0019,
  kApr = 0x001a,
};

/// Returns the name of a message ("REQ"); "unknown" for values that name none.
const char* name_of(CmAttribute attribute);

/// Reasons of REJ (table 109). A peer may send any other value.
enum class CmRejectReason : std::uint16_t {
  kNoQueuePair = 1,
  kNoEeContext = 2,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidCommInstance = 7,
  kInvalidServiceId = 8,
  kInvalidTransportType = 9,
  kStaleConnection = 10,
  kNoReliableDatagramChannel = 11,
  kInvalidPrimaryGid = 12,
  kInvalidPrimaryLid = 13,
  kInvalidPrimarySl = 14,
  kInvalidPrimaryTrafficClass = 15,
  kInvalidPrimaryHopLimit = 16,
  kInvalidPrimaryPacketRate = 17,
  kInvalidAlternateGid = 18,
  kInvalidAlternateLid = 19,
  kInvalidAlternateSl = 20,
  kInvalidAlternateTrafficClass = 21,
  kInvalidAlternateHopLimit = 22,
  kInvalidAlternatePacketRate = 23,
  kPortAndCmRedirect = 24,
  kPortRedirect = 25,
  kInvalidPathMtu = 26,
  kInsufficientResponderResources = 27,
  kConsumer = 28,
  kRnrRetryCount = 29,
  kDuplicateLocalCommId = 30,
  kInvalidClassVersion = 31,
  kInvalidPrimaryFlowLabel = 32,
  kInvalidAlternateFlowLabel = 33,
  kVendorOption = 35,
};

/// The message to which a REJ or an MRA refers.
enum class CmMessage : std::uint8_t {
  kReq = 0,
  kRep = 1,
  kOther = 2,  ///< REJ: neither REQ nor REP; MRA: LAP
};

/// Transport service type of REQ.
enum class CmTransport : std::uint8_t {
  kReliableConnected = 0,
  kUnreliableConnected = 1,
  kReliableDatagram = 2,
  kExtended = 3,  ///< see REQ's extended transport type
};

/// Status of SIDR_REP (table 122). A peer may send any other value.
enum class CmSidrStatus : std::uint8_t {
  kValid = 0,
  kUnsupported = 1,
  kReject = 2,
  kNoQueuePair = 3,
  kRedirect = 4,
  kUnsupportedVersion = 5,
};

/// Status of APR (table 118). A peer may send any other value.
enum class CmAprStatus : std::uint8_t {
  kSuccess = 0,
  kInvalidCommId = 1,
  kUnsupported = 2,
  kReject = 3,
  kRedirect = 4,
  kIsCurrent = 5,
  kInvalidQpn = 6,
};

template <std::size_t bytes>
using CmData = std::array<std::byte, bytes>;

/// A path in REQ or LAP, as the sender of the message sees it.
struct CmPath {
  std::uint16_t local_lid = 0xffff;   ///< RoCE: 0xffff; REQ without alternate path: 0 in it
  std::uint16_t remote_lid = 0xffff;  ///< as local_lid
  Gid local_gid;
  Gid remote_gid;
  std::uint32_t flow_label = 0;  ///< 20 bits
  std::uint8_t packet_rate = 0;  ///< 6 bits, code of 9.11
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t sl = 0;  ///< 4 bits
  bool subnet_local = false;
  std::uint8_t local_ack_timeout = 0;  ///< 5 bits, 4.096 us * 2^t

  bool operator==(const CmPath&) const = default;
  static constexpr CmPath none() {
    CmPath path;
    path.local_lid = path.remote_lid = 0;
    return path;
  }
};

/// Request for communication.
struct CmReq {
  static constexpr CmAttribute kAttribute = CmAttribute::kReq;

  std::uint32_t local_comm_id = 0;
  std::uint64_t service_id = 0;
  std::uint64_t local_ca_guid = 0;
  std::uint32_t local_qkey = 0;
  Qpn local_qpn;
  std::uint8_t responder_resources = 0;      ///< reads and atomics the sender accepts at a time
  std::uint32_t local_eecn = 0;              ///< 24 bits
  std::uint8_t initiator_depth = 0;          ///< reads and atomics the sender has in flight
  std::uint32_t remote_eecn = 0;             ///< 24 bits
  std::uint8_t remote_response_timeout = 0;  ///< 5 bits: time in which the receiver should answer
  CmTransport transport{};
  bool end_to_end_flow_control = false;
  Psn starting_psn;
  std::uint8_t local_response_timeout = 0;  ///< 5 bits: time in which the sender will answer
  std::uint8_t retry_count = 0;             ///< 3 bits, of the queue pair
  std::uint16_t pkey = 0xffff;
  std::uint8_t path_mtu = 0;  ///< 4 bits: 1 to 5 for 256 to 4096 bytes
  bool rdc_exists = false;
  std::uint8_t rnr_retry_count = 0;  ///< 3 bits
  std::uint8_t max_cm_retries = 0;   ///< 4 bits
  bool srq = false;
  std::uint8_t extended_transport = 0;  ///< 3 bits; 1: XRC
  CmPath primary;
  CmPath alternate = CmPath::none();
  bool sap_supported = false;
  CmData<92> private_data{};

  bool operator==(const CmReq&) const = default;
};

/// Message receipt acknowledgement: the response will take longer.
struct CmMra {
  static constexpr CmAttribute kAttribute = CmAttribute::kMra;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  CmMessage message{};
  std::uint8_t service_timeout = 0;  ///< 5 bits
  CmData<222> private_data{};

  bool operator==(const CmMra&) const = default;
};

struct CmRej {
  static constexpr CmAttribute kAttribute = CmAttribute::kRej;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  CmMessage message{};
  std::uint8_t info_length = 0;  ///< 7 bits
  CmRejectReason reason{};
  CmData<72> info{};
  CmData<148> private_data{};

  bool operator==(const CmRej&) const = default;
};

struct CmRep {
  static constexpr CmAttribute kAttribute = CmAttribute::kRep;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::uint32_t local_qkey = 0;
  Qpn local_qpn;
  std::uint32_t local_eecn = 0;  ///< 24 bits
  Psn starting_psn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;   ///< 5 bits
  std::uint8_t failover_accepted = 0;  ///< 2 bits: 0 accepted, 1 not supported, 2 refused
  bool end_to_end_flow_control = false;
  std::uint8_t rnr_retry_count = 0;  ///< 3 bits
  bool srq = false;
  std::uint64_t local_ca_guid = 0;
  CmData<196> private_data{};

  bool operator==(const CmRep&) const = default;
};

/// Ready to use.
struct CmRtu {
  static constexpr CmAttribute kAttribute = CmAttribute::kRtu;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  CmData<224> private_data{};

  bool operator==(const CmRtu&) const = default;
};

/// Disconnect request.
struct CmDreq {
  static constexpr CmAttribute kAttribute = CmAttribute::kDreq;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  Qpn remote_qpn;
  CmData<220> private_data{};

  bool operator==(const CmDreq&) const = default;
};

struct CmDrep {
  static constexpr CmAttribute kAttribute = CmAttribute::kDrep;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  CmData<224> private_data{};

  bool operator==(const CmDrep&) const = default;
};

/// Load alternate path.
struct CmLap {
  static constexpr CmAttribute kAttribute = CmAttribute::kLap;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  Qpn remote_qpn;
  std::uint8_t remote_response_timeout = 0;  ///< 5 bits
  CmPath alternate;
  CmData<168> private_data{};

  bool operator==(const CmLap&) const = default;
};

/// Alternate path response.
struct CmApr {
  static constexpr CmAttribute kAttribute = CmAttribute::kApr;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::uint8_t info_length = 0;
  CmAprStatus status{};
  CmData<72> info{};
  CmData<148> private_data{};

  bool operator==(const CmApr&) const = default;
};

/// Service id resolution: requests the datagram queue pair that serves an id.
struct CmSidrReq {
  static constexpr CmAttribute kAttribute = CmAttribute::kSidrReq;

  std::uint32_t request_id = 0;
  std::uint16_t pkey = 0xffff;
  std::uint64_t service_id = 0;
  CmData<216> private_data{};

  bool operator==(const CmSidrReq&) const = default;
};

struct CmSidrRep {
  static constexpr CmAttribute kAttribute = CmAttribute::kSidrRep;

  std::uint32_t request_id = 0;
  CmSidrStatus status{};
  std::uint8_t info_length = 0;
  Qpn qpn;
  std::uint64_t service_id = 0;
  std::uint32_t qkey = 0;
  CmData<72> info{};
  CmData<136> private_data{};

  bool operator==(const CmSidrRep&) const = default;
};

/// Decodes the message of a MAD with the header of this message. Never fails: each combination of
/// bits is a message, and the receiver judges its values. Message: one of the above.
template <class Message>
Message decode_cm(std::span<const std::byte, kMadBytes> mad);

/// Returns the whole MAD of a message.
template <class Message>
Mad encode_cm(const Message& message, std::uint64_t transaction_id);

/// RDMA IP: the header of 36 bytes at the front of the private data of REQ and SIDR_REQ. It has the
/// IP addresses and the source port of the connecting program; the service id has the destination
/// port.
struct CmIpHeader {
  static constexpr std::size_t kBytes = 36;

  std::uint8_t version = 0;     ///< major and minor, 4 bits each
  std::uint8_t ip_version = 4;  ///< 4 bits: 4 or 6
  std::uint16_t source_port = 0;
  std::array<std::uint8_t, 16> source{};  ///< IPv4: the last 4 bytes; the others are 0
  std::array<std::uint8_t, 16> destination{};

  bool operator==(const CmIpHeader&) const = default;
};

CmIpHeader decode_cm_ip_header(std::span<const std::byte, CmIpHeader::kBytes> data);
void encode(const CmIpHeader& header, std::span<std::byte, CmIpHeader::kBytes> data);

}  // namespace softhca::wire
