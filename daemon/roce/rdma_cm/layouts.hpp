// SPDX-License-Identifier: Apache-2.0

// The bodies of the rdma_cm commands of a process, and of their replies: the kernel's own
// structures, copied in and out.
#pragma once

// Included before the kernel's header, which then omits the socket addresses.
#include <netinet/in.h>
// clang-format off
#include <rdma/rdma_user_cm.h>
// clang-format on

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace softhca::management::rdma_cm {

static_assert(sizeof(rdma_ucm_create_id) == 24 && sizeof(rdma_ucm_destroy_id) == 16);
static_assert(sizeof(rdma_ucm_bind_ip) == 40 && sizeof(rdma_ucm_resolve_ip) == 64);
static_assert(sizeof(rdma_ucm_query) == 16 && sizeof(rdma_ucm_query_route_resp) == 208);
static_assert(sizeof(rdma_ucm_connect) == 288 && sizeof(rdma_ucm_accept) == 296);
static_assert(sizeof(rdma_ucm_reject) == 264 && sizeof(rdma_ucm_event_resp) == 336);
static_assert(sizeof(rdma_ucm_set_option) == 24 && sizeof(rdma_ucm_join_ip_mcast) == 48);
static_assert(sizeof(ib_uverbs_qp_attr) == 144 && sizeof(ib_user_path_rec) == 64);

/// Events of rdma_cm, in the order of the kernel's enumeration.
enum class EventType : std::uint32_t {
  kAddrResolved,
  kAddrError,
  kRouteResolved,
  kRouteError,
  kConnectRequest,
  kConnectResponse,
  kConnectError,
  kUnreachable,
  kRejected,
  kEstablished,
  kDisconnected,
  kDeviceRemoval,
  kMulticastJoin,
  kMulticastError,
  kAddrChange,
  kTimewaitExit,
};

/// Copies a body in. Returns false if it is shorter than `at_least`, by default its full size. A
/// smaller value accepts bodies of older versions of the interface; missing bytes become zero.
template <class T>
bool read_body(std::span<const std::byte> body, T& to, std::size_t at_least = sizeof(T)) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (body.size() < at_least) return false;
  to = T{};
  std::memcpy(&to, body.data(), std::min(body.size(), sizeof to));
  return true;
}

/// The reply to a command.
struct ChannelReply {
  static constexpr std::size_t kMaxBytes = 336;

  std::array<std::byte, kMaxBytes> body{};
  std::size_t bytes = 0;
  /// True if the command emptied an event queue, so that its signal must be cleared: the queue of
  /// the command's channel, or for MIGRATE_ID that of the channel that had the identifier.
  bool drained = false;
  /// Why the command is refused: the attribute, its value and what is allowed. Empty: nothing was
  /// refused, or the refusal is an answer that the process expects.
  std::string refusal;

  template <class T>
  void write(const T& from) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxBytes);
    std::memcpy(body.data(), &from, sizeof from);
    bytes = sizeof from;
  }
};

}  // namespace softhca::management::rdma_cm
