// SPDX-License-Identifier: Apache-2.0

// The words for checks that failed: the sentence for the operator, and the table of vendor_err.
#pragma once

#include <span>
#include <string>

#include "daemon/base/refusal.hpp"

namespace softhca::control {

/// A cause in words.
struct CauseWords {
  RefusalCause cause;
  const char* name;     ///< one word, for programs
  const char* meaning;  ///< for docs/verbs.md, which has this table
};

/// Returns all causes, in the order of their values.
std::span<const CauseWords> refusal_causes();
/// Returns one word. REQUIRES: not kNone.
const char* name_of(RefusalCause cause);

/// What the sentence says of the peer.
struct RefusalPeer {
  std::string address;
  Qpn qpn;
  std::string tenant;  ///< of the address; empty: unknown
};

/// Returns the sentence about a check that failed. Empty: nothing is known.
std::string text_of(const Refusal& refusal, const RefusalPeer& peer);

}  // namespace softhca::control
