// SPDX-License-Identifier: Apache-2.0

// A tenant that a reload has removed while its programs still run. Their requests get the same
// replies as before, until the last of the programs ends.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>

#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

/// Sends each request that a session answers at least once, most of them valid, and notes the
/// answers.
class Requests {
 public:
  explicit Requests(Client& client) : client_(client) {
    make_memory();
    make_queues();
    make_queue_pairs();
    make_targets();
  }

  const std::map<Operation, int>& errors() const { return errors_; }

 private:
  template <class Out = abi::HandleBody, class In>
  Out ask(Operation operation, const In& request) {
    Out out{};
    errors_[operation] = client_.ask(operation, request, &out);
    client_.keep_descriptors();
    return out;
  }
  template <class In>
  void order(Operation operation, const In& request) {
    errors_[operation] = client_.ask(operation, request);
    client_.keep_descriptors();
  }
  static abi::HandleBody handle(std::uint32_t number = 0) { return {number, 0}; }

  void make_memory() {
    ask<abi::DeviceReply>(Operation::kQueryDevice, handle());
    ask<abi::PortReply>(Operation::kQueryPort, handle(1));
    pd_ = ask(Operation::kAllocPd, handle()).handle;
    order(Operation::kImportPd, handle(pd_));
    order(Operation::kShareContext, handle());
    order(Operation::kJoinContext, abi::ContextToken{});
    const auto shared =
        ask<abi::AllocSharedReply>(Operation::kAllocShared, abi::AllocSharedRequest{1 << 16});
    const auto token = ask<abi::SharedToken>(Operation::kNameShared, handle(shared.handle));
    ask(Operation::kJoinShared, token);
    errors_[Operation::kOfferMemory] = client_.offer_memory();
    client_.offers = false;

    struct {
      abi::RegisterMrRequest head{};
      abi::MrExtent extent{};
    } of_process;
    const auto at = reinterpret_cast<std::uintptr_t>(&of_process);
    of_process.head = {.addr = at,
                       .length = sizeof of_process,
                       .iova = at,
                       .access = 1,
                       .pd = pd_,
                       .extents = 1,
                       .reserved = 0};
    of_process.extent = {.addr = at,
                         .length = sizeof of_process,
                         .offset = 0,
                         .handle = 0,
                         .kind = static_cast<std::uint32_t>(abi::ExtentKind::kProcess)};
    const auto mr = ask<abi::RegisterMrReply>(Operation::kRegisterMr, of_process);
    order(Operation::kImportMr, handle(mr.handle));
    struct {
      abi::ReregisterMrRequest head{};
      abi::MrExtent extent{};
    } again;
    again.head = {.handle = mr.handle, .flags = 1, .region = of_process.head};
    again.extent = of_process.extent;
    ask<abi::RegisterMrReply>(Operation::kReregisterMr, again);
    order(Operation::kDeregisterMr, handle(mr.handle));
    order(Operation::kAllocNullMr, handle(pd_));
    const auto window =
        ask<abi::AllocWindowReply>(Operation::kAllocWindow, abi::AllocWindowRequest{pd_, 1});
    order(Operation::kDeallocWindow, handle(window.handle));
    order(Operation::kFreeShared, handle(shared.handle));
  }

  void make_queues() {
    const std::uint32_t channel = ask(Operation::kCreateChannel, handle()).handle;
    cq_ =
        ask<abi::CreateCqReply>(Operation::kCreateCq, abi::CreateCqRequest{1, 10, channel}).handle;
    order(Operation::kModifyCq, abi::ModifyCqRequest{cq_, 1, 1});
    order(Operation::kResizeCq, abi::ResizeCqRequest{cq_, 20});
    const abi::CreateSrqRequest request{
        .user_handle = 2, .pd = pd_, .max_wr = 10, .max_sge = 1, .limit = 0};
    const std::uint32_t srq = ask<abi::CreateSrqReply>(Operation::kCreateSrq, request).handle;
    order(Operation::kModifySrq, abi::ModifySrqRequest{srq, 1});
    order(Operation::kResizeSrq, abi::ResizeSrqRequest{srq, 20, 0, 0});
    order(Operation::kQuerySrq, handle(srq));
    order(Operation::kDestroySrq, handle(srq));
  }

