// SPDX-License-Identifier: Apache-2.0

// Requests that begin and end a change of engines. An engine on the memory of an earlier one serves
// when its objects are restored: RestoreCq, AddSrq and RegisterMr and AllocMw with a number or key,
// RestoreQp.
#pragma once

#include "daemon/base/pulse.hpp"

namespace softhca::engine {

class Engine;

/// Drops what the earlier engine has left and was not restored. The engine serves from now on.
struct EndRestoring {
  Subject culprit{};  ///< queue pair or port that is to fail first
  void run(Engine& engine) const;
};

/// Ends serving, so that the next engine can take over. The engine does nothing any more.
struct RetireEngine {
  void run(Engine& engine) const;
};

}  // namespace softhca::engine
