// SPDX-License-Identifier: Apache-2.0

// Finds the connection of a message. A message must name both communication ids and come from the
// peer's address. Only the first answer to a REQ comes before this side knows the peer's id.
#pragma once

#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/cm/connection_table.hpp"
#include "daemon/roce/wire/cm_messages.hpp"

namespace softhca::management::cm {

bool same_ends(const Path& a, const Path& b);

/// Returns the connection of a message that names both ids (`local` is this side's). Returns null
/// if there is none, or if `remote` is 0, which means an unknown id.
Connection* match(ConnectionTable& connections, std::uint32_t local, std::uint32_t remote,
                  const Path& path);
/// Returns the connection of an answer that may be the first: the peer's id is unknown, or is
/// `remote`.
Connection* match_answer(ConnectionTable& connections, std::uint32_t local, std::uint32_t remote,
                         const Path& path);
/// Returns the connection of a REJ: like match_answer(), or a half-open one if its peer withdraws
/// its REQ.
Connection* match_rejected(ConnectionTable& connections, const wire::CmRej& m, const Path& path);

}  // namespace softhca::management::cm
