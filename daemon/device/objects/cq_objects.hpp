// SPDX-License-Identifier: Apache-2.0

// Completion channels and completion queues of a session.
#pragma once

#include <cstddef>
#include <memory>

#include "daemon/base/handle_table.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/device/objects/ring_memory.hpp"
#include "daemon/engine/records/completion_queue.hpp"

namespace softhca::control {

struct CqObject {
  records::Record record;
  std::uint32_t handle = 0;
  configuration::Charge charge;
  engine::CompletionQueue engine;
  Ring ring;
  Ring retired;  ///< the other ring, if an earlier adapter ended during a resize
  std::uint32_t channel = abi::kNoHandle;
  abi::ModifyCqRequest moderation{};  ///< the last one
  // Its users:
  std::uint32_t queue_pairs = 0;
  std::uint32_t shared_receive_queues = 0;  ///< of XRC
};

class CqObjects {
 public:
  CqObjects(const SessionContext& context, RingMemory& rings) : context_(context), rings_(rings) {}
  /// Removes all completion queues from the engine.
  ~CqObjects() { end(Turn::endless()); }
  CqObjects(const CqObjects&) = delete;
  CqObjects& operator=(const CqObjects&) = delete;

  /// Continues the end of the session. Returns true if none is left, false if the turn is over.
  bool end(const Turn& turn);

  /// Returns a completion queue. Null: unknown handle.
  CqObject* find(std::uint32_t handle) const { return cqs_.find(handle); }
  std::uint32_t size() const { return cqs_.size(); }
  /// Returns the most entries of a completion queue. In a virtual machine, one such queue takes at
  /// most half of the memory for rings.
  std::uint32_t max_entries() const;

  /// Make the same as an earlier adapter. Return false if the record does not fit.
  bool restore_channel(const record::CompletionChannel& kept, records::Record record);
  bool restore(const record::CompletionQueue& kept, records::Record record);

  int create_channel(const RequestBody& body, Reply& reply);
  int create(const RequestBody& body, Reply& reply);
  int resize(const RequestBody& body, Reply& reply);
  int modify(const RequestBody& body, Reply& reply);
  int destroy(const RequestBody& body, Reply& reply);

 private:
  struct Channel {
    configuration::Charge descriptor;
    std::unique_ptr<EventEnd> events;
    records::Record record;  ///< ends first: what it names must be there
    std::uint32_t users = 0;
  };
  bool drop_closed_channels();
  void write(CqObject& cq) const { write(cq, cq.ring.location, {}); }
  void write(CqObject& cq, const abi::RingLocation& ring, const abi::RingLocation& retired) const;
  void moderate(CqObject& cq) const;
  int check_entries(std::uint32_t entries) const;
  int refuse_destroy(std::uint32_t handle) const;

  const SessionContext& context_;
  RingMemory& rings_;
  HandleTable<Channel> channels_;
  std::size_t enough_channels_ = 0;  ///< with this many, the daemon looks for closed ones
  HandleTable<CqObject> cqs_;
};

}  // namespace softhca::control
