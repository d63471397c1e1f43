// Reads the tables [general_services] and [shared_datagrams]: the receive buffers of queue pairs 1
// and 2, and who may use how many of them (mechanisms E1 to E6). Their keys are the members of
// GeneralServicesConfig.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/resource/reader.hpp"

namespace softhca::resource {

inline constexpr std::uint32_t kMaxGeneralServicesBuffers = 16384;
inline constexpr std::uint32_t kOwnClients =
    2;  ///< the daemon's, of each tenant: connection manager, performance agent
inline constexpr std::uint32_t kMostPrograms = 256;  ///< registered at once, of all tenants

struct GeneralServicesConfig {
  std::uint32_t buffers = 1024;                 ///< at most posted and in use together
  std::uint32_t buffers_per_client = 16;        ///< of one that names no number
  std::optional<std::uint32_t> low_threshold;   ///< posted, below which more are; none: by clients
  std::optional<std::uint32_t> high_threshold;  ///< posted, above which those are removed; likewise
  double source_part = 0.5;  ///< of a client's share, for one host while others send
  std::uint32_t source_rate =
      10'000;  ///< datagrams a second of one host to one client; 0: no limit
  std::uint32_t source_burst = 1'000;
  double new_sources_part = 0.5;  ///< likewise, of all hosts together that are not known yet
  std::uint32_t new_sources_rate = 10'000;
  std::uint32_t new_sources_burst = 1'000;
  std::uint32_t probation_ms = 1'000;      ///< a host that still sends then is known
  std::uint32_t forget_after_ms = 30'000;  ///< its place may go to another then
  std::uint32_t window_ms = 1'000;         ///< over which a client's traffic is watched
  std::uint32_t raise_after = 3;  ///< of the last 8 windows in which its share was too small
  std::uint32_t lower_after = 8;  ///< windows in a row in which half of it would have done
  std::uint32_t raise_most = 4;   ///< times what the client asked for
  double engine_share = 0.1;      ///< of the engine's time for what comes to the queue pair
  // Of the programs of one tenant together:
  std::uint32_t tenant_clients = 16;   ///< registered at once
  std::uint32_t tenant_buffers = 256;  ///< that these may ask for
  std::uint32_t send_rate = 2'000;  ///< datagrams sent and numbers changed, a second; 0: no limit
  std::uint32_t send_burst = 200;

  bool operator==(const GeneralServicesConfig&) const = default;
};

GeneralServicesConfig read_general_services(const Value& value, const char* table,
                                            Problems& problems);

/// Calls f(name, member) for each key.
template <class F>
void for_each_general_services_key(F&& f) {
  using C = GeneralServicesConfig;
  f("buffers", &C::buffers);
  f("buffers_per_client", &C::buffers_per_client);
  f("low_threshold", &C::low_threshold);
  f("high_threshold", &C::high_threshold);
  f("source_part", &C::source_part);
  f("source_rate", &C::source_rate);
  f("source_burst", &C::source_burst);
  f("new_sources_part", &C::new_sources_part);
  f("new_sources_rate", &C::new_sources_rate);
  f("new_sources_burst", &C::new_sources_burst);
  f("probation_ms", &C::probation_ms);
  f("forget_after_ms", &C::forget_after_ms);
  f("window_ms", &C::window_ms);
  f("raise_after", &C::raise_after);
  f("lower_after", &C::lower_after);
  f("raise_most", &C::raise_most);
  f("engine_share", &C::engine_share);
  f("tenant_clients", &C::tenant_clients);
  f("tenant_buffers", &C::tenant_buffers);
  f("send_rate", &C::send_rate);
  f("send_burst", &C::send_burst);
}

}  // namespace softhca::resource
