// SPDX-License-Identifier: Apache-2.0

// Where the agent finds the channel to the host.
#pragma once

#include <string>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::guest {

inline constexpr char kVirtioPort[] = "/dev/virtio-ports/softhca";

/// Opens the channel: at `place`, which is a character device, a Unix socket, "vsock", or "fd:N"
/// for an inherited descriptor; if it is empty, at kVirtioPort if that exists, else by vsock.
Expected<UniqueFd> open_channel(const std::string& place);

}  // namespace softhca::guest
