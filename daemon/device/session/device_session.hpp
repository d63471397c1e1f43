// SPDX-License-Identifier: Apache-2.0

// One opened device context of a process: its requests, and the parts that own its objects. Runs on
// the control thread. Tasks on the engine's thread install and remove the objects that the engine
// uses. end() takes back all resources of the process, in turns; the destructor does so at once.
//
// A front end brings the requests, as records of abi/control.hpp, and takes the replies to them
// (Peer::answer).
//
// The files: device_session.cpp (life, records), device_session_requests.cpp (the handler of each
// request), device_session_files.cpp (hello, attributes of the device and its port).
// SessionRestorer makes what an earlier adapter had.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "abi/control.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/configuration/resource_manager/accounts.hpp"
#include "daemon/device/adapter/adapter.hpp"
#include "daemon/device/adapter/levels.hpp"
#include "daemon/device/objects/ah_objects.hpp"
#include "daemon/device/objects/cq_objects.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/machine_monitor.hpp"
#include "daemon/device/objects/mr_objects.hpp"
#include "daemon/device/objects/mw_objects.hpp"
#include "daemon/device/objects/open_xrc_domains.hpp"
#include "daemon/device/objects/pd_objects.hpp"
#include "daemon/device/objects/qp_objects.hpp"
#include "daemon/device/objects/ring_memory.hpp"
#include "daemon/device/objects/shared_buffers.hpp"
#include "daemon/device/objects/shared_objects.hpp"
#include "daemon/device/objects/srq_objects.hpp"
#include "daemon/device/peer/channel_request.hpp"
#include "daemon/device/peer/peer.hpp"
#include "daemon/device/session/attachment.hpp"

namespace softhca::control {

class DeviceSession final : private configuration::IdleHolder {
 public:
  /// Descriptors that each session keeps open: two of its front end, for the connection and the
  /// process; the memory of the process, the wake eventfd, the end for asynchronous events; at
  /// first the memory of the session, too.
  static constexpr std::uint64_t kDescriptors = 6;

  /// `peer` outlives the session. `descriptors`: the charge for the descriptors that a session
  /// always needs. Without it, the process only gets EMFILE.
  DeviceSession(Adapter& adapter, SharedObjects& shared, engine::Tenant& tenant, Peer& peer,
                configuration::Charge descriptors);
  ~DeviceSession();
  DeviceSession(const DeviceSession&) = delete;
  DeviceSession& operator=(const DeviceSession&) = delete;

  /// Records that the process connected to the socket of a level. Call it before the first request.
  void set_socket_level(engine::Level* level) { socket_level_ = level; }

  /// Answers a request, or begins it (has_more()). Returns false if the process breaks the protocol
  /// or does not take the answer: the session is over. REQUIRES: !has_more().
  bool answer(std::span<const std::byte> record) { return answer(record, false); }
  /// Continues the request that it has begun. Returns false if the session is over. REQUIRES:
  /// has_more() and !is_waiting().
  bool go_on();
  /// Ends the connection, and takes back some resources of the process. Returns true if nothing is
  /// left and the session may be destroyed. Otherwise call it again in the tenant's next turn.
  bool end(const Turn& turn);
  /// True if the session has begun a request. Call go_on() before it gets another one.
  bool has_more() const { return !unfinished_.empty(); }
  /// True if go_on() must not be called until the session calls the function given to set_ready().
  bool is_waiting() const { return sealing_ != nullptr && !sealing_->over; }
  void set_ready(std::function<void()> ready) { ready_ = std::move(ready); }
  /// True if the process has requested that the connection becomes a channel instead of a session.
  /// Nothing is answered after such a request.
  bool wants_channel() const { return channel_.has_value(); }
  /// Returns this request, which is not answered yet. Nothing: it is a session.
  std::optional<ChannelRequest> become_channel();
  /// Returns why the process was refused since the last call, for the operator. Empty: it was not.
  std::string take_refusal() { return std::exchange(refusal_, {}); }
  /// Raises the asynchronous event of a port, if the session is of this device of its tenant.
  void report_link(std::uint8_t device, std::uint8_t port, bool up);
  /// Raises the event of a changed GID table, for every port.
  void report_addresses();

  /// True if the process has greeted, and its session is set up.
  bool greeted() const { return attachment_.is_open(); }
  const PeerIdentity& process() const { return context_.identity(); }
  const engine::Tenant& tenant() const { return context_.tenant(); }

