// One opened device context of a process: its objects, and the operations on them. Lives on the
// control thread; whatever the engine works on is installed and removed by tasks on its thread.
// Destroying it takes back everything of that process at once.
//
// The files: session.cpp (life, dispatch), session_device.cpp (hello, attributes),
// session_memory.cpp (rings, shared buffers, regions), session_completion.cpp (channels, completion
// queues), session_windows.cpp, session_srq.cpp, session_qp.cpp, session_modify_qp.cpp,
// session_xrc.cpp, session_multicast.cpp, session_ah.cpp, session_sharing.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "abi/control.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/adapter/levels.hpp"
#include "daemon/control/session/device_files.hpp"
#include "daemon/control/session/handle_table.hpp"
#include "daemon/control/session/queue_pair.hpp"
#include "daemon/control/session/shared_objects.hpp"
#include "daemon/control/session/xrc_domains.hpp"
#include "daemon/control/sockets/message.hpp"
#include "daemon/control/sockets/tenant_channel.hpp"
#include "daemon/control/sockets/unix_socket.hpp"
#include "daemon/memory/shared_buffer.hpp"
#include "daemon/resource/accounts.hpp"
#include "daemon/shm/segment_pool.hpp"

namespace softhca::control {

class Session final : private resource::IdleHolder {
 public:
  /// Descriptors that each keeps open: the socket, a pidfd, the memory of the process, the wake
  /// eventfd, the socket of asynchronous events.
  static constexpr std::uint64_t kDescriptors = 5;

  /// `descriptors`: the charge for those that a session always needs; without it, it is only told
  /// EMFILE.
  Session(Adapter& adapter, SharedObjects& shared, engine::Tenant& tenant, UniqueFd socket,
          PeerIdentity peer, UniqueFd pidfd, resource::Charge descriptors);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// It came by the socket of a level. Before the first request.
  void set_socket_level(engine::Level* level) { socket_level_ = level; }

  /// Answers the requests that wait, not too many of them. False: the session is over.
  bool serve();
  /// What was to be a session is to be a channel instead, whose request is still to be answered.
  /// Takes the socket out of it. Nothing: it is a session.
  std::optional<ChannelRequest> become_channel();
  /// Raises the asynchronous event of the port.
  void report_link(bool up);
  /// Raises the event of a changed GID table.
  void report_addresses();

  /// It has told who it is, and what it has is set up.
  bool greeted() const { return greeted_; }
  int socket() const { return socket_.get(); }
  int pidfd() const { return pidfd_.get(); }
  const PeerIdentity& peer() const { return peer_; }
  const engine::Tenant& tenant() const { return tenant_; }

  /// How many it has, for the operator.
  struct Holdings {
    std::uint32_t id = 0;  ///< of the session; 0: it has not greeted yet
    const engine::Level* level = nullptr;
    std::uint32_t vcbs = 0, protection_domains = 0, completion_queues = 0;
    std::uint32_t shared_receive_queues = 0, memory_regions = 0, address_handles = 0;
    std::size_t queue_pairs = 0;
  };
  Holdings holdings() const;
  /// f(const engine::QueuePair&) for each; what changes of it belongs to the engine's thread.
  template <class F>
  void for_each_qp(F&& f) const {
    for (const auto& [qpn, qp] : qps_) f(qp->engine);
    // Who made it has gone.
    opened_qps_.for_each([&](std::uint32_t, const OpenedQp& opened) {
      const engine::QueuePair& qp = opened.qp->engine;
      if (qp.session == engine_session_.get() && qp.user_handle == opened.user_handle) f(qp);
    });
  }
  /// f(handle, engine::SharedReceiveQueue&, max_wr), likewise.
  template <class F>
  void for_each_srq(F&& f) const {
    srqs_.for_each([&](std::uint32_t handle, Srq& srq) { f(handle, srq.engine, srq.max_wr); });
  }

 private:
  using Charge = resource::Charge;
  using Kind = resource::Kind;

