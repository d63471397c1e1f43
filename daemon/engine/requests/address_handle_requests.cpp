// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/address_handle_requests.hpp"

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

std::uint32_t AddAh::run(Engine& engine) const { return engine.address_handles().add(ah); }

bool RestoreAh::run(Engine& engine) const { return engine.address_handles().add(ah, handle); }

void RemoveAh::run(Engine& engine) const { engine.address_handles().remove(handle); }

}  // namespace softhca::engine
