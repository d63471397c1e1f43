// SPDX-License-Identifier: Apache-2.0

// Tells the keeper which thread of the adapter is at fault when a signal ends it.
#pragma once

#include "daemon/base/pulse.hpp"

namespace softhca::keeper {

/// From now on, a signal of a fault sets Pulse::fault of its thread, and then does what it did
/// before. While `control` has not begun, it is the pulse of any thread but the engine's. Both must
/// outlive the process.
void show_fault_signals(Pulse& engine, Pulse& control);

}  // namespace softhca::keeper
