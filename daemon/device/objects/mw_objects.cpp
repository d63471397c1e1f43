// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/mw_objects.hpp"

#include <cerrno>

#include "daemon/engine/requests/memory_requests.hpp"

namespace softhca::control {

bool MwObjects::end(const Turn& turn) {
  return context_.remove_all(turn, windows_,
                             [](const Window& window) { return engine::DeallocMw{window.key}; });
}

int MwObjects::alloc(const RequestBody& body, Reply& reply) {
  abi::AllocWindowRequest request;
  if (!body.read(request)) return EINVAL;
  PdObject* pd = pds_.find(request.pd);
  constexpr std::uint32_t kType1 = 1;
  constexpr std::uint32_t kType2 = 2;
  if (pd == nullptr) return context_.refuse_unknown("protection domain");
  if (request.type != kType1 && request.type != kType2)
    return context_.refuse(EINVAL, "type %u, must be 1 or 2", request.type);
  auto window = std::make_unique<Window>();
  window->charge = context_.take(configuration::Kind::kMemoryWindows);
  if (!window->charge) return ENOMEM;
  window->pd = PdUse(*pd, PdUser::kMemoryWindow);
  window->key = context_.on_engine(engine::AllocMw{.pd = pd->id, .type2 = request.type == kType2});
  if (window->key == 0)
    return context_.refuse(ENOMEM, "all memory windows of the adapter are in use");
  Window& made = *window;
  const std::uint32_t handle = windows_.add(std::move(window));
  made.record = context_.write_object(records::Kind::kMemoryWindow,
                                      record::MemoryWindow{.key = context_.record_key(),
                                                           .handle = handle,
                                                           .first_key = made.key,
                                                           .pd = request.pd,
                                                           .type2 = request.type == kType2});
  reply.write(abi::AllocWindowReply{handle, made.key});
  return 0;
}

bool MwObjects::restore(const record::MemoryWindow& kept, records::Record record) {
  PdObject* pd = pds_.find(kept.pd);
  if (pd == nullptr || !windows_.has_place(kept.handle)) return false;
  auto window = std::make_unique<Window>();
  window->charge = context_.take(configuration::Kind::kMemoryWindows);
  window->pd = PdUse(*pd, PdUser::kMemoryWindow);
  window->key = context_.on_engine(
      engine::AllocMw{.pd = pd->id, .type2 = kept.type2 != 0, .key = kept.first_key});
  window->record = std::move(record);
  return window->key != 0 && windows_.add(std::move(window), kept.handle) != nullptr;
}

int MwObjects::dealloc(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const auto window = windows_.remove(request.handle);
  if (window == nullptr) return context_.refuse_unknown("memory window");
  context_.on_engine(engine::DeallocMw{window->key});
  return 0;
}

}  // namespace softhca::control
