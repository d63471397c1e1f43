// SPDX-License-Identifier: Apache-2.0

// Shared receive queues of a session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "daemon/base/handle_table.hpp"
#include "daemon/device/objects/cq_objects.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/device/objects/open_xrc_domains.hpp"
#include "daemon/device/objects/pd_objects.hpp"
#include "daemon/device/objects/ring_memory.hpp"
#include "daemon/engine/records/shared_receive_queue.hpp"
#include "daemon/live_records/record_body.hpp"

namespace softhca::control {

/// A record of a shared receive queue.
struct KeptReceiveQueue {
  record::SharedReceiveQueue head;
  record::RetiredReceiveRing retired{};  ///< 0 bytes: the queue does not move
  bool read(std::span<const std::byte> body) {
    records::BodyReader reader(body);
    return reader.read(head) && reader.read_added(retired);
  }
};

struct SrqObject {
  records::Record record;
  record::SharedReceiveQueue kept{};
  configuration::Charge charge;
  configuration::Charge accounts;  ///< memory of its provisioner, which a reload may add
  engine::SharedReceiveQueue engine;
  Ring ring;
  Ring retired;  ///< with which a crash has left it; freed when the queue moves
  PdUse pd;
  std::uint32_t xrc_domain = abi::kNoHandle;
  std::uint32_t cq = abi::kNoHandle;  ///< with a domain of XRC
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t users = 0;
};

class SrqObjects {
 public:
  SrqObjects(const SessionContext& context, RingMemory& rings, const PdObjects& pds,
             const CqObjects& cqs, const OpenXrcDomains& domains)
      : context_(context), rings_(rings), pds_(pds), cqs_(cqs), domains_(domains) {}
  /// Removes all queues from the engine. Destroy it before the completion queues: XRC queues
  /// complete to one, on behalf of targets that others hold.
  ~SrqObjects() { end(Turn::endless()); }
  SrqObjects(const SrqObjects&) = delete;
  SrqObjects& operator=(const SrqObjects&) = delete;

  /// Continues the end of the session. Returns true if none is left, false if the turn is over.
  bool end(const Turn& turn);

  /// Returns a queue. Null: unknown handle.
  SrqObject* find(std::uint32_t handle) const { return srqs_.find(handle); }
  std::uint32_t size() const { return srqs_.size(); }
  /// Calls f(handle, srq) for each.
  template <class F>
  void for_each(F&& f) const {
    srqs_.for_each(f);
  }

  /// Makes the same as an earlier adapter. Returns false if the record does not fit.
  bool restore(const KeptReceiveQueue& record_body, records::Record record);

  int create(const RequestBody& body, Reply& reply);
  int modify(const RequestBody& body, Reply& reply);
  int resize(const RequestBody& body, Reply& reply);
  int query(const RequestBody& body, Reply& reply);
  int destroy(const RequestBody& body, Reply& reply);

 private:
  bool drop_retired();
  void fill(SrqObject& srq, const abi::CreateXrcSrqRequest& whole, std::uint32_t entries);
  void write(SrqObject& srq, const record::RetiredReceiveRing& retired = {}) const;
  bool restore_rings(SrqObject& srq, record::RetiredReceiveRing other);
  int check_create(const abi::CreateXrcSrqRequest& request) const;
  std::unique_ptr<receive::Provisioner> make_provisioner(std::uint32_t entries) const;
  int move(SrqObject& srq, std::uint32_t max_wr, const shm::ReceiveRing& from, Reply& reply,
           abi::CreateSrqReply& out);

  const SessionContext& context_;
  RingMemory& rings_;
  const PdObjects& pds_;
  const CqObjects& cqs_;
  const OpenXrcDomains& domains_;
  HandleTable<SrqObject> srqs_;
  std::size_t of_xrc_ = 0;          ///< queues with a domain of XRC
  std::uint32_t next_retired_ = 0;  ///< as the session ends: the first handle that is not retired
  std::uint32_t next_slot_ = 0;     ///< next slot of queue pairs to search for retired queues
};

}  // namespace softhca::control
