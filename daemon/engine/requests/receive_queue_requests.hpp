// SPDX-License-Identifier: Apache-2.0

// Requests about shared receive queues.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "daemon/qos/receive/provisioner.hpp"
#include "daemon/tenant_memory/receive_ring.hpp"

namespace softhca::engine {

class Engine;
struct Session;
struct SharedReceiveQueue;

/// Adds a shared receive queue and gives it its number. Returns false if the given number is in
/// use.
struct AddSrq {
  SharedReceiveQueue& srq;
  /// That an earlier engine chose: the queue goes on where it was. 0: the engine chooses.
  std::uint32_t number = 0;
  bool run(Engine& engine) const;
};

/// Arms the limit event. It is raised at once if the queue is below the limit.
struct ArmSrqLimit {
  SharedReceiveQueue& srq;
  std::uint32_t limit;
  void run(Engine& engine) const;
};

/// Returns the limit that is armed. 0: none.
struct QuerySrqLimit {
  const SharedReceiveQueue& srq;
  std::uint32_t run(Engine& engine) const;
};

/// Returns the ring of a queue that is to be resized to `max_wr`, for ReceiveRing::copy_to().
/// Nothing: the queue has failed, or its receives or its limit are more than that.
struct CheckSrqResize {
  SharedReceiveQueue& srq;
  std::uint32_t max_wr;
  std::optional<std::uint32_t> limit;  ///< to be armed afterwards; nothing: the armed one stays
  std::optional<shm::ReceiveRing> run(Engine& engine) const;
};

/// Moves a queue to `ring`, which its own ring made (ReceiveRing::copy_to()). Returns the
/// provisioner that `made` replaces, to be freed on the caller's thread. REQUIRES: `made`, if the
/// queue has a provisioner.
struct ResizeSrq {
  SharedReceiveQueue& srq;
  const shm::ReceiveRing& ring;
  std::unique_ptr<receive::Provisioner> made;
  std::unique_ptr<receive::Provisioner> run(Engine& engine);
};

/// Retires queues: XRC requests no longer find them.
struct RetireSrqs {
  std::span<SharedReceiveQueue* const> srqs;
  void run(Engine& engine) const;
};

/// Removes retired queues from XRC targets, for some slots of queue pairs from `slot` on. Returns
/// the slot with which the next request continues. Nothing: no target has a retired queue.
struct DropRetiredSrqs {
  const Session& payer;
  std::uint32_t slot;
  std::optional<std::uint32_t> run(Engine& engine) const;
};

/// Removes a shared receive queue. The object may be freed afterwards. REQUIRES: no XRC target has
/// it.
struct RemoveSrq {
  SharedReceiveQueue& srq;
  void run(Engine& engine) const;
};

}  // namespace softhca::engine
