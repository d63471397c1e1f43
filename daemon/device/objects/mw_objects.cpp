// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/mw_objects.hpp"

#include <cerrno>

namespace softhca::control {

bool MemoryWindows::end(const Turn& turn) {
  return context_.remove_all(turn, windows_, [](engine::Engine& engine, const Window& window) {
    engine.memory().remove_window(window.key);
  });
}

int MemoryWindows::alloc(const RequestBody& body, Reply& reply) {
  abi::AllocWindowRequest request;
  if (!body.read(request)) return EINVAL;
  PdObject* pd = pds_.find(request.pd);
  constexpr std::uint32_t kType1 = 1;
  constexpr std::uint32_t kType2 = 2;
  if (pd == nullptr || (request.type != kType1 && request.type != kType2)) return EINVAL;
  auto window = std::make_unique<Window>();
  window->charge = context_.take(configuration::Kind::kMemoryWindows);
  if (!window->charge) return ENOMEM;
  window->pd = PdUse(*pd);
  context_.on_engine([&](engine::Engine& engine) {
    const auto inserted = engine.memory().windows().insert(pd->id, request.type == kType2);
    if (inserted) window->key = (*inserted)->key;
  });
  if (window->key == 0) return ENOMEM;
  const std::uint32_t key = window->key;
  reply.write(abi::AllocWindowReply{windows_.add(std::move(window)), key});
  return 0;
}

int MemoryWindows::dealloc(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const auto window = windows_.remove(request.handle);
  if (window == nullptr) return EINVAL;
  context_.on_engine([&](engine::Engine& engine) { engine.memory().remove_window(window->key); });
  return 0;
}

}  // namespace softhca::control
