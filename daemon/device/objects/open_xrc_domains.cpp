// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/open_xrc_domains.hpp"

#include <cerrno>
#include <utility>

namespace softhca::control {

int OpenXrcDomains::open(const RequestBody& body, Reply& reply) {
  abi::OpenXrcDomainRequest request;
  if (!body.read(request)) return EINVAL;
  constexpr std::uint32_t kKnown = abi::kXrcOfFile | abi::kXrcCreate | abi::kXrcExclusive;
  if ((request.flags & ~kKnown) != 0)
    return context_.refuse(EINVAL, "unknown flags 0x%x", request.flags & ~kKnown);
  auto open = std::make_unique<OpenXrcDomain>();
  open->charge = context_.take(configuration::Kind::kProtectionDomains);
  if (!open->charge) return ENOMEM;
  if ((request.flags & abi::kXrcOfFile) == 0) {
    open->domain = all_.make();
  } else {
    auto domain = all_.open(file_of(request), (request.flags & abi::kXrcCreate) != 0,
                            (request.flags & abi::kXrcExclusive) != 0);
    if (!domain) return context_.refuse(domain.error());
    open->domain = std::move(*domain);
  }
  OpenXrcDomain& made = *open;
  const std::uint32_t handle = open_.add(std::move(open));
  made.record = context_.write_object(records::Kind::kXrcDomain,
                                      record::XrcDomain{.key = context_.record_key(),
                                                        .handle = handle,
                                                        .id = made.domain->id.value,
                                                        .request = request});
  reply.write(abi::HandleBody{handle, 0});
  return 0;
}

XrcFile OpenXrcDomains::file_of(const abi::OpenXrcDomainRequest& request) const {
  return {.tenant = context_.tenant().id,
          .user = context_.identity().uid,
          .device = request.device,
          .inode = request.inode};
}

bool OpenXrcDomains::restore(const record::XrcDomain& kept, records::Record record) {
  auto open = std::make_unique<OpenXrcDomain>();
  open->charge = context_.take(configuration::Kind::kProtectionDomains);
  const XrcFile file = file_of(kept.request);
  open->domain = all_.restore(engine::XrcDomainId(kept.id),
                              (kept.request.flags & abi::kXrcOfFile) != 0 ? &file : nullptr);
  open->record = std::move(record);
  return kept.id != 0 && open_.add(std::move(open), kept.handle) != nullptr;
}

int OpenXrcDomains::close(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const OpenXrcDomain* open = open_.find(request.handle);
  if (open == nullptr) return context_.refuse_unknown("XRC domain");
  if (open->users != 0)
    return context_.refuse(EBUSY, "in use by %s (targets and shared receive queues)",
                           counted(open->users, "object").c_str());
  open_.remove(request.handle);
  return 0;
}

bool OpenXrcDomains::end(const Turn& turn) {
  while (open_.remove_last())
    if (turn.is_over()) return false;
  return true;
}

}  // namespace softhca::control
