// What a program's user is told of memory that cannot be registered for want of process memory.
#pragma once

#include <cstdint>
#include <span>

#include "abi/control.hpp"

namespace softhca::provider {

/// Says once in the process, on standard error, what of the region is not shared with the daemon,
/// and why: a file of /proc that cannot be opened (`open_error`: that of /proc/self/mem, an errno
/// value, or 0), or else which setting allows it.
void say_unshared(std::uint64_t addr, std::uint64_t length, std::span<const abi::MrExtent> extents,
                  int open_error);
/// The same of a region of all addresses.
void say_implicit();

}  // namespace softhca::provider
