// SPDX-License-Identifier: Apache-2.0

// Adapters that follow each other, and processes with sessions, without the sockets' server.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "daemon/device/session/restore_sessions.hpp"
#include "daemon/device/session/session_restorer.hpp"
#include "daemon/engine/records/qp_attributes.hpp"
#include "daemon/engine/requests/restore_requests.hpp"
#include "daemon/tenant_memory/scatter_list.hpp"
#include "tests/fake_keeper.hpp"
#include "tests/records_at_rest.hpp"
#include "tests/unit/device/session/client.hpp"
#include "tests/unit/engine/fixture/task.hpp"

namespace softhca::control {

using configuration::Kind;
namespace attr = engine::attr;

inline constexpr std::uint32_t kReliable = 2, kDatagram = 4, kInitiator = 9, kTarget = 10;
/// What the transition to RTR needs.
inline constexpr std::uint32_t kToReceive = attr::kAv | attr::kPathMtu | attr::kDestQpn |
                                            attr::kRqPsn | attr::kMaxDestRdAtomic |
                                            attr::kMinRnrTimer;
inline const Gid kJoined = Gid::from_ipv4(0xe0000109);  // 224.0.1.9

/// An adapter and its end of the keeper.
struct SessionLife {
  explicit SessionLife(FakeKeeper& keeper)
      : keeping(keeper), daemon(small_config(), engine_memory()) {
    daemon.adapter.keeping = &keeping;
    daemon.adapter.records = &records;
  }
  /// Takes over from an earlier one.
  Outcome restore(const std::vector<Client*>& clients) {
    if (auto adopted = records.adopt(); !adopted) return adopted;
    auto left = records.take_adopted();
    auto restored = restore_sessions(daemon.adapter, daemon.shared_objects, left,
                                     [&](KeptId connection) -> DeviceSession* {
                                       for (Client* client : clients)
                                         if (client->connection() == connection)
                                           return &client->restored();
                                       return nullptr;
                                     });
    if (!restored) return restored.error();
    unfit = std::move(*restored);
    daemon.worker.run(engine::EndRestoring{});
    records.end_restoring();
    keeping.drop_rest();
    return {};
  }
  void retire() {
    daemon.worker.run(engine::RetireEngine{});
    daemon.worker.stop();
    keeping.retire();
  }
  /// Returns the memory of the earlier engine, or zeroed memory that the next engine gets.
  std::span<std::byte> engine_memory() {
    if (const KeptId left = keeping.find(KeptRole::kEngine, 0)) return keeping.memory(left);
    const auto sizes = engine::durable_sizes(limits_of(small_config()));
    auto memory = SealedMemory::create("engine", engine::DurableState::bytes_for(sizes));
    EXPECT_TRUE(memory->keep(&keeping, KeptRole::kEngine));
    state_ = std::move(*memory);
    return {state_.base(), state_.bytes()};
  }
  std::uint64_t in_use(Kind kind) const {
    return daemon.adapter.tenants[0]->control.accounts.in_use(kind);
  }
  std::map<Kind, std::uint64_t> all_in_use() const {
    std::map<Kind, std::uint64_t> all;
    configuration::for_each_kind([&](Kind kind) { all[kind] = in_use(kind); });
    return all;
  }
  /// Waits for the threads that unmap memory.
  void finish_calls() {
    BlockingCalls& calls = daemon.adapter.blocking_calls;
    while (daemon.adapter.tenants[0]->control.unmapping_mappings != 0) {
      pollfd look{calls.fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&look, 1, 60'000), 1);
      calls.finish();
    }
  }

  FakeKeeping keeping;
  records::RecordStore records{&keeping};
  std::vector<UnfitSession> unfit;  ///< of restore()
  SealedMemory state_;
  Daemon daemon;
};

class SessionRestart : public ::testing::Test {
 protected:
  std::span<std::byte> engine_memory() {
    for (const auto& [id, kept] : keeper.all())
      if (kept.role == KeptRole::kEngine) return {kept.base, kept.bytes};
    return {};
  }
  /// Ends the adapter as a process that ends: without taking leave. `ended` is called then.
  void end_adapter(const std::function<void()>& ended = [] {}) {
    life->retire();
    ended();
    earlier_.emplace_back(std::move(life), std::move(clients));
    life = std::make_unique<SessionLife>(keeper);
    clients.clear();
  }
  void restart(const std::function<void()>& ended = [] {}) {
    end_adapter(ended);
    std::vector<Client*> all;
    for (const auto& client : earlier_.back().clients) {
      if (!client) continue;
      clients.push_back(std::make_unique<Client>(life->daemon, *client));
      all.push_back(clients.back().get());
    }
    const Outcome restored = life->restore(all);
    ASSERT_TRUE(restored) << restored.error().message;
    if (expects_all_) {
      EXPECT_TRUE(life->unfit.empty()) << life->unfit.front().why;
    }
  }
  /// Replaces the end of the body of the first record of a kind.
  template <class T>
  void replace_end(records::Kind kind, const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    at_rest_.change(kind, [&](auto& body) { std::ranges::copy(bytes, body.end() - bytes.size()); });
  }
  /// Clears the word, of a ring at so many bytes of its memory, that says that a queue has moved.
  void forget_move(std::uint64_t offset) {
    unsigned found = 0;
    for (const auto& [id, kept] : keeper.all())
      if (kept.base != nullptr && kept.role == KeptRole::kNone && kept.bytes > offset)
        found +=
            reinterpret_cast<std::atomic<std::uint32_t>*>(kept.base + offset)->exchange(0) != 0;
    EXPECT_EQ(found, 1u);
  }
  Client& connect() {
    Client& client = *clients.emplace_back(std::make_unique<Client>(life->daemon));
    client.keep();
    EXPECT_EQ(client.start(), 0);
    client.keep_descriptors();
    return client;
  }
  Client& first() { return *clients[0]; }
  Client& second() { return *clients[1]; }

