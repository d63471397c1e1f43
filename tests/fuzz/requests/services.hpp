// SPDX-License-Identifier: Apache-2.0

// Queue pairs that several clients share, and their clients.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "daemon/engine/datagrams/shared_qp.hpp"
#include "tests/fuzz/requests/tenants.hpp"

namespace softhca::fuzz {

class Services {
 public:
  Services(Common& common, const Tenants& tenants) : common_(common), tenants_(tenants) {}

  // --- operations of the input
  /// Opens the next one. The third asks for a number that may be taken.
  void open();
  void close();
  void configure();
  void register_client();
  void set_buffers();
  void vouch();
  void remove_client();
  void watch_traffic();
  void view();
  /// A client sends a datagram.
  void send();
  /// The clients take what has come, and give back buffers that they kept.
  void receive();

  void end();
  /// Returns how many have been opened, with or without success.
  std::size_t opened() const { return opened_; }

 private:
  struct Service {
    engine::Tenant tenant;  ///< stands for it, also after it is closed
    std::unique_ptr<engine::SharedQp> qp;
    std::vector<management::gsa::ClientId> clients;
    std::vector<std::uint32_t> kept;  ///< buffers
  };

  Service* any_open();
  management::gsa::ClientKey any_key(const Service& service);

  Common& common_;
  const Tenants& tenants_;
  std::array<Service, Bench::kServices> services_;
  std::size_t opened_ = 0;
};

}  // namespace softhca::fuzz
