// SPDX-License-Identifier: Apache-2.0

// The process at the other end of a MemoryProxy.
#pragma once

#include <cstdint>

#include "daemon/base/unique_fd.hpp"

namespace softhca::memory {

/// Makes the accesses that are asked for in `area` (ProxyArea), one after the other, until the
/// other end of `socket` is closed; then the process ends. `offset`: of the area in its file.
[[noreturn]] void serve_memory_proxy(UniqueFd area, UniqueFd socket, std::uint64_t offset = 0);

}  // namespace softhca::memory
