// SPDX-License-Identifier: Apache-2.0

// Queue pairs of a session: those that it has made, and XRC targets that it has opened.
//
// The files: qp_objects.cpp (create, query, destroy), modify_qp.cpp, xrc_targets.cpp,
// qp_multicast.cpp, qp_terms.cpp, restore_qp.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "daemon/base/handle_table.hpp"
#include "daemon/device/objects/ah_objects.hpp"
#include "daemon/device/objects/cq_objects.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/open_xrc_domains.hpp"
#include "daemon/device/objects/pd_objects.hpp"
#include "daemon/device/objects/qp_object.hpp"
#include "daemon/device/objects/ring_memory.hpp"
#include "daemon/device/objects/srq_objects.hpp"
#include "daemon/engine/receive/receive_queues.hpp"
#include "daemon/live_records/record_body.hpp"
#include "daemon/qos/pools/rate_limits.hpp"

namespace softhca::engine {
struct ModifyQp;
}  // namespace softhca::engine

namespace softhca::control {

/// A record of a queue pair.
struct KeptQueuePair {
  record::QueuePair head;
  record::QueuePairTerms terms{};  ///< as an operator has set them, if any
  bool read(std::span<const std::byte> body) {
    records::BodyReader reader(body);
    std::uint8_t has_terms = 0;
    return reader.read(head) && reader.read_added(has_terms) &&
           (has_terms == 0 || reader.read(terms));
  }
};

class QpObjects {
 public:
  QpObjects(const SessionContext& context, RingMemory& rings, const PdObjects& pds,
            const CqObjects& cqs, const SrqObjects& srqs, OpenXrcDomains& domains)
      : context_(context), rings_(rings), pds_(pds), cqs_(cqs), srqs_(srqs), domains_(domains) {}
  /// Removes all queue pairs from the engine, except targets that other sessions hold.
  ~QpObjects() { end(Turn::endless()); }
  QpObjects(const QpObjects&) = delete;
  QpObjects& operator=(const QpObjects&) = delete;

  /// Continues the end of the session. Returns true if none is left, false if the turn is over.
  bool end(const Turn& turn);

  /// Returns the number of queue pairs that the session has made.
  std::size_t size() const { return qps_.size(); }
  /// Calls f(const engine::QueuePair&) for each. Only the engine's thread may read the members that
  /// change.
  template <class F>
  void for_each(F&& f) const {
    for (const auto& [qpn, qp] : qps_) f(qp->engine);
    // The process that made it has gone.
    opened_.for_each([&](std::uint32_t, const OpenedQp& opened) {
      const engine::QueuePair& qp = opened.qp->engine;
      if (qp.session == &context_.engine_session() && qp.user_handle == opened.user_handle) f(qp);
    });
  }

  // qp_objects.cpp
  int create(const RequestBody& body, Reply& reply);
  // destroy() and modify() return kUnfinished while commands posted before the request are still to
  // be sent.
  int query(const RequestBody& body, Reply& reply);
  int destroy(const RequestBody& body, Reply& reply);

  // restore_qp.cpp: make the same as an earlier adapter. Return false if the record does not fit.
  bool restore(const KeptQueuePair& record_body, records::Record record);
  /// Makes a target that its process made and no longer has. The first opener takes it.
  bool restore_target(const KeptQueuePair& record_body, const record::OpenedQueuePair& opener,
                      records::Record record);
  bool restore_opened(const record::OpenedQueuePair& kept, records::Record record);
  /// True if the domain that the opener names has the target.
  bool has_target(const record::OpenedQueuePair& opener) const;

  // qp_terms.cpp: what the operator sets for a queue pair of the session. REQUIRES: there is room
  // for a record.
  void set_rates(std::uint32_t qpn, const SentLimits& sent, const InboundLimits& inbound,
                 const ServedLimits& served) const;
  /// Returns 0; ENOENT: it does not use a shared receive queue; EAGAIN: that changes all the time.
  int set_receive_terms(std::uint32_t qpn, const engine::ReceiveQueues::ReceiveTerms& terms) const;

