// SPDX-License-Identifier: Apache-2.0

// The tables [general_services] and [shared_datagrams]: the receive buffers of queue pairs 1 and 2,
// and how many of them each client may use (mechanisms E1 to E6).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace softhca::configuration {

inline constexpr std::uint32_t kMaxGeneralServicesBuffers = 16384;
inline constexpr std::uint32_t kOwnClients =
    /// The daemon's own clients for each tenant: connection manager, performance agent.
    2;
inline constexpr std::uint32_t kMostPrograms = 256;  ///< registered at once, by all tenants

/// Parameters without a key.
struct FixedServicesParameters {
  double source_part = 0.5;  ///< part of a client's share for one host while others send
  /// Datagrams per second from one host to one client; 0: no limit.
  std::uint32_t source_rate = 10'000;
  std::uint32_t source_burst = 1'000;
  double new_sources_part = 0.5;  ///< as source_part, for all unknown hosts together
  std::uint32_t new_sources_rate = 10'000;
  std::uint32_t new_sources_burst = 1'000;
  std::uint32_t probation_ms = 1'000;      ///< a host that still sends after this time is known
  std::uint32_t forget_after_ms = 30'000;  ///< after this time its place may be reused
  std::uint32_t window_ms = 1'000;         ///< interval over which a client's traffic is measured
  std::uint32_t raise_after = 3;           ///< windows of the last 8 with too small a share
  std::uint32_t lower_after = 8;  ///< windows in a row in which half of it would have sufficed
  std::uint32_t raise_most = 4;   ///< most times the client's request
  // Limits for the programs of one tenant together, besides tenant_buffers():
  std::uint32_t tenant_clients = 16;  ///< registered at once
  std::uint32_t send_rate = 2'000;    ///< datagrams sent and numbers changed per second; 0: any
  std::uint32_t send_burst = 200;     ///< burst of send_rate

  bool operator==(const FixedServicesParameters&) const = default;
};

struct GeneralServicesConfig {
  std::uint32_t buffers = 1024;                 ///< most posted and in use together
  std::uint32_t buffers_per_client = 16;        ///< for a client that requests no number
  std::optional<std::uint32_t> low_threshold;   ///< fewest posted buffers; none: by clients
  std::optional<std::uint32_t> high_threshold;  ///< most posted buffers; none: by clients
  double engine_share = 0.1;  ///< part of the engine's time for datagrams to the queue pair
  FixedServicesParameters fixed;

  bool operator==(const GeneralServicesConfig&) const = default;
};

/// Returns the most buffers that the programs of one tenant may request together: a quarter of all,
/// at most 256, and enough for one client that requests no number.
constexpr std::uint32_t tenant_buffers(const GeneralServicesConfig& config) {
  return std::max(std::min(config.buffers / 4, 256u), config.buffers_per_client);
}

}  // namespace softhca::configuration
