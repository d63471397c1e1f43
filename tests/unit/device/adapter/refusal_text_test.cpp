// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/refusal_text.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "daemon/engine/records/qp_failure.hpp"
#include "daemon/tenant_memory/region.hpp"

namespace softhca::control {
namespace {

const RefusalPeer kPeer{.address = "198.18.0.1", .qpn = Qpn(77), .tenant = "a"};

std::string document(const char* file) {
  std::ifstream in(std::string(std::getenv("SOFTHCA_SOURCE_ROOT")) + "/docs/" + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(RefusalText, EachCauseIsInTheTableOfVendorErr) {
  const std::string text = document("verbs.md");
  for (const CauseWords& words : refusal_causes()) {
    char code[16];
    std::snprintf(code, sizeof code, "0x%02x", static_cast<unsigned>(words.cause));
    const std::string row =
        std::string("\n| ") + code + " | `" + words.name + "` | " + words.meaning + " |\n";
    EXPECT_NE(text.find(row), std::string::npos) << "docs/verbs.md lacks" << row;
  }
}

TEST(RefusalText, EachFailureIsInTheTableOfFlushedCompletions) {
  const std::string text = document("verbs.md");
  for (unsigned i = 0; i < static_cast<unsigned>(engine::QpFailure::kCount); ++i) {
    const auto failure = static_cast<engine::QpFailure>(i);
    char row[200];
    std::snprintf(row, sizeof row, "\n| 0x%03x | `%s` | %s", engine::flush_error(failure),
                  engine::name_of(failure), engine::text_of(failure));
    EXPECT_NE(text.find(row), std::string::npos) << "docs/verbs.md lacks" << row;
  }
}

TEST(RefusalText, MessageWithMorePackets_HasThatManyBytesOrMore) {
  Refusal refusal{.cause = RefusalCause::kReceiveTooShort,
                  .side = RefusalSide::kReceive,
                  .more_follows = true,
                  .length = 2048,
                  .limit = 1500};
  EXPECT_EQ(text_of(refusal, kPeer), "message of 2048 bytes or more, receive of 1500 bytes");
  refusal.more_follows = false;
  EXPECT_EQ(text_of(refusal, kPeer), "message of 2048 bytes, receive of 1500 bytes");
}

TEST(RefusalText, EachCauseHasASentence) {
  for (const CauseWords& words : refusal_causes())
    EXPECT_NE(text_of({.cause = words.cause}, kPeer), "") << words.name;
  EXPECT_EQ(text_of({}, kPeer), "");
}

Refusal write_of_8_bytes() {
  return {.cause = RefusalCause::kOutOfBounds,
          .side = RefusalSide::kServed,
          .operation = RefusedOperation::kWrite,
          .has_region = true,
          .key = 0x1234,
          .needed = memory::kRemoteWrite,
          .granted = memory::kLocalWrite | memory::kRemoteWrite,
          .domain = 3,
          .address = 0x10ff9,
          .length = 8,
          .region = {.address = 0x10000, .length = 0x1000, .domain = 3}};
}

TEST(RefusalText, OutOfBounds_SaysByHowMuch) {
  Refusal refusal = write_of_8_bytes();
  EXPECT_EQ(text_of(refusal, kPeer),
            "RDMA write of 8 bytes at 0x10ff9 with key 0x1234, needs remote write: ends 1 byte "
            "behind the region's end (region of 4096 bytes at 0x10000, rights local write, remote "
            "write, protection domain 3)");
  refusal.address = 0xfff0;
  EXPECT_NE(text_of(refusal, kPeer).find("begins 16 bytes before the region"), std::string::npos);
  refusal.address = 0x11002;
  EXPECT_NE(text_of(refusal, kPeer).find("begins 2 bytes behind the region's end"),
            std::string::npos);
}

TEST(RefusalText, AtThePeer_SaysSo) {
  Refusal refusal = write_of_8_bytes();
  refusal.side = RefusalSide::kPeer;
  EXPECT_TRUE(text_of(refusal, kPeer).starts_with("at the peer: RDMA write of 8 bytes"));
}

TEST(RefusalText, EntryOfAList_IsNamedByItsIndex) {
  const Refusal refusal{.cause = RefusalCause::kRegionEnded,
                        .operation = RefusedOperation::kSend,
                        .entry = 1,
                        .entries = 2,
                        .key = 0x1234,
                        .address = 0x10000,
                        .length = 8,
                        .ms = 3};
  EXPECT_EQ(text_of(refusal, kPeer),
            "send, sg_list[1] of 2: 8 bytes at 0x10000 with key 0x1234: no region has this key; it "
            "was deregistered 3 ms before");
}

TEST(RefusalText, SilentPeer_SaysWhatTheDaemonKnows) {
  Refusal refusal{.cause = RefusalCause::kNoQueuePair,
                  .side = RefusalSide::kPeer,
                  .retries = 7,
                  .limit = 14,
                  .has_tenant = true};
  EXPECT_EQ(text_of(refusal, kPeer),
            "no acknowledgement with retry_cnt 7, timeout 14 (67.1 ms); 198.18.0.1 is tenant a, "
            "which has no queue pair 77");
  refusal.cause = RefusalCause::kProcessEnded;
  refusal.process = 9687;
  refusal.ms = 70;
  EXPECT_TRUE(text_of(refusal, kPeer)
                  .ends_with("; process 9687, which had queue pair 77, ended or closed the device "
                             "70 ms before"));
  refusal.cause = RefusalCause::kNoAnswer;
  EXPECT_EQ(text_of(refusal, kPeer), "no acknowledgement with retry_cnt 7, timeout 14 (67.1 ms)");
  refusal.of_other_tenant = true;
  EXPECT_EQ(
      text_of(refusal, kPeer),
      "no acknowledgement with retry_cnt 7, timeout 14 (67.1 ms); 198.18.0.1 is tenant a; its "
      "queue pair 77 does not answer this one");
}

TEST(RefusalText, VendorError_HidesQueuePairsOfAnotherTenant) {
  Refusal refusal{.cause = RefusalCause::kNoQueuePair, .side = RefusalSide::kPeer};
  EXPECT_EQ(vendor_error(refusal), 0x341u);
  refusal.of_other_tenant = true;
  EXPECT_EQ(vendor_error(refusal), 0x340u);
  EXPECT_EQ(vendor_error({}), 0u);
}

}  // namespace
}  // namespace softhca::control
