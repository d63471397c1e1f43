// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/session/session_restorer.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/requests/memory_requests.hpp"
#include "daemon/live_records/record_body.hpp"
#include "daemon/tenant_memory/process_memory.hpp"

namespace softhca::control {

Outcome SessionRestorer::open(records::Adopted& record) {
  const WorkingOn working(session_.adapter_.pulse, subject());
  records::BodyReader body(record.body);
  record::Session kept;
  std::string level_name;
  KeptId vcb_pages = 0;
  if (!body.read(kept) || !body.read_text(level_name) || !body.read_added(vcb_pages))
    return Error{"the record of a session is damaged", EBADMSG};
  const auto refuse = [&](const std::string& why) {
    return Error{"session " + std::to_string(kept.number) + ": its tenant has no " + why, EBADMSG};
  };
  const auto& levels = session_.tenant().levels;
  const auto level =
      std::ranges::find_if(levels, [&](const auto& each) { return each->name == level_name; });
  if (level == levels.end() && !level_name.empty())
    return refuse("level \"" + level_name + "\" any more");
  if (kept.device >= session_.adapter_.devices(session_.tenant()).size())
    return refuse("device " + std::to_string(kept.device) + " any more");
  session_.context_.set_restoring(true);
  session_.context_.machine() = session_.tenant().control.machine;
  session_.context_.set_device_index(kept.device);
  session_.version_ = kept.version;
  session_.may_offer_memory_ = kept.may_offer_memory != 0;
  session_.pds_.restore_own_file(kept.file);
  return session_.attachment_.restore(kept, level != levels.end() ? level->get() : nullptr,
                                      vcb_pages, std::move(record.record));
}

bool SessionRestorer::restore_monitor(const record::Machine& kept, records::Record record) {
  const WorkingOn working(session_.adapter_.pulse, subject());
  session_.context_.set_restoring(true);
  const bool done = session_.monitor_.restore(kept, std::move(record));
  session_.context_.set_restoring(false);
  return done;
}

void SessionRestorer::finish() {
  session_.rings_.end_restoring();
  session_.context_.set_restoring(false);
}

bool SessionRestorer::restore_offered(const record::OfferedMemory& kept, records::Record record) {
  if (kept.by_proxy == record::kInMachine) return restore_in_machine(kept, std::move(record));
  SessionContext& context = session_.context_;
  const bool by_proxy = context.helpers() != nullptr && kept.by_proxy != 0;
  const engine::MemoryReach reach =
      context.on_engine(engine::ReachMemory{.tenant = context.tenant(), .by_proxy = by_proxy});
  auto memory = context.peer().restore_memory(kept.socket, reach, by_proxy);
  if (!memory) return false;
  const auto account = std::make_shared<DeviceSession::OfferedAccount>();
  account->descriptor = session_.regions_.has_process()
                            ? context.take(configuration::Kind::kDescriptors)
                            : session_.descriptors_->split(1);
  account->memory = std::move(*memory);
  account->record = std::move(record);
  session_.regions_.set_process({account, account->memory.get()});
  return true;
}

bool SessionRestorer::restore_in_machine(const record::OfferedMemory& kept,
                                         records::Record record) {
  const auto number = static_cast<std::uint32_t>(kept.socket);
  if (machine() == nullptr) return false;
  machine()->skip_memory(number);
  auto memory = reach_in_machine(session_.context_, number);
  if (!memory) return false;
  const auto account = std::make_shared<DeviceSession::OfferedAccount>();
  account->memory = std::move(*memory);
  account->record = std::move(record);
  session_.regions_.set_process({account, account->memory.get()});
  return true;
}

bool SessionRestorer::restore(records::Adopted& object) {
  const WorkingOn working(session_.adapter_.pulse, subject());
  const auto as = [&]<class Kept, class Part>(Part& part,
                                              bool (Part::*make)(const Kept&, records::Record)) {
    Kept kept;
    if constexpr (requires { kept.read(object.body); }) {
      if (!kept.read(object.body)) return false;
    } else {
      if (records::BodyReader body(object.body); !body.read(kept)) return false;
    }
    return (part.*make)(kept, std::move(object.record));
  };
  switch (object.kind) {
    case records::Kind::kOfferedMemory:
      return as(*this, &SessionRestorer::restore_offered);
    case records::Kind::kRingSegment:
      return as(session_.rings_, &RingMemory::restore_segment);
    case records::Kind::kSharedHandles:
      return as(session_.buffers_, &SharedBuffers::restore_handles);
    case records::Kind::kProtectionDomain:
      return as(session_.pds_, &PdObjects::restore);
    case records::Kind::kMemoryWindow:
      return as(session_.windows_, &MwObjects::restore);
    case records::Kind::kCompletionChannel:
      return as(session_.cqs_, &CqObjects::restore_channel);
    case records::Kind::kCompletionQueue:
      return as(session_.cqs_, &CqObjects::restore);
    case records::Kind::kXrcDomain:
      return as(session_.xrc_domains_, &OpenXrcDomains::restore);
    case records::Kind::kSharedReceiveQueue:
      return as(session_.srqs_, &SrqObjects::restore);
    case records::Kind::kQueuePair:
      return as(session_.qps_, &QpObjects::restore);
    case records::Kind::kOpenedQueuePair:
      return as(session_.qps_, &QpObjects::restore_opened);
    case records::Kind::kAddressHandle:
      return as(session_.ahs_, &AhObjects::restore);
    default:
      return false;
  }
}

bool SessionRestorer::restore_region(records::Adopted& region, const MrObjects::Earlier& earlier) {
  const WorkingOn working(session_.adapter_.pulse, subject());
  records::BodyReader body(region.body);
  record::MemoryRegion kept;
  if (!body.read(kept) || kept.extents > abi::kMaxMrExtents) return false;
  std::vector<record::RegionExtent> extents(kept.extents);
  for (record::RegionExtent& extent : extents)
    if (!body.read(extent)) return false;
  return session_.regions_.restore(kept, extents, earlier, std::move(region.record));
}

}  // namespace softhca::control
