// One opened device context of a process: its objects, and the operations on them. Lives on the
// control thread; whatever the engine works on is installed and removed by tasks on its thread.
// Destroying it takes back everything of that process at once.
//
// The files: session.cpp (life, dispatch), session_device.cpp (hello, attributes),
// session_memory.cpp (shared buffers, regions), session_completion.cpp (channels, completion
// queues), session_srq.cpp, session_qp.cpp, session_modify_qp.cpp, session_ah.cpp.
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
#include "daemon/control/adapter.hpp"
#include "daemon/control/handle_table.hpp"
#include "daemon/control/message.hpp"
#include "daemon/control/unix_socket.hpp"
#include "daemon/memory/shared_buffer.hpp"
#include "daemon/shm/segment_pool.hpp"

namespace softhca::control {

class Session {
 public:
  Session(Adapter& adapter, engine::Tenant& tenant, UniqueFd socket, PeerIdentity peer,
          UniqueFd pidfd);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Answers every request that waits. False: the session is over.
  bool serve();
  /// Raises the asynchronous event of the port.
  void report_link(bool up);

  int socket() const { return socket_.get(); }
  int pidfd() const { return pidfd_.get(); }
  const PeerIdentity& peer() const { return peer_; }
  const engine::Tenant& tenant() const { return tenant_; }

 private:
  struct Pd {
    memory::PdId id;
    std::uint32_t users = 0;
  };
  struct Channel {
    UniqueFd events;  ///< our end
    std::uint32_t users = 0;
  };
  struct Cq {
    engine::CompletionQueue engine;
    abi::RingLocation ring{};
    abi::RingLocation retired{};  ///< the one before the last resize
    std::uint32_t channel = abi::kNoHandle;
    std::uint32_t users = 0;
  };
  struct Srq {
    engine::SharedReceiveQueue engine;
    abi::RingLocation ring{};
    std::uint32_t pd = 0;
    std::uint32_t max_wr = 0;
    std::uint32_t max_sge = 0;
    std::uint32_t users = 0;
  };
  struct Qp {
    explicit Qp(std::uint32_t send_entries) : engine(send_entries) {}
    engine::QueuePair engine;
    abi::CreateQpRequest request{};
    abi::RingLocation ring{};  ///< both rings
    abi::QpAttributes attributes{};
  };
  struct Mr {
    std::uint32_t key = 0;
    std::uint32_t pd = 0;
    std::uint64_t length = 0;
  };
  struct Ah {
    engine::AddressHandle engine;
    std::uint32_t pd = 0;
    std::uint32_t handle = 0;  ///< the engine's
  };
  using Handler = int (Session::*)(const RequestBody&, Reply&);

  // session.cpp
  bool answer(std::span<const std::byte> record);
  static Handler handler_of(std::uint32_t operation);
  /// Allocates ring memory and, when its segment is new to the process, attaches the descriptor.
  int allocate_ring(std::size_t bytes, Reply& reply, abi::RingLocation& location, std::byte*& base,
                    std::uint32_t& new_segment);
  void release_ring(const abi::RingLocation& location) {
    if (location.bytes != 0) segments_.release(location);
  }

  // session_device.cpp
  int hello(const RequestBody& body, Reply& reply);
  int query_device(const RequestBody& body, Reply& reply);
  int query_port(const RequestBody& body, Reply& reply);
  int alloc_pd(const RequestBody& body, Reply& reply);
  int dealloc_pd(const RequestBody& body, Reply& reply);

  // session_memory.cpp
  int alloc_shared(const RequestBody& body, Reply& reply);
  int free_shared(const RequestBody& body, Reply& reply);
  int register_mr(const RequestBody& body, Reply& reply);
  int deregister_mr(const RequestBody& body, Reply& reply);
  int add_extent(const abi::MrExtent& extent, memory::RegionSpec& spec);

  // session_completion.cpp
  int create_channel(const RequestBody& body, Reply& reply);
  int create_cq(const RequestBody& body, Reply& reply);
  int resize_cq(const RequestBody& body, Reply& reply);
  int destroy_cq(const RequestBody& body, Reply& reply);
  void drop_closed_channels();

  // session_srq.cpp
  int create_srq(const RequestBody& body, Reply& reply);
  int modify_srq(const RequestBody& body, Reply& reply);
  int query_srq(const RequestBody& body, Reply& reply);
  int destroy_srq(const RequestBody& body, Reply& reply);

  // session_qp.cpp
  int create_qp(const RequestBody& body, Reply& reply);
  int check_create(const abi::CreateQpRequest& request) const;
  int query_qp(const RequestBody& body, Reply& reply);
  int destroy_qp(const RequestBody& body, Reply& reply);

  // session_modify_qp.cpp
  int modify_qp(const RequestBody& body, Reply& reply);
  int check_values(const Qp& qp, const abi::QpAttributes& a) const;
  void store_attributes(Qp& qp, const abi::QpAttributes& a) const;
  void change_state(engine::Engine& engine, Qp& qp, engine::QpState from, engine::QpState to,
                    const abi::QpAttributes& a);

  // session_ah.cpp
  int create_ah(const RequestBody& body, Reply& reply);
  int destroy_ah(const RequestBody& body, Reply& reply);
  /// EINVAL: not a usable address vector for this tenant.
  int path_of(const abi::AddressVector& av, engine::AddressPath& out) const;

  Adapter& adapter_;
  engine::Tenant& tenant_;
  UniqueFd socket_;
  PeerIdentity peer_;
  UniqueFd pidfd_;
  bool greeted_ = false;
  Adapter::VcbRun vcbs_;

  SealedMemory session_memory_;
  UniqueFd wake_;
  UniqueFd async_;
  UniqueFd async_peer_;  ///< sent with the HELLO reply, then closed
  std::unique_ptr<engine::Session> engine_session_;
  shm::SegmentPool segments_;
  std::vector<std::uint32_t> announced_;  ///< segments whose descriptor the current reply carries
  memory::SharedBufferPool buffers_;
  std::optional<std::uint32_t> announced_buffer_;
  UniqueFd reply_fd_;  ///< a descriptor only the current reply needs
  std::shared_ptr<memory::ProcessMemory> process_;

  HandleTable<Pd> pds_;
  HandleTable<Channel> channels_;
  HandleTable<Cq> cqs_;
  HandleTable<Srq> srqs_;
  HandleTable<Mr> mrs_;
  HandleTable<Ah> ahs_;
  std::unordered_map<std::uint32_t, std::uint32_t> ah_handles_;  ///< the engine's to ours
  std::unordered_map<std::uint32_t, std::unique_ptr<Qp>> qps_;   ///< by number
};

}  // namespace softhca::control