  void make_queue_pairs() {
    const auto made = ask<abi::CreateQpReply>(Operation::kCreateQp, abi::CreateQpRequest{
                                                                        .user_handle = 7,
                                                                        .pd = pd_,
                                                                        .type = 4,
                                                                        .send_cq = cq_,
                                                                        .receive_cq = cq_,
                                                                        .srq = abi::kNoHandle,
                                                                        .max_send_wr = 10,
                                                                        .max_receive_wr = 10,
                                                                        .max_send_sge = 1,
                                                                        .max_receive_sge = 1,
                                                                    });
    abi::ModifyQpRequest to_init{.qpn = made.qpn, .send_sequence = 0, .attributes = {}};
    to_init.attributes.mask =
        engine::attr::kState | engine::attr::kPkeyIndex | engine::attr::kPort | engine::attr::kQkey;
    to_init.attributes.qp_state = 1;
    to_init.attributes.port_num = 1;
    order(Operation::kModifyQp, to_init);
    order(Operation::kQueryQp, handle(made.qpn));
    order(Operation::kAttachMulticast, abi::MulticastRequest{});
    order(Operation::kDetachMulticast, abi::MulticastRequest{});
    abi::CreateAhRequest to_itself{};
    to_itself.pd = pd_;
    to_itself.av.is_global = to_itself.av.port_num = 1;
    std::memcpy(to_itself.av.dgid, Gid::from_ipv4(0xc6120001).bytes.data(), 16);
    order(Operation::kDestroyAh, ask(Operation::kCreateAh, to_itself));
    order(Operation::kDestroyQp, handle(made.qpn));
    order(Operation::kDestroyCq, handle(cq_));
    order(Operation::kDeallocPd, handle(pd_));
  }

  void make_targets() {
    const auto domain = ask(Operation::kOpenXrcDomain, abi::OpenXrcDomainRequest{}).handle;
    const auto target = ask<abi::CreateQpReply>(
        Operation::kCreateQp, abi::CreateQpRequest{.type = 10, .xrc_domain = domain});
    order(Operation::kCloseQp, ask(Operation::kOpenQp, abi::OpenQpRequest{1, domain, target.qpn}));
    order(Operation::kCloseXrcDomain, handle(domain));
  }

  Client& client_;
  std::map<Operation, int> errors_;
  std::uint32_t pd_ = 0, cq_ = 0;
};

class RemovedTenant : public ::testing::Test {
 protected:
  /// As a reload without the tenant does.
  void remove() {
    configuration::Config without = daemon.config;
    without.tenants.erase(without.tenants.begin());
    daemon.adapter.put_in_force(without);
    tenant().control.leaving = true;
  }
  void put_back() {
    daemon.adapter.put_in_force(daemon.config);
    tenant().control.leaving = false;
  }
  engine::Tenant& tenant() { return *daemon.adapter.tenants[0]; }

  Daemon daemon;
};

TEST_F(RemovedTenant, RequestsOfItsSessions_HaveTheAnswersThatTheyHadBefore) {
  Client before(daemon), during(daemon), after(daemon), late(daemon);
  for (Client* client : {&before, &during, &after}) ASSERT_EQ(client->greet(), 0);
  const Requests in_force(before);
  constexpr auto kLast = static_cast<std::uint32_t>(Operation::kOfferMemory);
  std::size_t answered = 0;
  for (std::uint32_t operation = 2; operation <= kLast; ++operation)
    answered += in_force.errors().contains(static_cast<Operation>(operation));
  EXPECT_EQ(answered, kLast - 1u - 6u) << "all but those of event channels and datagram clients";
  std::size_t valid = 0;
  for (const auto& [operation, error] : in_force.errors()) valid += error == 0;
  EXPECT_GE(valid, answered - 6);

  remove();
  EXPECT_EQ(Requests(during).errors(), in_force.errors());
  EXPECT_EQ(late.greet(), ENODEV);
  EXPECT_EQ(daemon.adapter.settings(tenant()).name, tenant().name);
  EXPECT_EQ(Requests(after).errors(), in_force.errors()) << "a program that was idle until then";

  put_back();
  EXPECT_EQ(late.greet(), 0);
  EXPECT_EQ(Requests(late).errors(), in_force.errors());
}

}  // namespace
}  // namespace softhca::control
