// SPDX-License-Identifier: Apache-2.0

// Hosts on one network in virtual time, each with an rdma_cm service, and programs that use these
// services as librdmacm does.
#pragma once

#include <gtest/gtest.h>

#include <concepts>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/live_records/record_store.hpp"
#include "daemon/roce/rdma_cm/kept_state.hpp"
#include "daemon/roce/rdma_cm/service.hpp"
#include "tests/fake_keeper.hpp"

namespace softhca::management::rdma_cm {

using namespace std::chrono_literals;

/// "10.0.0.1" or "fd00::1".
Gid gid(const std::string& text);
SocketAddress address(const std::string& text, std::uint16_t port = 0);

class Host;

/// The network. run() delivers packets in the order in which they were sent.
class World {
 public:
  struct Packet {
    cm::Path path;  ///< as the sender sees it
    wire::Mad mad;
  };

  /// Delivers all packets, including those sent in response.
  void run();
  /// Lets time pass, timers and packets included.
  void advance(Duration duration);

  Time now{1h};
  std::deque<Packet> queue;
  std::vector<Host*> hosts;
  std::function<bool(const Packet&)> loses = [](const Packet&) { return false; };
};

/// What an adapter has for a tenant. It ends as by SIGKILL: nothing is destroyed but mappings.
struct Life {
  explicit Life(FakeKeeper& keeper) : keeping(keeper) {}
  ~Life() {
    keeping.retire();
    static auto* const ended =
        new std::vector<std::pair<std::unique_ptr<Service>, std::unique_ptr<KeptState>>>;
    ended->emplace_back(std::move(service), std::move(state));
  }

  FakeKeeping keeping;
  records::RecordStore store{&keeping};
  std::unique_ptr<KeptState> state;
  std::unique_ptr<Service> service;
};

/// A tenant's end of the daemon.
class Host final : public RdmaCmEnvironment {
 public:
  Host(World& world, const std::vector<std::string>& addresses, const RdmaCmLimits& limits = {});
  ~Host() override;

  void send(const cm::Path& path, const wire::Mad& mad) override {
    life->state->after_commit([this, path, mad] { world.queue.push_back({path, mad}); });
  }
  std::uint32_t random() override { return static_cast<std::uint32_t>(random_()); }
  void signal(ChannelId channel) override {
    life->state->after_commit([this, channel] { ++signals[channel]; });
  }
  std::span<const TenantGid> addresses() const override { return own; }
  TenantAdapter adapter(const std::optional<Gid>&) const override {
    return {.node_guid = guid, .path_mtu = 4, .packet_rate = 3};
  }
  std::optional<Gid> source_for(const Gid& destination) const override;
  std::string networks(bool ipv4) const override { return ipv4 ? "10.0.0.1/24" : "fd00::1/64"; }
  void resolve(const Gid& source, const Gid& destination, ResolveCookie cookie) override;
  bool may_name_queue_pair(Qpn qpn, uid_t) const override { return qpn != foreign; }
  void note_refused(Refusal refusal) override { count(refused[refusal]); }
  void note_reject_sent(wire::CmRejectReason reason) override { count(rejects_sent[reason]); }
  void note_reject_received(wire::CmRejectReason reason) override {
    count(rejects_received[reason]);
  }
  void note_unreachable(Role role) override { count(unreachable[role]); }
  void note_established(Role role, Duration) override { count(established[role]); }

  cm::StateRecords* records() override { return life->state.get(); }

  bool has(const Gid& gid) const;
  /// Replaces the service by one that goes on from the records.
  void restart();
  /// Calls a function of the service. If all tests are run so, the adapter ends at stores of the
  /// call, and after it. `call` is made again then, except if it is recorded and no program repeats
  /// it.
  void run(bool is_repeated, const std::function<void()>& call);

  World& world;
  std::uint64_t guid = 0;
  std::vector<TenantGid> own;
  /// True if resolve() reports its result at once; else the test reports it, or does not.
  bool neighbours_answer = true;
  std::vector<ResolveCookie> asked;
  Qpn foreign{0xffffff};        ///< a queue pair of another user
  std::uint32_t qpns = 0x1000;  ///< for connections that name none
  std::map<ChannelId, int> signals;
  std::map<Refusal, int> refused;
  std::map<wire::CmRejectReason, int> rejects_sent, rejects_received;
  std::map<Role, int> unreachable, established;
  FakeKeeper keeper;
  std::unique_ptr<Life> life;
  Service* service = nullptr;  ///< of the present life

