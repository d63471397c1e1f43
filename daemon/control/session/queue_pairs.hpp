// Queue pairs of a session: those it has made, and targets of XRC that it has opened.
//
// The files: queue_pairs.cpp (create, query, destroy), modify_qp.cpp, xrc_targets.cpp,
// multicast.cpp.
#pragma once

#include <memory>
#include <unordered_map>

#include "daemon/control/session/address_handles.hpp"
#include "daemon/control/session/completion_queues.hpp"
#include "daemon/control/session/context.hpp"
#include "daemon/control/session/handle_table.hpp"
#include "daemon/control/session/open_xrc_domains.hpp"
#include "daemon/control/session/protection_domains.hpp"
#include "daemon/control/session/queue_pair.hpp"
#include "daemon/control/session/ring_memory.hpp"
#include "daemon/control/session/shared_receive_queues.hpp"

namespace softhca::control {

class QueuePairs {
 public:
  QueuePairs(const SessionContext& context, RingMemory& rings, const ProtectionDomains& pds,
             const CompletionQueues& cqs, const SharedReceiveQueues& srqs, OpenXrcDomains& domains)
      : context_(context), rings_(rings), pds_(pds), cqs_(cqs), srqs_(srqs), domains_(domains) {}
  /// Removes them all from the engine, except targets that other sessions hold.
  ~QueuePairs() { end(Turn::endless()); }
  QueuePairs(const QueuePairs&) = delete;
  QueuePairs& operator=(const QueuePairs&) = delete;

  /// Goes on with the end of the session. True: none is left; false: the turn is over.
  bool end(const Turn& turn);

  /// Queue pairs that the session has made.
  std::size_t size() const { return qps_.size(); }
  /// f(const engine::QueuePair&) for each; what changes of it belongs to the engine's thread.
  template <class F>
  void for_each(F&& f) const {
    for (const auto& [qpn, qp] : qps_) f(qp->engine);
    // The process that made it has gone.
    opened_.for_each([&](std::uint32_t, const OpenedQp& opened) {
      const engine::QueuePair& qp = opened.qp->engine;
      if (qp.session == &context_.engine_session() && qp.user_handle == opened.user_handle) f(qp);
    });
  }

  // queue_pairs.cpp
  int create(const RequestBody& body, Reply& reply);
  // kUnfinished, of destroy() and modify(): commands posted before the request are still to be
  // sent.
  int query(const RequestBody& body, Reply& reply);
  int destroy(const RequestBody& body, Reply& reply);

  // modify_qp.cpp
  int modify(const RequestBody& body, Reply& reply);

  // xrc_targets.cpp
  int open(const RequestBody& body, Reply& reply);
  int close(const RequestBody& body, Reply& reply);

  // multicast.cpp
  int attach_multicast(const RequestBody& body, Reply& reply);
  int detach_multicast(const RequestBody& body, Reply& reply);

 private:
  struct OpenedQp {
    resource::Charge charge;
    std::shared_ptr<Qp> qp;
    std::uint64_t user_handle = 0;
    std::uint32_t xrc_domain = 0;
  };
  struct Opened {
    Qp* qp = nullptr;
    std::uint32_t times = 0;
  };
  struct Ending {
    resource::Charge charge;
    std::shared_ptr<Qp> qp;
    engine::QpHolder holder;
    bool is_last = false;
  };
  struct Sizes;
  using Membership = bool (engine::Multicast::*)(engine::QueuePair&, const Gid&);

  /// Made or opened by this process; null: neither.
  Qp* find(std::uint32_t qpn) const;
  int check_create(const abi::CreateQpRequest& request) const;
  /// Everything but its charge and memory. REQUIRES: the request has been checked.
  void fill(Qp& qp, const Sizes& sizes) const;
  void use(const abi::CreateQpRequest& request, std::uint32_t one);
  abi::CreateQpReply reply_of(const Qp& qp, const Sizes& sizes) const;

  /// True if a request that ends sending may be executed: what the program has posted before it,
  /// numbered before `send_sequence`, is sent, or has had its time. On the engine's thread.
  static bool has_sent(engine::Engine& engine, Qp& qp, std::uint32_t send_sequence);
  int check_values(const Qp& qp, const abi::QpAttributes& a) const;

  int create_xrc_target(const abi::CreateQpRequest& request, Reply& reply);
  void release(const std::shared_ptr<Qp>& qp, std::uint64_t user_handle, std::uint32_t domain);
  std::unique_ptr<Ending> take_ending();
  bool let_go(Qp& qp, std::uint32_t domain);

  /// EINVAL: not a UD queue pair of this process, or not a group; `refusal`: the engine refuses.
  int change_membership(const RequestBody& body, Membership change, int refusal);

  const SessionContext& context_;
  RingMemory& rings_;
  const ProtectionDomains& pds_;
  const CompletionQueues& cqs_;
  const SharedReceiveQueues& srqs_;
  OpenXrcDomains& domains_;
  std::unordered_map<std::uint32_t, std::shared_ptr<Qp>> qps_;  ///< by number
  HandleTable<OpenedQp> opened_;
  std::unordered_map<std::uint32_t, Opened> opened_by_number_;  ///< targets that it has opened
};

}  // namespace softhca::control
