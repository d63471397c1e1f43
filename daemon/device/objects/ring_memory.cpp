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
    : context_(context), segments_(kRingBudget, context.unmap(), context.lock_memory()) {}

int RingMemory::allocate(std::size_t bytes, Reply& reply, Ring& ring, std::uint32_t& new_segment) {
  configuration::Charge charge = context_.take(configuration::Kind::kQueueBytes, bytes);
  if (!charge) return ENOMEM;
  std::shared_ptr<configuration::Charge> mapping;  // ends with the segment
  if (!segments_.has_room(bytes)) {
    if (!context_.may_map()) return kNoRoomYet;
    mapping =
        std::make_shared<configuration::Charge>(context_.take(configuration::Kind::kMappings));
    if (!*mapping) return ENOMEM;
  }
  const auto allocation = segments_.allocate(bytes, std::move(mapping));
  if (!allocation) return context_.refuse(allocation.error());
  ring.location = allocation->location;
  ring.base = allocation->base;
  ring.bytes = std::move(charge);
  new_segment = allocation->new_segment ? 1 : 0;
  if (allocation->new_segment) {
    reply.share(allocation->fd);
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
  if (sent)
    for (const std::uint32_t segment : announced_) segments_.announced(segment);
  announced_.clear();
}

}  // namespace softhca::control