 private:
  struct Slots;

  /// Counts what happens in a call once the call counts.
  void count(int& counter) {
    life->state->after_commit([&counter] { ++counter; });
  }
  void begin_life(const RdmaCmLimits& limits);
  bool ends_in(const std::function<void()>& call, std::uint64_t store);
  std::uint64_t committed();

  std::mt19937 random_;
};

/// A process with one event channel. Every command checks that the channel is signalled if and only
/// if events are queued, and that a refusal has a reason.
class Program {
 public:
  static constexpr std::uint64_t kCreatedUid = 1000;   ///< of create()
  static constexpr std::uint64_t kAcceptedUid = 2000;  ///< of accept()

  explicit Program(Host& host, const ChannelOwner& owner = {.process = 1, .user = 1000});
  ~Program() { close(); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void close();

  /// Any command; the answer is in `reply`.
  int command(std::uint32_t number, std::span<const std::byte> body, ChannelId other = {});
  template <class Body>
  requires(!std::convertible_to<const Body&, std::span<const std::byte>>) int command(
      std::uint32_t number, const Body& body) {
    return command(number, std::as_bytes(std::span(&body, 1)));
  }

  int create_id(std::uint16_t space, std::uint32_t& id, std::uint64_t uid = 0);
  /// REQUIRES: it works.
  std::uint32_t create(PortSpace space = PortSpace::kTcp);
  int destroy(std::uint32_t id);  ///< -errno, or events reported
  int bind(std::uint32_t id, const SocketAddress& at);
  int listen(std::uint32_t id, std::uint32_t backlog = 0);
  int resolve_address(std::uint32_t id, const SocketAddress& to, const SocketAddress& from = {},
                      std::uint32_t timeout_ms = 2000);
  int resolve_route(std::uint32_t id);
  int connect(std::uint32_t id, const std::string& data = {}, rdma_ucm_conn_param with = {});
  int accept(std::uint32_t id, const std::string& data = {}, rdma_ucm_conn_param with = {});
  int confirm(std::uint32_t id);  ///< ACCEPT of an active end
  int reject(std::uint32_t id, const std::string& data = {}, std::uint8_t reason = 0);
  int disconnect(std::uint32_t id);
  int notify(std::uint32_t id, std::uint32_t event);
  int set_option(std::uint32_t id, std::uint32_t level, std::uint32_t name,
                 std::span<const std::byte> value);
  template <class Value>
  int set_option(std::uint32_t id, std::uint32_t name, Value value) {
    return set_option(id, RDMA_OPTION_ID, name, std::as_bytes(std::span(&value, 1)));
  }
  int query_route(std::uint32_t id, rdma_ucm_query_route_resp& route);
  int init_qp_attr(std::uint32_t id, std::uint32_t state, ib_uverbs_qp_attr& attributes);
  int join(std::uint32_t id, const SocketAddress& group, std::uint32_t& membership,
           std::uint64_t uid = 77);
  int leave(std::uint32_t membership);  ///< -errno, or events reported
  /// Takes `id` over from another channel: -errno, or events reported.
  int migrate(Program& from, std::uint32_t id);

  /// Returns nothing if the command fails with EAGAIN.
  std::optional<rdma_ucm_event_resp> get_event();
  /// Fetches an event. Expects that it has this type and status.
  rdma_ucm_event_resp expect(EventType type, int status = 0);
  void expect_none() { EXPECT_FALSE(get_event()); }

  /// RESOLVE_IP and RESOLVE_ROUTE with their events.
  std::uint32_t resolved(const SocketAddress& to, PortSpace space = PortSpace::kTcp);
  std::uint32_t listening(const SocketAddress& at, PortSpace space = PortSpace::kTcp,
                          std::uint32_t backlog = 0);

  Host& host;
  ChannelId channel;
  ChannelReply reply;

 private:
  std::uint32_t tag_ = 0;

  template <class T>
  T answer() const {
    T to{};
    EXPECT_EQ(reply.bytes, sizeof to);
    std::memcpy(&to, reply.body.data(), sizeof to);
    return to;
  }
  void check_signal();
};

/// Private data of an event, as text up to the first 0.
std::string data_of(const rdma_ucm_event_resp& event, bool datagram = false);

/// Two ends of a connection that a pair of programs has made.
struct Connected {
  std::uint32_t active, passive;
};
Connected establish(World& world, Program& client, Program& server, const SocketAddress& to);

}  // namespace softhca::management::rdma_cm