  // modify_qp.cpp
  int modify(const RequestBody& body, Reply& reply);

  // xrc_targets.cpp
  int open(const RequestBody& body, Reply& reply);
  int close(const RequestBody& body, Reply& reply);

  // qp_multicast.cpp
  int attach_multicast(const RequestBody& body, Reply& reply);
  int detach_multicast(const RequestBody& body, Reply& reply);

 private:
  struct OpenedQp {
    records::Record record;
    configuration::Charge charge;
    std::shared_ptr<QpObject> qp;
    std::uint64_t user_handle = 0;
    std::uint32_t xrc_domain = 0;
  };
  struct Opened {
    QpObject* qp = nullptr;
    std::uint32_t times = 0;
  };
  struct Ending {
    configuration::Charge charge;
    std::shared_ptr<QpObject> qp;
    std::uint64_t user_handle = 0;
    bool is_last = false;
  };
  /// The sizes of the queues for a request.
  struct Sizes {
    explicit Sizes(const abi::CreateQpRequest& request);

    std::uint32_t send_entries;
    std::uint32_t send_stride;
    std::size_t send_bytes;
    bool own_receives;  ///< it has a receive queue, and not an SRQ
    std::uint32_t receive_entries;
    std::size_t receive_bytes;
  };

  /// Returns a queue pair that this process made or opened. Null: neither.
  QpObject* find(std::uint32_t qpn) const;
  int check_create(const abi::CreateQpRequest& request) const;
  /// Sets everything but the charge and the memory. REQUIRES: the request was checked.
  void fill(QpObject& qp, const Sizes& sizes) const;
  void use(const abi::CreateQpRequest& request, std::uint32_t one);
  abi::CreateQpReply reply_of(const QpObject& qp, const Sizes& sizes) const;

  void write(QpObject& qp) const;
  bool install(QpObject& qp, const KeptQueuePair& record_body);
  void restore_terms(QpObject& qp, const record::QueuePairTerms& kept) const;
  void put_rates_in_force(const QpObject& qp) const;
  int put_in_force(const engine::QueuePair& qp,
                   const engine::ReceiveQueues::ReceiveTerms& terms) const;
  std::shared_ptr<QpObject> make_target(const abi::CreateQpRequest& request,
                                        const OpenXrcDomain& open) const;
  void count_opened(const OpenedQp& opened, OpenXrcDomain& open);

  int check_values(const QpObject& qp, const abi::QpAttributes& a) const;
  int change(QpObject& qp, const engine::ModifyQp& wanted);
  int refuse_transition(const QpObject& qp, const abi::QpAttributes& a, engine::QpState from) const;

  int create_xrc_target(const abi::CreateQpRequest& request, Reply& reply);
  void release(const std::shared_ptr<QpObject>& qp, std::uint64_t user_handle,
               std::uint32_t domain);
  std::unique_ptr<Ending> take_ending();
  bool let_go(QpObject& qp, std::uint32_t domain);

  /// Makes the engine's request `Change`. Returns EINVAL if the queue pair is not a UD queue pair
  /// of this process, or the address not a group.
  template <class Change>
  int change_membership(const RequestBody& body);

  const SessionContext& context_;
  RingMemory& rings_;
  const PdObjects& pds_;
  const CqObjects& cqs_;
  const SrqObjects& srqs_;
  OpenXrcDomains& domains_;
  std::unordered_map<std::uint32_t, std::shared_ptr<QpObject>> qps_;  ///< by number
  HandleTable<OpenedQp> opened_;
  std::shared_ptr<QpObject> restored_target_;  ///< between restore_target() and restore_opened()
  /// Targets that the session has opened.
  std::unordered_map<std::uint32_t, Opened> opened_by_number_;
};

}  // namespace softhca::control
