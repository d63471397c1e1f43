// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/session_requests.hpp"

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

void InstallSession::run(Engine& engine) const { engine.sessions().install(session); }

void PollSession::run(Engine& engine) const { engine.sessions().poll(session); }

void RemoveSession::run(Engine& engine) const { engine.sessions().remove(session); }

void RaisePortEvent::run(Engine& engine) const { engine.async_events().raise(session, port, type); }

void RevokeVcbs::run(Engine&) const {
  for (VcbTarget& target : targets) target.count = target.session->view.revoke(target.count);
}

void GrantVcbs::run(Engine&) const {
  for (const VcbTarget& target : targets) target.session->view.grant(target.count);
}

}  // namespace softhca::engine
