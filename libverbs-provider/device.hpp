// SPDX-License-Identifier: Apache-2.0

// Constants that describe this provider to the library.
#pragma once

#include "libverbs-provider/abi34.hpp"

namespace softhca::provider {

extern const abi34::DeviceOps kDeviceOps;

}  // namespace softhca::provider
