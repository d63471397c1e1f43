// SPDX-License-Identifier: Apache-2.0

// Protection domains, parent domains and thread domains.
#pragma once

#include <atomic>
#include <cstddef>

#include "libverbs-provider/abi34.hpp"

namespace softhca::provider {

struct Td {
  ibv_td base;
  std::atomic<int> users;  ///< parent domains
};
static_assert(offsetof(Td, base) == 0);

/// A parent domain has the handle of the protection domain that it was made of.
struct Pd {
  ibv_pd base;
  Pd* parent_of;           ///< null: this is a protection domain
  Td* td;                  ///< of a parent domain, or null
  std::atomic<int> users;  ///< parent domains made of this one
};
static_assert(offsetof(Pd, base) == 0);

}  // namespace softhca::provider
