// SPDX-License-Identifier: Apache-2.0

#include <cerrno>
#include <cstring>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/operations.hpp"

namespace softhca::provider {
namespace {

int change_membership(ibv_qp* qp, abi::Operation operation, const ibv_gid& group) {
  abi::MulticastRequest request{qp->qp_num, 0, {}};
  std::memcpy(request.group, group.raw, sizeof request.group);
  const iovec body{&request, sizeof request};
  ReceivedFds none;
  return to_context(qp->context)->control.call(operation, {&body, 1}, {}, none);
}

}  // namespace

// The LID of a group is for InfiniBand and has no meaning in RoCE.

int attach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t) {
  return change_membership(qp, abi::Operation::kAttachMulticast, *group);
}

/// Succeeds if the daemon has ended, because the membership has ended, too. This lets programs
/// clean up.
int detach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t) {
  const int error = change_membership(qp, abi::Operation::kDetachMulticast, *group);
  return error == EIO && to_context(qp->context)->control.lost() ? 0 : error;
}

}  // namespace softhca::provider
