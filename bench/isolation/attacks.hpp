// SPDX-License-Identifier: Apache-2.0

// Attacks by an aggressor that makes rare kinds of work, rather than much work.
#pragma once

#include "bench/isolation/loop.hpp"

namespace softhca::bench {

/// Prints "running".
void say_running();

/// Makes completion queues and queue pairs, overflows the completion queues, and destroys all of
/// them once they have failed.
[[noreturn]] void overrun(const Device& device, const Demand& demand);

/// Sends datagrams to neighbours that do not exist: 3840 addresses of the device's own link, in
/// turn.
[[noreturn]] void ask_for_neighbours(const Device& device, const Demand& demand);

/// Writes to memory that the daemon reaches through the kernel. Meanwhile another thread locks the
/// address space as long as it can: it keeps changing the protection of 4 GiB of zero pages.
[[noreturn]] void lock_memory(const Device& device, const Demand& demand);

/// Writes to memory that is not shared with the daemon.
[[noreturn]] void write_unshared(const Device& device, const Demand& demand);

}  // namespace softhca::bench
