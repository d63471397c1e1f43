// SPDX-License-Identifier: Apache-2.0

// Paths to remote addresses.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "daemon/roce/wire/source_port.hpp"
#include "daemon/tenant_memory/key_table.hpp"

namespace softhca::engine {

struct Session;

/// The path to one remote address, from an address vector.
struct AddressPath {
  Gid source;
  Gid destination;
  std::optional<PortId> port;  ///< none: inside this daemon
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t service_level = 0;
};

/// A path, and the headers below the transport for it if they are known.
struct Route {
  AddressPath path;
  std::uint16_t udp_source_port = wire::kSourcePortBase;
  bool cc_enabled = false;  ///< the sender reacts to congestion notifications
  wire::FrameTemplate frame;
  Time valid_until{};              ///< the next hop's address is resolved again then
  Time unresolved_since = kNever;  ///< since when the next hop does not answer
  Time last_unresolved{};          ///< when the next hop was last found not to answer

  void invalidate() { valid_until = Time{}; }
};

struct AddressHandle {
  Session* session = nullptr;
  memory::PdId pd;
  Route route;
};

}  // namespace softhca::engine
