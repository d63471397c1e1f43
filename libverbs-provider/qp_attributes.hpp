// Between struct ibv_qp_attr and its image in the control protocol.
#pragma once

#include "abi/control.hpp"
#include "libverbs-provider/abi34.hpp"

namespace softhca::provider {

abi::QpAttributes to_qp_attributes(const ibv_qp_attr& attr, int mask);
/// Leaves `cap` zero: the daemon does not send it.
ibv_qp_attr from_qp_attributes(const abi::QpAttributes& attributes);

}  // namespace softhca::provider
