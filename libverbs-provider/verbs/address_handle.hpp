// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "abi/control.hpp"
#include "libverbs-provider/abi34.hpp"

namespace softhca::provider {

abi::AddressVector to_address_vector(const ibv_ah_attr& attr);
ibv_ah_attr from_address_vector(const abi::AddressVector& av);

}  // namespace softhca::provider
