// SPDX-License-Identifier: Apache-2.0

// The addresses of tenants, the address handles of their programs, and the multicast groups.
#pragma once

#include "daemon/engine/addresses/address_handles.hpp"
#include "daemon/engine/addresses/local_addresses.hpp"
#include "daemon/engine/addresses/multicast.hpp"

namespace softhca::engine {

struct Addressing {
  LocalAddresses local;
  AddressHandles handles;
  Multicast multicast{local};
};

}  // namespace softhca::engine
