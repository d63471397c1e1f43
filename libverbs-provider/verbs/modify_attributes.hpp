// SPDX-License-Identifier: Apache-2.0

// Converts struct ibv_qp_attr to its image in the control protocol and back.
#pragma once

#include "abi/control.hpp"
#include "libverbs-provider/abi34.hpp"

namespace softhca::provider {

abi::QpAttributes to_qp_attributes(const ibv_qp_attr& attr, int mask);
/// Leaves `cap` zero, because the daemon does not send it.
ibv_qp_attr from_qp_attributes(const abi::QpAttributes& attributes);

}  // namespace softhca::provider
