// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/ah_objects.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/device/adapter/device_ports.hpp"
#include "daemon/engine/requests/address_handle_requests.hpp"

namespace softhca::control {

int path_of(const SessionContext& context, const abi::AddressVector& av, engine::AddressPath& out) {
  if (av.is_global == 0)
    return context.refuse(EINVAL, "ah_attr.is_global 0, must be 1: RoCE needs GIDs");
  if (const int error = context.check_port("ah_attr.port_num", av.port_num)) return error;
  const GidEntries gids =
      gid_table(context.tenant().addresses, context.device_index(), av.port_num);
  if (av.sgid_index >= gids.size())
    return context.refuse(EINVAL, "ah_attr.grh.sgid_index %u, at most %zu", av.sgid_index,
                          gids.size() - 1);
  const engine::Tenant::Address& source = gids[av.sgid_index];
  Gid destination;
  std::memcpy(destination.bytes.data(), av.dgid, sizeof av.dgid);
  if (destination.is_zero()) return context.refuse(EINVAL, "ah_attr.grh.dgid is zero");
  // RoCE v2 puts both addresses into one IP header.
  if (destination.is_ipv4() != source.gid.is_ipv4())
    return context.refuse(EINVAL, "ah_attr.grh.dgid is %s address, and the GID of sgid_index %u %s",
                          destination.is_ipv4() ? "an IPv4" : "an IPv6", av.sgid_index,
                          source.gid.is_ipv4() ? "an IPv4 address" : "an IPv6 address");
  out.source = source.gid;
  out.destination = destination;
  out.port = source.port;
  out.flow_label = av.flow_label & 0xfffff;
  out.traffic_class = av.traffic_class;
  out.service_level = av.sl;
  out.hop_limit = av.hop_limit == 0 ? 64 : av.hop_limit;
  return 0;
}

record::Path recorded(const engine::AddressPath& path) {
  record::Path kept{.source = {},
                    .destination = {},
                    .flow_label = path.flow_label,
                    .traffic_class = path.traffic_class,
                    .hop_limit = path.hop_limit,
                    .service_level = path.service_level,
                    .reserved = 0};
  std::ranges::copy(path.source.bytes, kept.source);
  std::ranges::copy(path.destination.bytes, kept.destination);
  return kept;
}

engine::AddressPath path_of(const SessionContext& context, const record::Path& kept) {
  engine::AddressPath path{.flow_label = kept.flow_label,
                           .traffic_class = kept.traffic_class,
                           .hop_limit = kept.hop_limit,
                           .service_level = kept.service_level};
  std::ranges::copy(kept.source, path.source.bytes.begin());
  std::ranges::copy(kept.destination, path.destination.bytes.begin());
  const auto& all = context.tenant().addresses;
  const auto found = std::ranges::find(all, path.source, &engine::Tenant::Address::gid);
  if (found != all.end()) path.port = found->port;
  return path;
}

bool AhObjects::end(const Turn& turn) {
  return context_.remove_all(
      turn, [&] { return ahs_.remove_last(); },
      [](const Ah& ah) { return engine::RemoveAh{ah.handle}; },
      [&](const std::unique_ptr<Ah>& ah) { handles_.erase(ah->handle); });
}

int AhObjects::create(const RequestBody& body, Reply& reply) {
  abi::CreateAhRequest request;
  if (!body.read(request)) return EINVAL;
  PdObject* pd = pds_.find(request.pd);
  if (pd == nullptr) return context_.refuse_unknown("protection domain");
  auto ah = std::make_unique<Ah>();
  if (const int error = path_of(context_, request.av, ah->engine.route.path)) return error;
  ah->charge = context_.take(configuration::Kind::kAddressHandles);
  if (!ah->charge) return ENOMEM;
  ah->pd = PdUse(*pd, PdUser::kAddressHandle);
  ah->engine.session = &context_.engine_session();
  ah->engine.pd = pd->id;
  ah->handle = context_.on_engine(engine::AddAh{ah->engine});
  // The process gets the engine's handle, which its commands carry. The table's handle stays in the
  // daemon.
  const std::uint32_t handle = ah->handle;
  ah->record =
      context_.write_object(records::Kind::kAddressHandle,
                            record::AddressHandle{.key = context_.record_key(),
                                                  .number = handle,
                                                  .pd = request.pd,
                                                  .path = recorded(ah->engine.route.path)});
  handles_[handle] = ahs_.add(std::move(ah));
  reply.write(abi::HandleBody{handle, 0});
  return 0;
}

bool AhObjects::restore(const record::AddressHandle& kept, records::Record record) {
  PdObject* pd = pds_.find(kept.pd);
  if (pd == nullptr || handles_.contains(kept.number)) return false;
  auto ah = std::make_unique<Ah>();
  ah->charge = context_.take(configuration::Kind::kAddressHandles);
  ah->pd = PdUse(*pd, PdUser::kAddressHandle);
  ah->engine.session = &context_.engine_session();
  ah->engine.pd = pd->id;
  ah->engine.route.path = path_of(context_, kept.path);
  ah->handle = kept.number;
  ah->record = std::move(record);
  if (!context_.on_engine(engine::RestoreAh{ah->engine, kept.number})) return false;
  handles_[kept.number] = ahs_.add(std::move(ah));
  return true;
}

int AhObjects::destroy(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const auto found = handles_.find(request.handle);
  if (found == handles_.end()) return context_.refuse_unknown("address handle");
  const auto ah = ahs_.remove(found->second);
  handles_.erase(found);
  context_.on_engine(engine::RemoveAh{ah->handle});
  return 0;
}

}  // namespace softhca::control
