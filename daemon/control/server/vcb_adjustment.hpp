// VCBs follow what programs post, while they run (A1).
#pragma once

#include <span>

#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/session/vcb_grant.hpp"

namespace softhca::control {

/// Gives programs that miss VCBs more of them, up to `most_vcbs_per_process`, and takes back what
/// is not needed, or what others lack. About once a second. Two visits to the engine at most.
void adjust_vcbs(Adapter& adapter, std::span<const VcbHolder> holders);

}  // namespace softhca::control
