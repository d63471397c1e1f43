// One connection, or one question for a service id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "daemon/management/cm/parameters.hpp"
#include "daemon/wire/cm_messages.hpp"
#include "daemon/wire/mad.hpp"

namespace softhca::management::cm {

/// A message kept to be sent again, without the zeros at its end: most of a MAD is such.
class KeptMessage {
 public:
  bool empty() const { return length_ == 0; }
  void clear() {
    bytes_.reset();
    length_ = 0;
  }
  void keep(const wire::Mad& mad) {
    const auto last =
        std::find_if(mad.rbegin(), mad.rend(), [](std::byte b) { return b != std::byte{}; });
    length_ = static_cast<std::uint16_t>(mad.rend() - last);
    bytes_ = std::make_unique<std::byte[]>(length_);
    std::memcpy(bytes_.get(), mad.data(), length_);
  }
  wire::Mad get() const {
    wire::Mad mad{};
    std::memcpy(mad.data(), bytes_.get(), length_);
    return mad;
  }
  bool is(wire::CmAttribute attribute) const {
    if (empty()) return false;
    const auto header = wire::decode_mad_header(get());
    return header->attribute_id == static_cast<std::uint16_t>(attribute);
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::uint16_t length_ = 0;
};

struct Connection {
  CommId id;
  std::uint32_t remote_comm_id = 0;  ///< 0: not known yet. A question's: the peer's request id
  Cookie cookie = 0;
  bool has_user = true;
  bool active = false;
  State state{};
  std::uint8_t retries_left = 0;
  std::uint8_t max_retries = 0;

  Path path;
  std::uint64_t service_id = 0;
  std::uint64_t remote_ca_guid = 0;
  std::uint64_t transaction_id = 0;

  // the queue pairs
  Transport transport = Transport::kRc;
  Qpn local_qpn;
  Qpn remote_qpn;
  Psn sq_psn;
  Psn rq_psn;
  std::uint16_t pkey = 0xffff;
  std::uint8_t sl = 0;
  std::uint8_t path_mtu = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t packet_life_time = 0;
  std::uint8_t ack_timeout = 0;
  bool peer_has_srq = false;

  Duration response_timeout{};  ///< after which a message goes again
  Duration linger{};            ///< for which a refusal is remembered: the peer asks again in it
  KeptMessage kept;

  // places in the connection table
  Time deadline = kNever;
  std::uint64_t lingers_since = 0;  ///< 0: has a user
  bool peer_listed = false;
  bool queue_pair_listed = false;

  bool is_question() const { return state >= State::kSidrReqSent; }
  /// Asked for by a peer, and not established yet.
  bool is_half_open() const {
    if (active || !has_user) return false;
    return state == State::kReqReceived || state == State::kMraReqSent ||
           state == State::kRepSent || state == State::kMraRepReceived ||
           state == State::kSidrReqReceived;
  }
};

/// States in which something is sent until an answer comes.
constexpr bool is_retrying(State state) {
  switch (state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kDreqSent:
    case State::kSidrReqSent:
      return true;
    default:
      return false;
  }
}

/// Of the code of a response timeout, packet life time or service timeout.
constexpr Duration duration_of(std::uint8_t code) {
  return std::chrono::milliseconds(std::int64_t{1} << std::max((code & 0x1f) - 8, 0));
}

}  // namespace softhca::management::cm
