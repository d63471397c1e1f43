// SPDX-License-Identifier: Apache-2.0

// Queue pair states and the attributes of each transition (InfiniBand specification 10.3 and table
// 91). These functions are pure: the control thread calls them before it changes anything.
#pragma once

#include <cstdint>
#include <string>

namespace softhca::engine {

/// Values of enum ibv_qp_type.
enum class QpType : std::uint8_t { kRc = 2, kUc = 3, kUd = 4, kXrcSend = 9, kXrcReceive = 10 };

constexpr bool is_xrc(QpType t) { return t == QpType::kXrcSend || t == QpType::kXrcReceive; }
/// True if the service is acknowledged and in order.
constexpr bool is_reliable(QpType t) { return t == QpType::kRc || is_xrc(t); }
/// True if the queue pair executes the requests of a reliable service.
constexpr bool is_responder(QpType t) { return t == QpType::kRc || t == QpType::kXrcReceive; }
/// Returns the type of the queue pair to which one of this type is connected.
constexpr QpType peer_type(QpType t) {
  if (t == QpType::kXrcSend) return QpType::kXrcReceive;
  return t == QpType::kXrcReceive ? QpType::kXrcSend : t;
}

/// Values of enum ibv_qp_state.
enum class QpState : std::uint8_t {
  kReset = 0,
  kInit = 1,
  kRtr = 2,
  kRts = 3,
  kSqd = 4,
  kSqe = 5,
  kError = 6,
};

/// Returns "RC", "XRC_SEND".
const char* name_of(QpType type);
const char* name_of(QpState state);

/// Bits of enum ibv_qp_attr_mask.
namespace attr {
inline constexpr std::uint32_t kState = 1 << 0;
inline constexpr std::uint32_t kCurState = 1 << 1;
inline constexpr std::uint32_t kSqdNotify = 1 << 2;
inline constexpr std::uint32_t kAccessFlags = 1 << 3;
inline constexpr std::uint32_t kPkeyIndex = 1 << 4;
inline constexpr std::uint32_t kPort = 1 << 5;
inline constexpr std::uint32_t kQkey = 1 << 6;
inline constexpr std::uint32_t kAv = 1 << 7;
inline constexpr std::uint32_t kPathMtu = 1 << 8;
inline constexpr std::uint32_t kTimeout = 1 << 9;
inline constexpr std::uint32_t kRetryCount = 1 << 10;
inline constexpr std::uint32_t kRnrRetry = 1 << 11;
inline constexpr std::uint32_t kRqPsn = 1 << 12;
inline constexpr std::uint32_t kMaxRdAtomic = 1 << 13;
inline constexpr std::uint32_t kAltPath = 1 << 14;
inline constexpr std::uint32_t kMinRnrTimer = 1 << 15;
inline constexpr std::uint32_t kSqPsn = 1 << 16;
inline constexpr std::uint32_t kMaxDestRdAtomic = 1 << 17;
inline constexpr std::uint32_t kPathMigState = 1 << 18;
inline constexpr std::uint32_t kCap = 1 << 19;
inline constexpr std::uint32_t kDestQpn = 1 << 20;
}  // namespace attr

/// Returns the bytes of a value of enum ibv_mtu.
constexpr std::uint32_t mtu_bytes(std::uint32_t code) { return 128u << code; }

/// What is wrong with a transition.
struct TransitionFault {
  bool is_unknown = false;    ///< the type has no such transition, with any attributes
  std::uint32_t missing = 0;  ///< attributes that it needs
  std::uint32_t excess = 0;   ///< attributes that it must not have

  explicit operator bool() const { return is_unknown || (missing | excess) != 0; }
};
/// Checks the transition `from` -> `to` of this type with the attributes in `mask`, which may
/// include kState.
TransitionFault check_transition(QpType type, QpState from, QpState to, std::uint32_t mask);
/// Returns the names of attributes, as members of ibv_qp_attr: "path_mtu, dest_qp_num".
std::string names_of(std::uint32_t mask);

constexpr bool may_send(QpState s) { return s == QpState::kRts; }
constexpr bool may_receive(QpState s) {
  return s == QpState::kRtr || s == QpState::kRts || s == QpState::kSqd || s == QpState::kSqe;
}

}  // namespace softhca::engine