  template <class Out = abi::HandleBody, class In>
  Out made(Client& client, Operation operation, const In& request) {
    Out out{};
    EXPECT_EQ(client.ask(operation, request, &out), 0) << client.why();
    client.keep_descriptors();
    return out;
  }
  /// As the library: asks again if there is only new memory.
  template <class Out, class In>
  Out made_in_sealed(Client& client, Operation operation, const In& request) {
    Out out = made<Out>(client, operation, request);
    return out.handle != abi::kNoHandle ? out : made<Out>(client, operation, request);
  }
  int end(Client& client, Operation operation, std::uint32_t handle) {
    return client.ask(operation, abi::HandleBody{handle, 0});
  }
  abi::CreateQpRequest qp_request(std::uint32_t type, std::uint32_t pd, std::uint32_t cq) {
    return {.user_handle = 7,
            .pd = pd,
            .type = type,
            .send_cq = cq,
            .receive_cq = type == kInitiator ? abi::kNoHandle : cq,
            .srq = abi::kNoHandle,
            .max_send_wr = 4,
            .max_receive_wr = 4,
            .max_send_sge = 2,
            .max_receive_sge = 2};
  }
  struct MadeQp {
    std::uint32_t pd, cq, qpn;
  };
  /// Makes a queue pair with a domain and a completion queue of its own.
  MadeQp make_qp(Client& client, std::uint32_t type) {
    const auto pd = made(client, Operation::kAllocPd, abi::HandleBody{}).handle;
    const auto cq = made<abi::CreateCqReply>(client, Operation::kCreateCq,
                                             abi::CreateCqRequest{5, 100, abi::kNoHandle})
                        .handle;
    const auto qp =
        made<abi::CreateQpReply>(client, Operation::kCreateQp, qp_request(type, pd, cq));
    return {pd, cq, qp.qpn};
  }
  int modify(Client& client, std::uint32_t qpn, std::uint32_t state, std::uint32_t mask,
             abi::QpAttributes attributes = {}) {
    attributes.mask = mask | attr::kState;
    attributes.qp_state = state;
    return client.ask(Operation::kModifyQp, abi::ModifyQpRequest{qpn, 0, attributes});
  }
  abi::QpAttributes query(Client& client, std::uint32_t qpn) {
    return made<abi::QueryQpReply>(client, Operation::kQueryQp, abi::HandleBody{qpn, 0}).attributes;
  }
  static bool are_equal(const abi::QpAttributes& a, const abi::QpAttributes& b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  abi::AddressVector to_itself() const {
    abi::AddressVector av{};
    av.is_global = av.port_num = 1;
    std::memcpy(av.dgid, life->daemon.config.tenants[0].addresses[0].bytes.data(), 16);
    return av;
  }
  /// Reads memory by a key, in the engine.
  std::string read(std::uint32_t key, std::uint64_t offset, std::size_t bytes) {
    std::string text(bytes, ' ');
    life->daemon.worker.run(engine::Task{[&](engine::Engine& engine) {
      memory::Region* const region = engine.keys().lookup(key);
      if (region == nullptr ||
          memory::read(*region, offset, std::as_writable_bytes(std::span(text))) != Verdict::kOk)
        text = "refused";
    }});
    return text;
  }
  void expect_nothing_is_left() {
    for (auto& client : clients) client->end();
    life->finish_calls();
    EXPECT_EQ(life->records.size(), 0u);
    configuration::for_each_kind(
        [&](Kind kind) { EXPECT_EQ(life->in_use(kind), 0u) << configuration::name_of(kind); });
    EXPECT_EQ(life->daemon.engine.keys().size(), 0u);
    clients.clear();
    EXPECT_EQ(keeper.objects(), 0u);
  }

  struct Ended {
    std::unique_ptr<SessionLife> life;
    std::vector<std::unique_ptr<Client>> clients;
    ~Ended() { clients.clear(); }
    Ended(std::unique_ptr<SessionLife> l, std::vector<std::unique_ptr<Client>> c)
        : life(std::move(l)), clients(std::move(c)) {}
    Ended(Ended&&) = default;
    Ended& operator=(Ended&&) = default;
  };

  FakeKeeper keeper;
  bool expects_all_ = true;  ///< each session is complete after restart()
  RecordsAtRest at_rest_{keeper};
  /// Would end with their processes.
  std::vector<Ended> earlier_;
  std::unique_ptr<SessionLife> life = std::make_unique<SessionLife>(keeper);
  std::vector<std::unique_ptr<Client>> clients;
};

}  // namespace softhca::control
