// SPDX-License-Identifier: Apache-2.0

// Which processes map a file.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "abi/control.hpp"

namespace softhca::guest {

struct MappedPlaces {
  pid_t process;
  std::vector<abi::MemoryPlace> places;  ///< of the file
};

/// Returns the places in the text of /proc/PID/maps where a file is mapped.
std::vector<abi::MemoryPlace> places_in(std::string_view maps, std::uint64_t device,
                                        std::uint64_t inode);
/// Returns all other processes that map a file, as far as this one may see it.
std::vector<MappedPlaces> find_mapped(std::uint64_t device, std::uint64_t inode);

}  // namespace softhca::guest
