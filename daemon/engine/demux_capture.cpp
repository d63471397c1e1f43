// SPDX-License-Identifier: Apache-2.0

// Reports received packets to captures, with what became of them.
#include <algorithm>

#include "daemon/engine/demux.hpp"

namespace softhca::engine {
namespace {

/// Most tenants of a multicast group to which a packet is reported.
constexpr std::size_t kMostTenants = 16;

}  // namespace

/// Reports the packet after it was processed. Packets that it leads to are sent later, except for a
/// congestion notification and a late acknowledgement (answer_late()).
void Demux::take_shown(PortBinding& binding, const wire::ParsedFrame& parsed) {
  std::array<const Tenant*, kMostTenants> tenants{};
  std::size_t count = 0;
  if (parsed.headers.destination == kMulticastQpn) {
    multicast_.for_each_on(parsed.destination, binding.id, parsed.source, [&](QueuePair& member) {
      const auto end = tenants.begin() + count;
      if (count < kMostTenants && std::find(tenants.begin(), end, member.tenant) == end)
        tenants[count++] = member.tenant;
    });
  } else {
    const QueuePair* const qp = queue_pairs_.find(parsed.headers.destination);
    tenants[count++] = qp != nullptr && qp->clients == nullptr
                           ? qp->tenant
                           : addresses_.owner(parsed.destination, binding.id);
  }
  const DropWatch watch(&binding.drops, tenants[0] != nullptr ? &tenants[0]->counters : nullptr);
  take(binding, parsed);
  const CaptureRemark remark = watch.remark();
  for (std::size_t i = 0; i < std::max<std::size_t>(count, 1); ++i)
    packets_.captures().received(binding, tenants[i], parsed, remark);
}

}  // namespace softhca::engine
