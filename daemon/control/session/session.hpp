// One opened device context of a process: its requests, and the parts that own its objects. Lives
// on the control thread; whatever the engine works on is installed and removed by tasks on its
// thread. Its end takes back everything of that process, in turns; destroying it, at once.
//
// The files: session.cpp (life, records), session_requests.cpp (which part answers what),
// session_device.cpp (hello, what the device and its port look like).
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
#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/adapter/levels.hpp"
#include "daemon/control/session/address_handles.hpp"
#include "daemon/control/session/attachment.hpp"
#include "daemon/control/session/completion_queues.hpp"
#include "daemon/control/session/context.hpp"
#include "daemon/control/session/memory_regions.hpp"
#include "daemon/control/session/memory_windows.hpp"
#include "daemon/control/session/open_xrc_domains.hpp"
#include "daemon/control/session/protection_domains.hpp"
#include "daemon/control/session/queue_pairs.hpp"
#include "daemon/control/session/ring_memory.hpp"
#include "daemon/control/session/shared_buffers.hpp"
#include "daemon/control/session/shared_objects.hpp"
#include "daemon/control/session/shared_receive_queues.hpp"
#include "daemon/control/sockets/message.hpp"
#include "daemon/control/sockets/tenant_channel.hpp"
#include "daemon/control/sockets/unix_socket.hpp"
#include "daemon/resource/accounts.hpp"

namespace softhca::control {

class Session final : private resource::IdleHolder {
 public:
  /// Descriptors that each keeps open: the socket, a pidfd, the memory of the process, the wake
  /// eventfd, the socket of asynchronous events; at first the memory of the session, too.
  static constexpr std::uint64_t kDescriptors = 6;

  /// `descriptors`: the charge for those that a session always needs; without it, the process is
  /// only told EMFILE.
  Session(Adapter& adapter, SharedObjects& shared, engine::Tenant& tenant, PeerSocket socket,
          PeerIdentity peer, UniqueFd pidfd, resource::Charge descriptors);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// The process came by the socket of a level. To be called before the first request.
  void set_socket_level(engine::Level* level) { socket_level_ = level; }

  /// Answers the requests that wait, not too many of them. False: the session is over.
  bool serve();
  /// Ends the connection, and takes back some of what the process has. True: nothing is left, and
  /// the session may be destroyed; false: it is to be called again, in the tenant's next turn.
  bool end(const Turn& turn);
  /// It goes on with a request when it is next served, whether or not another has come.
  bool has_more() const { return !unfinished_.empty(); }
  /// It is not to be served until it calls what set_ready() was given.
  bool is_waiting() const { return sealing_ != nullptr && !sealing_->over; }
  void set_ready(std::function<void()> ready) { ready_ = std::move(ready); }
  /// The connection is to be a channel instead of a session; its request is still to be answered.
  /// Takes the socket out of it. Nothing: it is a session.
  std::optional<ChannelRequest> become_channel();
  /// Why the process has been refused since the last call, for the operator; empty: it has not.
  std::string take_refusal() { return std::exchange(refusal_, {}); }
  /// Raises the asynchronous event of the port.
  void report_link(bool up);
  /// Raises the event of a changed GID table.
  void report_addresses();

  /// True: the process has said who it is, and its session is set up.
  bool greeted() const { return attachment_.is_open(); }
  int socket() const { return context_.socket().get(); }
  int pidfd() const { return pidfd_.get(); }
  const PeerIdentity& peer() const { return context_.peer(); }
  const engine::Tenant& tenant() const { return context_.tenant(); }

  /// How many objects the session has, for the operator.
  struct ObjectCounts {
    std::uint32_t id = 0;  ///< of the session; 0: it has not greeted yet
    const engine::Level* level = nullptr;
    std::uint32_t vcbs = 0, protection_domains = 0, completion_queues = 0;
    std::uint32_t shared_receive_queues = 0, memory_regions = 0, address_handles = 0;
    std::size_t queue_pairs = 0;
  };
  ObjectCounts object_counts() const;
  /// f(const engine::QueuePair&) for each; what changes of it belongs to the engine's thread.
  template <class F>
  void for_each_qp(F&& f) const {
    qps_.for_each(f);
  }
  /// Queue pairs of a level that is not the session's own.
  bool has_queue_pairs_of(const engine::Level& level) const;
  /// f(handle, engine::SharedReceiveQueue&, max_wr) for each; what changes of it belongs to the
  /// engine's thread.
  template <class F>
  void for_each_srq(F&& f) const {
    srqs_.for_each([&](std::uint32_t handle, Srq& srq) { f(handle, srq.engine, srq.max_wr); });
  }
  /// `session` null: the engine does not use its memory yet.
  VcbHolder vcb_holder() {
    return {&attachment_.vcbs(), attachment_.has_begun() ? attachment_.session() : nullptr};
  }

 private:
  struct Requests;
  using Handler = int (*)(Session&, const RequestBody&, Reply&);

  /// Memory that the process has mapped, while a thread of its tenant's seals it.
  struct Sealing {
    std::vector<UniqueFd> fds;
    Outcome outcome;
    bool over = false;
  };

  // session.cpp
  void seal(std::vector<UniqueFd> fds, std::vector<std::shared_ptr<void>> accounts);
  bool seal_mapped();
  bool ask_for_event_channel(std::uint32_t tag, const RequestBody& body);
  bool ask_for_datagrams(std::uint32_t tag, const RequestBody& body);
  bool answer(std::span<const std::byte> record, bool again);
  std::uint64_t idle(resource::Kind kind) const override;
  void give_up_idle(resource::Kind kind) override;

  // session_requests.cpp
  /// Null: sessions have no such request.
  static Handler handler_of(std::uint32_t operation);

  // session_device.cpp
  /// `hello` is the view's backing store.
  LevelQuery level_query(const abi::HelloWithLevel& hello) const;
  Expected<engine::Level*> find_level(const abi::HelloWithLevel& hello);
  bool speaks_version(std::uint64_t magic, std::uint32_t version);
  int read_hello(const RequestBody& body, abi::HelloWithLevel& hello);
  int hello(const RequestBody& body, Reply& reply);
  bool is_trusted() const;
  int offer_memory(const RequestBody& body, Reply& reply);
  int query_device(const RequestBody& body, Reply& reply);
  int query_port(const RequestBody& body, Reply& reply);

  Adapter& adapter_;
  engine::Level* socket_level_ = nullptr;  ///< by whose socket it came
  bool may_offer_memory_ = false;          ///< as the tenant's settings were when it came
  UniqueFd pidfd_;
  std::optional<ChannelRequest> channel_;          ///< it is to be one
  std::shared_ptr<resource::Charge> descriptors_;  ///< lasts until what is being sealed is closed
  SessionContext context_;
  std::string refusal_;
  std::vector<std::byte> unfinished_;  ///< the request it goes on with; empty: none
  std::shared_ptr<Sealing> sealing_;   ///< that it goes on after; null: none
  std::function<void()> ready_;

  // The engine forgets in the opposite order, from queue pairs to regions and at last the session;
  // then the memory goes.
  RingMemory rings_;
  SharedBuffers buffers_;
  ProtectionDomains pds_;
  Attachment attachment_;
  MemoryRegions regions_;
  MemoryWindows windows_;
  CompletionQueues cqs_;
  OpenXrcDomains xrc_domains_;
  SharedReceiveQueues srqs_;
  AddressHandles ahs_;
  QueuePairs qps_;
};

}  // namespace softhca::control
