// What a bad link costs: frames sent for each frame needed, and goodput in virtual time.
#pragma once

#include <string>

namespace softhca::sim {

/// The table as text. Each row: what the receiver does with what comes behind a lost packet, loss,
/// frames sent per frame needed, milliseconds of virtual time, goodput beside that without loss.
std::string goodput_table();

/// Compares with the approved table: every loss present, frames within a third, time within a third
/// and what luck decides. Prints both when they differ.
bool check_goodput(const std::string& approved_path);

}  // namespace softhca::sim
