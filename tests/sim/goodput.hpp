// SPDX-License-Identifier: Apache-2.0

// What a bad link costs: frames sent for each frame needed, and goodput in virtual time.
#pragma once

#include <string>

namespace softhca::sim {

/// Returns the table as text. Each row: what the receiver does with packets after a lost one, loss,
/// frames sent per frame needed, milliseconds of virtual time, goodput relative to a run without
/// loss.
std::string goodput_table();

/// Compares with the approved table: every loss present, frames within a third, time within a third
/// plus the tolerance of the mode. Prints both tables if they differ.
bool check_goodput(const std::string& approved_path);

}  // namespace softhca::sim
