// SPDX-License-Identifier: Apache-2.0

// Why requests are refused: the text of the answer, and the event for the operator.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "daemon/engine/records/qp_attributes.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

class Refusals : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(client.start(), 0);
    pd = client.make(Operation::kAllocPd);
    abi::CreateCqReply reply{};
    ASSERT_EQ(client.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 16, abi::kNoHandle}, &reply),
              0);
    cq = reply.handle;
  }
  abi::CreateQpRequest qp_request() const {
    return {.user_handle = 7,
            .pd = pd,
            .type = 2,
            .send_cq = cq,
            .receive_cq = cq,
            .srq = abi::kNoHandle,
            .max_send_wr = 4,
            .max_receive_wr = 4,
            .max_send_sge = 1,
            .max_receive_sge = 1,
            .max_inline = 0};
  }
  std::uint32_t make_qp() {
    abi::CreateQpReply reply{};
    EXPECT_EQ(client.ask(Operation::kCreateQp, qp_request(), &reply), 0);
    return reply.qpn;
  }
  std::vector<JournalEntry> events() const {
    std::vector<JournalEntry> all = daemon.adapter.journal.after(0, 1000).entries;
    std::erase_if(all, [](const JournalEntry& entry) { return entry.kind != "request_refused"; });
    return all;
  }

  Daemon daemon;
  Client client{daemon};
  std::uint32_t pd = 0;
  std::uint32_t cq = 0;
};

TEST_F(Refusals, AttributeTooLarge_NamedWithValueAndLimit) {
  abi::CreateQpRequest request = qp_request();
  request.max_send_wr = 100'000;
  EXPECT_EQ(client.ask(Operation::kCreateQp, request), EINVAL);
  EXPECT_EQ(client.why(), "max_send_wr 100000, at most 16384");
  ASSERT_EQ(events().size(), 1u);
  const JournalEntry event = events().front();
  EXPECT_EQ(event.tenant, daemon.adapter.tenants.front()->name);
  EXPECT_EQ(event.process, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(event.text, "process " + std::to_string(::getpid()) +
                            ": ibv_create_qp: max_send_wr 100000, at most 16384");
}

TEST_F(Refusals, ModifyWithoutAttributes_NamesTransitionAndAttributes) {
  const std::uint32_t qpn = make_qp();
  abi::QpAttributes attributes{};
  attributes.mask = engine::attr::kState | engine::attr::kPort;
  attributes.qp_state = static_cast<std::uint32_t>(engine::QpState::kInit);
  attributes.port_num = 1;
  EXPECT_EQ(client.ask(Operation::kModifyQp, abi::ModifyQpRequest{qpn, 0, attributes}), EINVAL);
  EXPECT_EQ(client.why(), "RESET->INIT: qp_access_flags, pkey_index missing");
}

TEST_F(Refusals, ObjectInUse_NamesItsUsers) {
  make_qp();
  EXPECT_EQ(client.ask(Operation::kDeallocPd, abi::HandleBody{pd, 0}), EBUSY);
  EXPECT_EQ(client.why(), "in use by 1 queue pair");
  EXPECT_EQ(client.ask(Operation::kDestroyCq, abi::HandleBody{cq, 0}), EBUSY);
  EXPECT_EQ(client.why(), "in use by 1 queue pair");
}

TEST_F(Refusals, Limits_SayWhose) {
  daemon.adapter.tenants.front()->control.accounts.set_limit(
      configuration::Kind::kProtectionDomains, 1);
  EXPECT_EQ(client.ask(Operation::kAllocPd, abi::HandleBody{}), ENOMEM);
  EXPECT_EQ(client.why(), "tenant limit of 1 protection domains reached");
  daemon.adapter.tenants.front()->control.accounts.set_limit(
      configuration::Kind::kProtectionDomains, 1000);
  int error = 0;
  while (error == 0) error = client.ask(Operation::kAllocPd, abi::HandleBody{});
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(client.why(),
            "1 more protection domains: all tenants together have too many "
            "(pools.protection_domains)");
}

TEST_F(Refusals, RequestAfterARefusedOne_HasNoReason) {
  EXPECT_EQ(client.ask(Operation::kDestroyCq, abi::HandleBody{77, 0}), EINVAL);
  EXPECT_NE(client.why(), "");
  EXPECT_EQ(client.ask(Operation::kAllocPd, abi::HandleBody{}), 0);
  EXPECT_EQ(client.ask<std::byte>(Operation::kDestroyCq, std::byte{}), EINVAL) << "malformed";
  EXPECT_EQ(client.why(), "");
}

TEST_F(Refusals, RequestsOfTheProviderItself_RaiseNoEvent) {
  EXPECT_EQ(client.ask(Operation::kDestroyCq, abi::HandleBody{abi::kNoHandle, 0}), EINVAL);
  EXPECT_EQ(client.ask(Operation::kNameShared, abi::HandleBody{77, 0}), ESTALE);
  EXPECT_EQ(events().size(), 0u);
}

TEST_F(Refusals, ManyInOneSession_FewEvents) {
  constexpr std::size_t kMost = 8;
  for (std::size_t i = 0; i < 5 * kMost; ++i)
    EXPECT_EQ(client.ask(Operation::kDestroyCq, abi::HandleBody{77, 0}), EINVAL);
  ASSERT_EQ(events().size(), kMost);
  EXPECT_EQ(events()[kMost - 2].text.find("not reported"), std::string::npos);
  EXPECT_NE(events()[kMost - 1].text.find("not reported"), std::string::npos);
  EXPECT_NE(client.why(), "") << "the program always learns why";
  Client other{daemon};
  ASSERT_EQ(other.start(), 0);
  EXPECT_EQ(other.ask(Operation::kDestroyCq, abi::HandleBody{77, 0}), EINVAL);
  EXPECT_EQ(events().size(), kMost + 1);
}

}  // namespace
}  // namespace softhca::control
