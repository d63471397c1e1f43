// SPDX-License-Identifier: Apache-2.0

// Decides whether a datagram may have a buffer (mechanism E5): rates of sources, parts of a share,
// borrowed buffers. Pure functions of their arguments.
#pragma once

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/qos/gsa/client_table.hpp"
#include "daemon/qos/gsa/receive_parameters.hpp"
#include "daemon/qos/gsa/source_table.hpp"

namespace softhca::management::gsa {

/// Buffers that belong to no client's share.
struct SpareBuffers {
  std::uint32_t left = 0;             ///< not borrowed
  std::uint32_t borrowed_by_new = 0;  ///< by new sources of all clients
};

/// Records which source sent to a client: while several do, each is limited to its part. A source
/// that has been the only one for a `window` counts as alone.
void note_source(Client& client, std::uint32_t source, Duration window, Time now);

/// Returns kNone if neither the source nor all new sources of the client exceed their rate.
Discard check_rates(const Client& client, const Source& source, Time now);

/// The buffers that a datagram may use: the client's own, borrowed ones, or none.
enum class Grant : std::uint8_t { kOwn, kBorrowed, kRefused };
Grant grant(const Client& client, const Source& source, const SourceLimits& limits,
            const SpareBuffers& spare, Time now);
/// Returns why grant() refused. REQUIRES: it did.
Discard cause_of_refusal(const Client& client, const Source& source, const SourceLimits& limits,
                         const SpareBuffers& spare);

/// True if the source has used more than half of its burst or, if it is new, all new sources
/// together have used more than half of theirs.
bool is_busy(const Client& client, const Source& source, Time now);

}  // namespace softhca::management::gsa
