// Whether a datagram may have a buffer (mechanism E5): rates of sources, parts of a share, borrowed
// buffers. Pure functions of their arguments.
#pragma once

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/management/gsa/client_table.hpp"
#include "daemon/management/gsa/parameters.hpp"
#include "daemon/management/gsa/source_table.hpp"

namespace softhca::management::gsa {

/// Buffers of nobody's share.
struct SpareBuffers {
  std::uint32_t left = 0;             ///< that nobody has borrowed
  std::uint32_t borrowed_by_new = 0;  ///< by new sources of all clients
};

/// Remembers which source sent to a client: while there are several, each is held to its part. A
/// source that has sent alone for a `window` counts as alone.
void note_source(Client& client, std::uint32_t source, Duration window, Time now);

/// kNone: neither its source nor the client's new sources send too often.
Discard check_rates(const Client& client, const Source& source, Time now);

/// The buffers that a datagram may have one of: the client's own, borrowed ones, or none.
enum class Grant : std::uint8_t { kOwn, kBorrowed, kRefused };
Grant grant(const Client& client, const Source& source, const SourceLimits& limits,
            const SpareBuffers& spare, Time now);
/// REQUIRES: grant() refused.
Discard cause_of_refusal(const Client& client, const Source& source, const SourceLimits& limits,
                         const SpareBuffers& spare);

/// True: the source has used more than half of its burst or, if it is new, all new sources together
/// have used more than half of theirs.
bool is_busy(const Client& client, const Source& source, Time now);

}  // namespace softhca::management::gsa
