// SPDX-License-Identifier: Apache-2.0

// A program of a tenant, and what the control thread does for it: a session and its objects. Each
// function is an operation of the input. It makes requests that the control thread could make now.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/fuzz/requests/bench.hpp"
#include "tests/fuzz/requests/names.hpp"
#include "tests/fuzz/requests/objects.hpp"

namespace softhca::fuzz {

/// What all programs, and the other parts of a run, have in common.
struct Common {
  Input& input;
  Bench& bench;
  Names names{};
  std::vector<Qp*> queue_pairs{};  ///< those that there are
  std::uint32_t next_session = 1;
  std::uint32_t next_pd = 1;
  std::uint64_t next_handle = 1;

  Qp* any_queue_pair() {
    return queue_pairs.empty() ? nullptr : queue_pairs[input.byte() % queue_pairs.size()];
  }
};

/// An XRC domain, which programs of one tenant share.
struct Domain {
  engine::XrcDomainId id;
  std::vector<std::shared_ptr<Qp>> targets{};
};
using Domains = std::array<Domain, 2>;

class Program {
 public:
  /// A session of the tenant, on one of its levels (null: on none).
  Program(Common& common, engine::Tenant& tenant, engine::Level* level, Domains& domains);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  engine::Session& session() { return *session_; }
  const engine::Session& session() const { return *session_; }
  engine::Tenant& tenant() const { return tenant_; }
  bool has_vcbs() const { return places_ != 0; }
  /// Ends the session, with so many poll steps between two requests.
  void end(unsigned steps);

  // --- the session
  void begin();
  void raise_port_event();
  void park();
  void unpark();

  // --- completion queues
  void make_cq();
  void resize_cq();
  void moderate_cq();
  void remove_cq();
  void poll_cq();

  // --- shared receive queues
  void make_srq();
  void arm_srq();
  void resize_srq();
  void retire_srq();
  void remove_srq();
  /// Copies the state of one for the operator.
  void show_srq();

  // --- queue pairs: program_qps.cpp
  void make_qp();
  /// Connects one, or brings it as far as it may go.
  void bring_up();
  void modify_qp();
  void query_qp();
  void destroy_qp();
  void open_target();
  void join_group();
  void leave_group();
  void set_rates();
  void set_receive_terms();

  // --- memory: program_memory.cpp
  void register_mr();
  void reregister_mr();
  void deregister_mr();
  void disturb_memory();
  void make_mw();
  void remove_mw();
  void make_ah();
  void remove_ah();

  // --- what the program writes: program_posts.cpp
  void post();
  void ring();
  void post_receive();
  void scribble();

 private:
  /// A process's hold on a queue pair: it made it, or has opened an XRC target.
  struct Hold {
    std::shared_ptr<Qp> qp;
    std::uint64_t user_handle;
  };

  template <class Request>
  auto ask(Request&& request) {
    return common_.bench.ask_for(*session_, request);
  }
  template <class T>
  T* any(std::vector<std::unique_ptr<T>>& list) {
    return list.empty() ? nullptr : list[input_.byte() % list.size()].get();
  }
  Qp* any_held();
  Cq& any_cq();
  bool has_room(std::size_t count) const { return count < kMost; }

  bool drop_some_retired();
  std::optional<engine::AddressPath> any_path(const Gid* destination);
  engine::ModifyQp::Answer modify(Qp& qp, const abi::QpAttributes& attributes,
                                  const std::optional<engine::AddressPath>& path);
  abi::QpAttributes any_attributes(const Qp& qp, std::uint32_t mask);
  void use_queues(const Qp& qp, std::uint32_t one);
  void install_target();
  void release(std::size_t hold);
  bool let_go(const std::shared_ptr<Qp>& qp);
  void forget(const Qp& qp);
  void end_queue_pairs(unsigned steps);
  void end_receive_queues(unsigned steps);
  void end_memory(unsigned steps);

  struct Shaped {
    std::unique_ptr<memory::Region> region;
    Mr mr;
  };
  std::optional<Shaped> shape_region();

  std::vector<abi::ScatterGather> any_entries();
  std::uint64_t any_place();
  std::uint32_t any_queue_pair_number();

  static constexpr std::size_t kMost = 6;  ///< objects of a kind

  Common& common_;
  Input& input_;
  engine::Tenant& tenant_;
  Domains& domains_;
  std::uint32_t places_ = 0;  ///< VCBs
  std::unique_ptr<RingMemory> memory_;
  std::unique_ptr<engine::Session> session_;
  bool begun_ = false;
  memory::PdId pds_[2];
  std::uint32_t next_slot_ = 0;  ///< of the search for retired queues

  std::vector<std::unique_ptr<Cq>> cqs_;
  std::vector<std::unique_ptr<Srq>> srqs_;
  std::vector<Hold> holds_;
  std::vector<std::unique_ptr<Mr>> mrs_;
  std::vector<std::uint32_t> mws_;
  std::vector<std::pair<std::uint32_t, std::unique_ptr<engine::AddressHandle>>> ahs_;
};

}  // namespace softhca::fuzz
