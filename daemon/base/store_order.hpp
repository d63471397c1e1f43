// SPDX-License-Identifier: Apache-2.0

// The order of stores to memory that outlives the process.
#pragma once

#include <atomic>

namespace softhca {

/// Keeps the compiler from moving a store to the other side. After the end of a process all stores
/// that it has retired are in memory, in their order.
inline void keep_store_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace softhca
