// The tables [general_services] and [shared_datagrams]: the receive buffers of queue pairs 1
// and 2, and who may use how many of them (mechanisms E1 to E6). Their keys are the members of
// GeneralServicesConfig.
#pragma once

#include <cstdint>
#include <optional>

namespace softhca::resource {

inline constexpr std::uint32_t kMaxGeneralServicesBuffers = 16384;
inline constexpr std::uint32_t kOwnClients =
    2;  ///< the daemon's, of each tenant: connection manager, performance agent
inline constexpr std::uint32_t kMostPrograms = 256;  ///< registered at once, of all tenants

struct GeneralServicesConfig {
  std::uint32_t buffers = 1024;                 ///< at most posted and in use together
  std::uint32_t buffers_per_client = 16;        ///< of one that names no number
  std::optional<std::uint32_t> low_threshold;   ///< posted buffers, at the least; none: by clients
  std::optional<std::uint32_t> high_threshold;  ///< posted buffers, at the most; none: by clients
  double source_part = 0.5;  ///< of a client's share, for one host while others send
  std::uint32_t source_rate =
      10'000;  ///< datagrams a second of one host to one client; 0: no limit
  std::uint32_t source_burst = 1'000;
  double new_sources_part = 0.5;  ///< as source_part, for all hosts not yet known together
  std::uint32_t new_sources_rate = 10'000;
  std::uint32_t new_sources_burst = 1'000;
  std::uint32_t probation_ms = 1'000;      ///< a host that still sends then is known
  std::uint32_t forget_after_ms = 30'000;  ///< its place may go to another then
  std::uint32_t window_ms = 1'000;         ///< over which a client's traffic is watched
  std::uint32_t raise_after = 3;  ///< of the last 8 windows in which its share was too small
  std::uint32_t lower_after = 8;  ///< windows in a row in which half of it would have done
  std::uint32_t raise_most = 4;   ///< times what the client asked for
  double engine_share = 0.1;      ///< of the engine's time for what comes to the queue pair
  // Limits for the programs of one tenant together:
  std::uint32_t tenant_clients = 16;   ///< registered at once
  std::uint32_t tenant_buffers = 256;  ///< that these may ask for
  std::uint32_t send_rate = 2'000;  ///< datagrams sent and numbers changed, a second; 0: no limit
  std::uint32_t send_burst = 200;

  bool operator==(const GeneralServicesConfig&) const = default;
};

}  // namespace softhca::resource
