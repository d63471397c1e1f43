// SPDX-License-Identifier: Apache-2.0

// Reads memory that a hostile process may change at any moment: copy once, validate the copy, use
// only the copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "abi/command.hpp"
#include "daemon/base/verdict.hpp"

namespace softhca::shm {

/// The result of taking the next element of a ring.
enum class Take : std::uint8_t {
  kEmpty,
  kTaken,
  kHostile,  ///< an index or count that no honest tenant writes; the ring's owner goes to error
};

/// Copies out of tenant memory. The fence keeps the compiler from reading the source again in place
/// of the copy, which the language allows.
inline void copy_once(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

/// Returns kOk if `room` bytes can hold the payload that a copied header claims, and if a list of
/// buffers has whole entries; otherwise kLocalQpOperation.
inline Verdict check_payload(const abi::CommandHeader& header, std::uint32_t room) {
  if (header.payload_bytes > room) return Verdict::kLocalQpOperation;
  const bool entries = (header.flags & abi::kCommandInline) == 0;
  if (entries && header.payload_bytes % sizeof(abi::ScatterGather) != 0)
    return Verdict::kLocalQpOperation;
  return Verdict::kOk;
}

}  // namespace softhca::shm
