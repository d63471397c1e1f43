// SPDX-License-Identifier: Apache-2.0

// LISTEN, and the listeners of each port.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "daemon/roce/rdma_cm/addresses/address_binding.hpp"
#include "daemon/roce/rdma_cm/addresses/port_spaces.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management::rdma_cm {

class IdentifierListeners {
 public:
  /// All outlive it.
  IdentifierListeners(RdmaCmEnvironment& environment, const RdmaCmLimits& limits,
                      AddressBinding& binding, PortSpaces& ports, IdentifierTable& identifiers)
      : environment_(environment),
        limits_(limits),
        binding_(binding),
        ports_(ports),
        identifiers_(identifiers) {}
  IdentifierListeners(const IdentifierListeners&) = delete;
  IdentifierListeners& operator=(const IdentifierListeners&) = delete;

  int listen(const ChannelCommand& command);
  /// Adds a listener of an earlier adapter.
  void restore(const Identifier& id) {
    at_[{id.space, id.local.port}].push_back(id.number);
    ++size_;
  }
  /// Removes the identifier if it listens.
  void remove(const Identifier& id);

  /// Returns the listeners of a port in the order in which they began; null: none.
  const std::vector<IdentifierNumber>* at(PortSpace space, std::uint16_t port) const;
  std::size_t size() const { return size_; }

 private:
  RdmaCmEnvironment& environment_;
  const RdmaCmLimits& limits_;
  AddressBinding& binding_;
  PortSpaces& ports_;
  IdentifierTable& identifiers_;
  std::map<std::pair<PortSpace, std::uint16_t>, std::vector<IdentifierNumber>> at_;
  std::size_t size_ = 0;
};

}  // namespace softhca::management::rdma_cm
