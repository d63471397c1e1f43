// SPDX-License-Identifier: Apache-2.0

// A request that makes a connection a channel (daemon/services/tenant_channel.hpp) instead of a
// session.
#pragma once

#include <cstdint>
#include <string>

#include "abi/control.hpp"
#include "daemon/configuration/resource_manager/accounts.hpp"

namespace softhca::control {

struct ChannelRequest {
  /// Descriptors that each channel keeps open: its connection and its signal.
  static constexpr std::uint64_t kDescriptors = 2;

  abi::Operation operation{};  ///< kOpenEventChannel or kOpenDatagramClient
  std::uint32_t tag = 0;
  std::uint32_t protocol_version = 0;
  abi::OpenDatagramClientRequest datagrams{};  ///< for kOpenDatagramClient
  int refusal = 0;    ///< errno value: the tenant is leaving, or no level fits
  std::string level;  ///< level of the program; empty: none
  configuration::Charge descriptors;
};

}  // namespace softhca::control
