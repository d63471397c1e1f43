// SPDX-License-Identifier: Apache-2.0

// Makes the objects of all sessions again from the records of an earlier adapter.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/device/session/device_session.hpp"
#include "daemon/live_records/record_store.hpp"

namespace softhca::control {

/// Returns the session of the process with this Peer::kept(), without objects yet. Null: none.
using FindSession = std::function<DeviceSession*(KeptId connection)>;

/// A session of which a record does not fit the others.
struct UnfitSession {
  KeptId connection;
  std::string why;
};

/// Restores the sessions and their objects, in the order of the records. Takes the records of
/// objects out of `left`; others stay. The objects of a session that has gone go, too, except what
/// other sessions share. Returns the sessions that are not complete: end them, as if their
/// processes had gone, before they are served. Errors: EMFILE, ENFILE; the engine and the sessions
/// are then not complete: give the adapter up, without destructors. REQUIRES: the tenants are
/// there, the engine's thread has not started or rests, and no session has had a request.
Expected<std::vector<UnfitSession>> restore_sessions(Adapter& adapter, SharedObjects& shared,
                                                     std::span<records::Adopted> left,
                                                     const FindSession& find);

/// Returns the connection that `subject` names, itself or by its session; 0: none.
KeptId connection_of(Subject subject, std::span<const records::Adopted> left);

}  // namespace softhca::control
