// SPDX-License-Identifier: Apache-2.0

// A command of a process, as its handler receives it.
#pragma once

#include <cstddef>
#include <span>

#include "daemon/base/time.hpp"
#include "daemon/roce/rdma_cm/channel.hpp"
#include "daemon/roce/rdma_cm/layouts.hpp"

namespace softhca::management::rdma_cm {

using Body = std::span<const std::byte>;

/// Handlers return 0 or the errno value for the process.
struct ChannelCommand {
  Channel& channel;
  Channel* other;  ///< MIGRATE_ID: channel that has the identifier; null: unknown
  Body body;
  ChannelReply& reply;
  Time now;
};

}  // namespace softhca::management::rdma_cm
