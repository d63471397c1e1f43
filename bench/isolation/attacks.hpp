// What an aggressor does beside asking for much: it makes work of the kind that is seldom.
#pragma once

#include "bench/isolation/loop.hpp"

namespace softhca::bench {

/// Prints "running".
void say_running();

/// Completion queues that overflow, with the queue pairs that complete to them: made, written to
/// by more than there is room for, and destroyed once they have failed.
[[noreturn]] void overrun(const Device& device, const Demand& demand);

/// Datagrams to neighbours that are not there: 4096 addresses of the link of the device's own,
/// each in turn.
[[noreturn]] void ask_for_neighbours(const Device& device, const Demand& demand);

/// Writes in memory that the daemon reaches through the kernel, while another thread keeps the
/// address space locked as long as it can: it changes the protection of 4 GiB of zero pages, over
/// and over.
[[noreturn]] void lock_memory(const Device& device, const Demand& demand);

/// Writes in memory that is not shared with the daemon.
[[noreturn]] void write_unshared(const Device& device, const Demand& demand);

}  // namespace softhca::bench
