// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/ring_memory.hpp"

#include <cerrno>
#include <memory>
#include <utility>

namespace softhca::control {
namespace {

constexpr std::size_t kRingBudget = std::size_t{1} << 30;  // per process

}  // namespace

RingMemory::RingMemory(const SessionContext& context)
    : context_(context), segments_(kRingBudget, context.unmap(), context.memory_source()) {}

int RingMemory::allocate(std::size_t bytes, Reply& reply, Ring& ring, std::uint32_t& new_segment) {
  configuration::Charge charge = context_.take(configuration::Kind::kQueueBytes, bytes);
  if (!charge) return ENOMEM;
  std::shared_ptr<Account> account;
  if (!segments_.has_room(bytes)) {
    if (!context_.may_map()) return kNoRoomYet;
    account = std::make_shared<Account>();
    account->mapping = context_.take(configuration::Kind::kMappings);
    if (!account->mapping) return ENOMEM;
  }
  const auto allocation = segments_.allocate(bytes, account);
  if (!allocation) return context_.refuse(allocation.error());
  if (allocation->kept != 0) {
    account->kept = {.key = context_.record_key(),
                     .memory = allocation->kept,
                     .number = allocation->location.segment,
                     .announced = 0};
    account->record = context_.write_object(records::Kind::kRingSegment, account->kept);
    accounts_[allocation->location.segment] = account;
  }
  ring.location = allocation->location;
  ring.base = allocation->base;
  ring.bytes = std::move(charge);
  new_segment = allocation->new_segment ? 1 : 0;
  if (allocation->new_segment) {
    reply.share(*allocation->segment);
    announced_.push_back(ring.location.segment);
  }
  return 0;
}

int RingMemory::reserve(std::size_t bytes, Reply& reply, std::uint32_t& segment,
                        std::uint32_t& new_segment) {
  Ring ring;
  if (const int error = allocate(bytes, reply, ring, new_segment)) return error;
  segment = ring.location.segment;
  release(ring);
  return 0;
}

void RingMemory::release(Ring& ring) {
  if (ring.location.bytes != 0) segments_.release(ring.location);
  ring = {};
}

void RingMemory::replied(bool sent) {
  for (const std::uint32_t segment : std::exchange(announced_, {})) {
    if (!sent) continue;
    segments_.announced(segment);
    const auto found = accounts_.find(segment);
    const auto account = found != accounts_.end() ? found->second.lock() : nullptr;
    if (account == nullptr || std::exchange(account->kept.announced, 1) != 0) continue;
    account->record.replace(std::as_bytes(std::span(&account->kept, 1)));
  }
}

bool RingMemory::restore_segment(const record::RingSegment& kept, records::Record record) {
  const auto account = std::make_shared<Account>();
  account->mapping = context_.take(configuration::Kind::kMappings);
  account->kept = kept;
  account->record = std::move(record);
  accounts_[kept.number] = account;
  return static_cast<bool>(
      segments_.adopt_segment(kept.number, kept.memory, account, kept.announced != 0));
}

bool RingMemory::restore(const abi::RingLocation& location, Ring& ring) {
  ring.base = segments_.adopt_ring(location);
  ring.location = location;
  ring.bytes = context_.take(configuration::Kind::kQueueBytes, location.bytes);
  return ring.base != nullptr;
}

}  // namespace softhca::control