  struct Channel {
    Charge descriptor;
    UniqueFd events;  ///< our end
    std::uint32_t users = 0;
  };
  struct Cq {
    Charge charge;
    engine::CompletionQueue engine;
    Ring ring;
    Ring retired;  ///< the one before the last resize
    std::uint32_t channel = abi::kNoHandle;
    std::uint32_t users = 0;
  };
  struct Srq {
    Charge charge;
    engine::SharedReceiveQueue engine;
    Ring ring;
    PdUse pd;
    std::uint32_t xrc_domain = abi::kNoHandle;
    std::uint32_t cq = abi::kNoHandle;  ///< with a domain of XRC
    std::uint32_t max_wr = 0;
    std::uint32_t max_sge = 0;
    std::uint32_t users = 0;
  };
  struct XrcDomainOpen {
    Charge charge;
    std::shared_ptr<XrcDomain> domain;
    std::uint32_t users = 0;
  };
  struct OpenedQp {
    Charge charge;
    std::shared_ptr<Qp> qp;
    std::uint64_t user_handle = 0;
    std::uint32_t xrc_domain = 0;
  };
  struct Window {
    Charge charge;
    std::uint32_t key = 0;  ///< at first; its low 8 bits change
    PdUse pd;
  };
  struct Ah {
    Charge charge;
    engine::AddressHandle engine;
    PdUse pd;
    std::uint32_t handle = 0;  ///< the engine's
  };
  using Handler = int (Session::*)(const RequestBody&, Reply&);

  // session.cpp
  bool ask_for_event_channel(std::uint32_t tag, const RequestBody& body);
  bool ask_for_datagrams(std::uint32_t tag, const RequestBody& body);
  bool answer(std::span<const std::byte> record);
  static Handler handler_of(std::uint32_t operation);
  /// For an object that does not exist yet. Empty, and counted: the tenant has too many.
  Charge take(Kind kind, std::uint64_t amount = 1, std::uint64_t spare = 0) {
    return tenant_.accounts.take(kind, amount, spare);
  }
  /// As Worker::run_for(), at the tenant's cost. REQUIRES: greeted.
  void on_engine(const engine::Worker::Task& task) {
    adapter_.worker.run_for(*engine_session_, task);
  }
  void remove_from_engine();
  void remove_regions();

  // session_device.cpp
  /// `hello` is the view's backing store.
  LevelQuery level_query(const abi::HelloWithLevel& hello) const;
  Expected<engine::Level*> find_level(const abi::HelloWithLevel& hello) const;
  int hello(const RequestBody& body, Reply& reply);
  int open_process_memory();
  int query_device(const RequestBody& body, Reply& reply);
  int query_port(const RequestBody& body, Reply& reply);
  int alloc_pd(const RequestBody& body, Reply& reply);
  int dealloc_pd(const RequestBody& body, Reply& reply);

  // session_memory.cpp
  /// Allocates ring memory and, when its segment is new to the process, attaches the descriptor.
  /// 0, ENOMEM or another errno value.
  int allocate_ring(std::size_t bytes, Reply& reply, Ring& ring, std::uint32_t& new_segment);
  void release_ring(Ring& ring);
  std::uint64_t idle(Kind kind) const override;
  void give_up_idle(Kind kind) override;
  int alloc_shared(const RequestBody& body, Reply& reply);
  int free_shared(const RequestBody& body, Reply& reply);
  int register_mr(const RequestBody& body, Reply& reply);
  int alloc_null_mr(const RequestBody& body, Reply& reply);
  int reregister_mr(const RequestBody& body, Reply& reply);
  int deregister_mr(const RequestBody& body, Reply& reply);
  /// Of a request. A buffer it names is idle afterwards if nothing comes of it.
  struct Extents {
    std::vector<abi::MrExtent> all;
    std::vector<std::shared_ptr<memory::SharedBuffer>> buffers;  ///< of each; null: none
  };
  template <class Head>
  bool read_extents(const RequestBody& body, std::uint32_t count, Extents& extents);
  int add(const Extents& extents, memory::RegionSpec& spec) const;
  int change_spec(const abi::ReregisterMrRequest& request, const Extents& extents,
                  memory::RegionSpec& spec) const;
  int install(std::unique_ptr<memory::Region> region, std::unique_ptr<Mr> mr, Reply& reply);

  // session_completion.cpp
  int create_channel(const RequestBody& body, Reply& reply);
  int create_cq(const RequestBody& body, Reply& reply);
  int resize_cq(const RequestBody& body, Reply& reply);
  int modify_cq(const RequestBody& body, Reply& reply);
  int destroy_cq(const RequestBody& body, Reply& reply);
  bool drop_closed_channels();

  // session_windows.cpp
  int alloc_window(const RequestBody& body, Reply& reply);
  int dealloc_window(const RequestBody& body, Reply& reply);

