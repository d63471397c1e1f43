// Which connection a message is for. A message must name both communication ids and come from the
// peer's address; only the first answer to a REQ cannot name one that its sender just made.
#pragma once

#include "daemon/management/cm/connection_table.hpp"
#include "daemon/management/cm/parameters.hpp"
#include "daemon/wire/cm_messages.hpp"

namespace softhca::management::cm {

bool same_ends(const Path& a, const Path& b);

/// The connection of a message that names both ids (`local` is this side's). Null: there is none,
/// or `remote` is 0, which stands for an id that is not known yet.
Connection* match(ConnectionTable& connections, std::uint32_t local, std::uint32_t remote,
                  const Path& path);
/// The connection of an answer that may be the first: the peer's id is not known yet, or is
/// `remote`.
Connection* match_answer(ConnectionTable& connections, std::uint32_t local, std::uint32_t remote,
                         const Path& path);
/// The connection of a REJ: as match_answer(), or a half-open one whose peer gives up its REQ.
Connection* match_rejected(ConnectionTable& connections, const wire::CmRej& m, const Path& path);

}  // namespace softhca::management::cm
