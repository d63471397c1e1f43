// SPDX-License-Identifier: Apache-2.0

// Adjusts the VCBs of running programs to what they post (A1).
#pragma once

#include <span>

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/device/session/vcb_grant.hpp"

namespace softhca::control {

/// Gives more VCBs to programs that lack them, up to kMaxVcbsPerSession. Takes back VCBs that a
/// program does not need, or that others lack. Call it about once a second. Makes at most two
/// requests to the engine.
void adjust_vcbs(Adapter& adapter, std::span<const VcbHolder> holders);

}  // namespace softhca::control
