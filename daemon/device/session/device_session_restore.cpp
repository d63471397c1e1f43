// SPDX-License-Identifier: Apache-2.0

// Makes the session of an earlier adapter again, and its objects.
#include <cerrno>
#include <string>
#include <utility>

#include "daemon/device/session/device_session.hpp"
#include "daemon/engine/requests/memory_requests.hpp"
#include "daemon/live_records/record_body.hpp"
#include "daemon/tenant_memory/process_memory.hpp"

namespace softhca::control {

Outcome DeviceSession::restore(records::Adopted& session) {
  records::BodyReader body(session.body);
  record::Session kept;
  std::string level_name;
  if (!body.read(kept) || !body.read_text(level_name) || !body.is_at_end())
    return Error{"the record of a session is damaged", EBADMSG};
  const auto& levels = tenant().levels;
  const auto level = std::ranges::find_if(
      levels, [&](const auto& each) { return each->name == level_name; });
  if (level == levels.end() && !level_name.empty())
    return Error{"session " + std::to_string(kept.number) + ": its tenant has no level \"" +
                     level_name + "\" any more",
                 EBADMSG};
  if (kept.device >= adapter_.devices(tenant()).size())
    return Error{"session " + std::to_string(kept.number) + ": its tenant has no device " +
                     std::to_string(kept.device),
                 EBADMSG};
  context_.set_restoring(true);
  context_.set_device_index(kept.device);
  version_ = kept.version;
  may_offer_memory_ = kept.may_offer_memory;
  pds_.restore_own_file(kept.file);
  return attachment_.restore(kept, level != levels.end() ? level->get() : nullptr,
                             std::move(session.record));
}

void DeviceSession::end_restoring() {
  rings_.end_restoring();
  context_.set_restoring(false);
}

bool DeviceSession::restore_offered(const record::OfferedMemory& kept, records::Record record) {
  const bool by_proxy = context_.helpers() != nullptr && kept.by_proxy != 0;
  const engine::MemoryReach reach =
      context_.on_engine(engine::ReachMemory{.tenant = context_.tenant(), .by_proxy = by_proxy});
  auto memory = context_.peer().restore_memory(kept.socket, reach, by_proxy);
  if (!memory) return false;
  const auto account = std::make_shared<OfferedAccount>();
  account->descriptor = regions_.has_process() ? context_.take(configuration::Kind::kDescriptors)
                                               : descriptors_->split(1);
  account->memory = std::move(*memory);
  account->record = std::move(record);
  regions_.set_process({account, account->memory.get()});
  return true;
}

bool DeviceSession::restore_object(records::Adopted& object) {
  const auto restore = [&]<class T>(auto&& make, const T&) {
    T kept;
    records::BodyReader body(object.body);
    return body.read(kept) && body.is_at_end() && make(kept, std::move(object.record));
  };
  // Passes the record to `function` of `part`.
  const auto by = [&](auto& part, auto function) {
    return [&part, function](const auto& kept, records::Record record) {
      return (part.*function)(kept, std::move(record));
    };
  };
  using enum records::Kind;
  switch (object.kind) {
    case kOfferedMemory:
      return restore(by(*this, &DeviceSession::restore_offered), record::OfferedMemory());
    case kRingSegment:
      return restore(by(rings_, &RingMemory::restore_segment), record::RingSegment());
    case kSharedHandles:
      return restore(by(buffers_, &SharedBuffers::restore_handles), record::SharedHandles());
    case kProtectionDomain:
      return restore(by(pds_, &PdObjects::restore), record::ProtectionDomain());
    case kMemoryWindow:
      return restore(by(windows_, &MwObjects::restore), record::MemoryWindow());
    case kCompletionChannel:
      return restore(by(cqs_, &CqObjects::restore_channel), record::CompletionChannel());
    case kCompletionQueue:
      return restore(by(cqs_, &CqObjects::restore), record::CompletionQueue());
    case kXrcDomain:
      return restore(by(xrc_domains_, &OpenXrcDomains::restore), record::XrcDomain());
    case kSharedReceiveQueue:
      return restore(by(srqs_, &SrqObjects::restore), record::SharedReceiveQueue());
    case kQueuePair:
      return restore(by(qps_, &QpObjects::restore), record::QueuePair());
    case kOpenedQueuePair:
      return restore(by(qps_, &QpObjects::restore_opened), record::OpenedQueuePair());
    case kAddressHandle:
      return restore(by(ahs_, &AhObjects::restore), record::AddressHandle());
    default:
      return false;
  }
}

bool DeviceSession::restore_region(records::Adopted& region, const MrObjects::Earlier& earlier) {
  records::BodyReader body(region.body);
  record::MemoryRegion kept;
  if (!body.read(kept) || kept.extents > abi::kMaxMrExtents) return false;
  std::vector<record::RegionExtent> extents(kept.extents);
  for (record::RegionExtent& extent : extents)
    if (!body.read(extent)) return false;
  return body.is_at_end() && regions_.restore(kept, extents, earlier, std::move(region.record));
}

}  // namespace softhca::control