  // session_srq.cpp
  int create_srq(const RequestBody& body, Reply& reply);
  int check_create(const abi::CreateXrcSrqRequest& request) const;
  int modify_srq(const RequestBody& body, Reply& reply);
  int query_srq(const RequestBody& body, Reply& reply);
  int destroy_srq(const RequestBody& body, Reply& reply);

  // session_qp.cpp
  int create_qp(const RequestBody& body, Reply& reply);
  int check_create(const abi::CreateQpRequest& request) const;
  void use(const abi::CreateQpRequest& request, std::uint32_t one);
  /// Made or opened by this process; null: neither.
  Qp* find_qp(std::uint32_t qpn) const;
  int query_qp(const RequestBody& body, Reply& reply);
  int destroy_qp(const RequestBody& body, Reply& reply);

  // session_modify_qp.cpp
  int modify_qp(const RequestBody& body, Reply& reply);
  int check_values(const Qp& qp, const abi::QpAttributes& a) const;
  void store_attributes(Qp& qp, const abi::QpAttributes& a) const;
  void change_state(engine::Engine& engine, Qp& qp, engine::QpState from, engine::QpState to,
                    const abi::ModifyQpRequest& request);

  // session_xrc.cpp
  int open_xrc_domain(const RequestBody& body, Reply& reply);
  int close_xrc_domain(const RequestBody& body, Reply& reply);
  int create_xrc_target(const abi::CreateQpRequest& request, Reply& reply);
  int open_qp(const RequestBody& body, Reply& reply);
  int close_qp(const RequestBody& body, Reply& reply);
  void let_go(const std::shared_ptr<Qp>& qp, std::uint64_t user_handle);

  // session_multicast.cpp
  int attach_multicast(const RequestBody& body, Reply& reply);
  int detach_multicast(const RequestBody& body, Reply& reply);
  using Membership = bool (engine::Multicast::*)(engine::QueuePair&, const Gid&);
  /// EINVAL: not a UD queue pair of this process, or not a group; `refusal`: the engine refuses.
  int change_membership(const RequestBody& body, Membership change, int refusal);

  // session_ah.cpp
  int create_ah(const RequestBody& body, Reply& reply);
  int destroy_ah(const RequestBody& body, Reply& reply);
  /// EINVAL: not a usable address vector for this tenant.
  int path_of(const abi::AddressVector& av, engine::AddressPath& out) const;

  // session_sharing.cpp
  int share_context(const RequestBody& body, Reply& reply);
  int join_context(const RequestBody& body, Reply& reply);
  int import_pd(const RequestBody& body, Reply& reply);
  int import_mr(const RequestBody& body, Reply& reply);
  FileUser file_user() const { return {tenant_.id, peer_.uid}; }
  void forget_file();

  Adapter& adapter_;
  SharedObjects& shared_;
  engine::Tenant& tenant_;
  UniqueFd socket_;
  engine::Level* socket_level_ = nullptr;  ///< by whose socket it came
  PeerIdentity peer_;
  UniqueFd pidfd_;
  bool greeted_ = false;
  std::optional<ChannelRequest> channel_;  ///< it is to be one
  Charge descriptors_;
  Charge session_;
  Charge session_mapping_;
  Adapter::VcbRun vcbs_;

  SealedMemory session_memory_;
  UniqueFd wake_;
  UniqueFd async_;
  UniqueFd async_peer_;  ///< sent with the HELLO reply, then closed
  std::unique_ptr<engine::Session> engine_session_;
  shm::SegmentPool segments_;
  std::vector<std::uint32_t> announced_;  ///< segments whose descriptor the current reply carries
  memory::SharedBufferPool buffers_;
  UniqueFd reply_fd_;                               ///< a descriptor only the current reply needs
  std::shared_ptr<memory::ProcessMemory> process_;  ///< null: its memory is out of reach

  std::shared_ptr<DeviceFile> file_ = std::make_shared<DeviceFile>();
  HandleTable<Channel> channels_;
  std::size_t enough_channels_ = 0;  ///< with so many it is time to look for closed ones
  HandleTable<Cq> cqs_;
  HandleTable<Srq> srqs_;
  HandleTable<Window> windows_;
  HandleTable<Ah> ahs_;
  std::unordered_map<std::uint32_t, std::uint32_t> ah_handles_;  ///< the engine's to ours
  std::unordered_map<std::uint32_t, std::shared_ptr<Qp>> qps_;   ///< by number
  HandleTable<XrcDomainOpen> xrc_domains_;
  HandleTable<OpenedQp> opened_qps_;
};

}  // namespace softhca::control
