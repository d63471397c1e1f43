// SPDX-License-Identifier: Apache-2.0

// Captures and faults end with their adapter. The adapter that follows reports so.
#pragma once

#include <span>
#include <string>

#include "daemon/device/adapter/adapter.hpp"

namespace softhca::control {

/// Records a capture or fault as long as the result exists. `kind`: of the event that the next
/// adapter adds to the journal. `text`: what it says has ended.
records::Record record_diagnosis(const Adapter& adapter, const char* kind, const std::string& text);

/// Adds an event for each capture and fault of an earlier adapter, and drops their records.
void report_ended_diagnoses(Adapter& adapter, std::span<records::Adopted> left);

}  // namespace softhca::control