  /// The numbers of the session's objects, for the operator.
  struct ObjectCounts {
    std::uint32_t id = 0;  ///< number of the session; 0: it has not greeted yet
    const engine::Level* level = nullptr;
    std::uint8_t device = 0;  ///< index of its device among those of the tenant
    std::uint32_t vcbs = 0, protection_domains = 0, completion_queues = 0;
    std::uint32_t shared_receive_queues = 0, memory_regions = 0, address_handles = 0;
    std::size_t queue_pairs = 0;
  };
  ObjectCounts object_counts() const;
  const QpObjects& queue_pairs() const { return qps_; }
  /// True if the session has queue pairs of a level that is not its own.
  bool has_queue_pairs_of(const engine::Level& level) const;
  /// Calls f(handle, engine::SharedReceiveQueue&, max_wr) for each. Only the engine's thread may
  /// read the members that change.
  template <class F>
  void for_each_srq(F&& f) const {
    srqs_.for_each(
        [&](std::uint32_t handle, SrqObject& srq) { f(handle, srq.engine, srq.max_wr); });
  }
  /// Returns the VCBs, for their adjustment. `session` is null while the engine does not use the
  /// session's memory.
  VcbHolder vcb_holder() {
    return {&attachment_.vcbs(), attachment_.has_begun() ? attachment_.session() : nullptr};
  }

 private:
  friend class SessionRestorer;
  struct Requests;
  using Handler = int (*)(DeviceSession&, const RequestBody&, Reply&);
  struct RequestKind {
    const char* verb = nullptr;  ///< by which programs know the request
    Handler handler = nullptr;
    bool ends = false;         ///< it ends an object or an attachment
    bool is_monitors = false;  ///< only monitors of virtual machines make it
  };

  /// Memory that the process has mapped, while a thread of its tenant seals it.
  struct Sealing {
    std::vector<DescriptorToSeal> fds;
    Outcome outcome;
    bool over = false;
  };

  /// What ends with the memory that the process offers. Regions may outlive the session, if other
  /// sessions share them.
  struct OfferedAccount {
    configuration::Charge descriptor;
    std::shared_ptr<memory::ProcessMemory> memory;
    records::Record record;
  };

  // device_session.cpp
  void seal(std::vector<DescriptorToSeal> fds, std::vector<std::shared_ptr<void>> accounts);
  void close_sealed(std::vector<DescriptorToSeal>& fds,
                    const std::vector<std::shared_ptr<void>>& accounts);
  bool seal_mapped();
  bool ask_for_event_channel(std::uint32_t tag, const RequestBody& body);
  bool ask_for_datagrams(std::uint32_t tag, const RequestBody& body);
  bool answer(std::span<const std::byte> record, bool again);
  std::uint64_t idle(configuration::Kind kind) const override;
  void give_up_idle(configuration::Kind kind) override;

  // device_session_requests.cpp
  /// Returns how a request is answered. A null handler: unknown request.
  static RequestKind kind_of(std::uint32_t operation);

  // device_session_files.cpp
  /// The result refers to text in `hello`.
  LevelQuery level_query(const abi::HelloWithLevel& hello) const;
  Expected<engine::Level*> find_level(const abi::HelloWithLevel& hello);
  int agree_on_version(std::uint64_t magic, abi::VersionRange provider, Reply& reply);
  int read_hello(const RequestBody& body, abi::HelloWithDevice& hello, Reply& reply);
  int hello(const RequestBody& body, Reply& reply);
  bool is_trusted() const;
  int offer_memory(const RequestBody& body, Reply& reply);
  int query_device(const RequestBody& body, Reply& reply);
  int query_port(const RequestBody& body, Reply& reply);

  Adapter& adapter_;
  engine::Level* socket_level_ = nullptr;  ///< level of the socket that the process connected to
  bool may_offer_memory_ = false;          ///< by the tenant's settings when the process greeted
  std::uint32_t version_ = 0;              ///< of the protocol; 0: not agreed on yet
  std::optional<ChannelRequest> channel_;  ///< the channel that it becomes
  /// Lasts until descriptors being sealed are closed.
  std::shared_ptr<configuration::Charge> descriptors_;
  SessionContext context_;
  std::string refusal_;
  std::vector<std::byte> unfinished_;  ///< the request that it continues; empty: none
  std::shared_ptr<Sealing> sealing_;   ///< the session continues after it; null: none
  std::weak_ptr<void> closing_;        ///< sealed descriptors that another thread closes
  std::function<void()> ready_;

  // The engine drops these in the opposite order, from queue pairs to regions, and at last the
  // session. Then the memory goes.
  MachineMonitor monitor_;
  RingMemory rings_;
  SharedBuffers buffers_;
  PdObjects pds_;
  Attachment attachment_;
  MrObjects regions_;
  MwObjects windows_;
  CqObjects cqs_;
  OpenXrcDomains xrc_domains_;
  SrqObjects srqs_;
  AhObjects ahs_;
  QpObjects qps_;
};

}  // namespace softhca::control
