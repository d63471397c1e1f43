// SPDX-License-Identifier: Apache-2.0

// Answers of the performance agent, byte by byte. Offsets are those of the attribute's tables in
// 16.1.3.5 and 16.1.4.11 of the InfiniBand specification, and of include/rdma/ib_pma.h of Linux.
#include "daemon/roce/performance/performance_agent.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>

namespace softhca::management {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::size_t kAttribute = 64;

enum Attribute : std::uint16_t { kClassPortInfo = 1, kCounters = 0x12, kExtended = 0x1d };

void put(wire::Mad& mad, std::size_t at, std::initializer_list<int> bytes) {
  for (const int byte : bytes) mad[at++] = static_cast<std::byte>(byte);
}

wire::Mad request(int method, int attribute, int port_select = kPort) {
  wire::Mad mad{};
  put(mad, 0, {1, 4, 1, method, 0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88});
  put(mad, 16, {attribute >> 8, attribute & 0xff});
  put(mad, kAttribute + 1, {port_select});
  return mad;
}

/// The header of the answer to request() of that attribute.
wire::Mad expected(int status, int attribute) {
  wire::Mad mad{};
  put(mad, 0, {1, 4, 1, 0x81, status >> 8, status & 0xff, 0, 0});
  put(mad, 8, {0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88});
  put(mad, 16, {attribute >> 8, attribute & 0xff});
  return mad;
}

PmaCounters some() {
  return {.transmitted_bytes = 0x4c4c4c4c4,
          .received_bytes = 0x10203040507,
          .transmitted_packets = 0x1a2b3c4d,
          .received_packets = 0x2b3c4d5e,
          .transmitted_unicast = 0x3c4d5e6f70,
          .received_unicast = 0x4d5e6f7081,
          .transmitted_multicast = 0x5e6f708192,
          .received_multicast = 0x6f708192a3,
          .link_downed = 3,
          .receive_errors = 0x1234,
          .transmit_discards = 0x2345,
          .receive_constraint_errors = 0x45,
          .transmit_constraint_errors = 0x54,
          .buffer_overruns = 7,
          .queue_pair_1_dropped = 0x6789,
          .transmit_waits = 0x99aabbcc};
}

int status_of(const wire::Mad& mad, std::uint8_t port) {
  const auto response = answer(mad, port, some());
  return response ? wire::decode_mad_header(*response)->status : -1;
}

TEST(PerformanceAgent, AnswersClassPortInfo) {
  wire::Mad wanted = expected(0, kClassPortInfo);
  put(wanted, kAttribute, {1, 1, 0x93, 0x00, 0, 0, 0, 18});
  EXPECT_EQ(answer(request(1, kClassPortInfo, 0), kPort, some()), wanted);
}

TEST(PerformanceAgent, AnswersPortCounters) {
  wire::Mad wanted = expected(0, kCounters);
  put(wanted, kAttribute, {0, kPort, 0, 0});
  put(wanted, kAttribute + 7, {3});
  put(wanted, kAttribute + 8, {0x12, 0x34});
  put(wanted, kAttribute + 14, {0x23, 0x45, 0x54, 0x45});
  put(wanted, kAttribute + 19, {0x07, 0x67, 0x89});
  put(wanted, kAttribute + 24, {0xff, 0xff, 0xff, 0xff});
  put(wanted, kAttribute + 28, {0xff, 0xff, 0xff, 0xff});
  put(wanted, kAttribute + 32, {0x1a, 0x2b, 0x3c, 0x4d});
  put(wanted, kAttribute + 36, {0x2b, 0x3c, 0x4d, 0x5e});
  put(wanted, kAttribute + 40, {0x99, 0xaa, 0xbb, 0xcc});
  PmaCounters counters = some();
  EXPECT_EQ(answer(request(1, kCounters), kPort, counters), wanted);
  counters.transmitted_bytes = std::uint64_t{0xfffffffe} * 4 + 3;
  put(wanted, kAttribute + 24, {0xff, 0xff, 0xff, 0xfe});
  EXPECT_EQ(answer(request(1, kCounters), kPort, counters), wanted) << "whole words";
}

TEST(PerformanceAgent, CountersOfPortCountersStopAtTheirLargestValue) {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  const PmaCounters full{.transmitted_bytes = kAll,
                         .received_bytes = kAll,
                         .transmitted_packets = kAll,
                         .received_packets = kAll,
                         .link_downed = 256,
                         .receive_errors = 65536,
                         .transmit_discards = kAll,
                         .receive_constraint_errors = 256,
                         .transmit_constraint_errors = kAll,
                         .buffer_overruns = 16,
                         .queue_pair_1_dropped = 65536,
                         .transmit_waits = std::uint64_t{1} << 32};
  wire::Mad wanted = expected(0, kCounters);
  put(wanted, kAttribute, {0, kPort});
  put(wanted, kAttribute + 7, {0xff, 0xff, 0xff});
  put(wanted, kAttribute + 14, {0xff, 0xff, 0xff, 0xff});
  put(wanted, kAttribute + 19, {0x0f, 0xff, 0xff});
  for (std::size_t i = 24; i < 44; ++i) put(wanted, kAttribute + i, {0xff});
  EXPECT_EQ(answer(request(1, kCounters), kPort, full), wanted);
}

TEST(PerformanceAgent, AnswersPortCountersExtendedAtFullWidth) {
  wire::Mad wanted = expected(0, kExtended);
  put(wanted, kAttribute, {0, 0xff});
  put(wanted, kAttribute + 8, {0, 0, 0, 1, 0x31, 0x31, 0x31, 0x31});
  put(wanted, kAttribute + 16, {0, 0, 0, 0x40, 0x80, 0xc1, 0x01, 0x41});
  put(wanted, kAttribute + 24, {0, 0, 0, 0, 0x1a, 0x2b, 0x3c, 0x4d});
  put(wanted, kAttribute + 32, {0, 0, 0, 0, 0x2b, 0x3c, 0x4d, 0x5e});
  put(wanted, kAttribute + 40, {0, 0, 0, 0x3c, 0x4d, 0x5e, 0x6f, 0x70});
  put(wanted, kAttribute + 48, {0, 0, 0, 0x4d, 0x5e, 0x6f, 0x70, 0x81});
  put(wanted, kAttribute + 56, {0, 0, 0, 0x5e, 0x6f, 0x70, 0x81, 0x92});
  put(wanted, kAttribute + 64, {0, 0, 0, 0x6f, 0x70, 0x81, 0x92, 0xa3});
  EXPECT_EQ(answer(request(1, kExtended, 0xff), kPort, some()), wanted) << "asked of all ports";
}

TEST(PerformanceAgent, WritesNothingThatARequestAskedFor) {
  for (const int attribute : {kClassPortInfo, kCounters, kExtended}) {
    wire::Mad set = request(2, attribute);
    put(set, kAttribute + 2, {0xff, 0xff});
    wire::Mad wanted = expected(0x0c, attribute);
    put(wanted, kAttribute, {0, kPort, 0xff, 0xff});
    EXPECT_EQ(answer(set, kPort, some()), wanted) << attribute;
  }
}

TEST(PerformanceAgent, SaysWhatIsWrongWithARequest) {
  EXPECT_EQ(status_of(request(1, kCounters), kPort), 0);
  EXPECT_EQ(status_of(request(1, kCounters, 2), kPort), 0x1c) << "no such port";
  EXPECT_EQ(status_of(request(1, kExtended, 0), kPort), 0x1c);
  EXPECT_EQ(status_of(request(1, 0x10), kPort), 0x0c) << "samples";
  EXPECT_EQ(status_of(request(1, 0x1e), kPort), 0x0c);
  EXPECT_EQ(status_of(request(0x12, kCounters), kPort), 0x08) << "GetTable";
  wire::Mad mad = request(1, kCounters);
  put(mad, 2, {2});
  EXPECT_EQ(status_of(mad, kPort), 0x04) << "version of the class";
  mad = request(1, kClassPortInfo);
  put(mad, 20, {0, 0, 0, 1});
  EXPECT_EQ(status_of(mad, kPort), 0x1c) << "modifier";
}

TEST(PerformanceAgent, AnswersNeitherAnswersNorNotices) {
  for (const int method : {0x81, 0x86, 0x92, 0xff, 0x03, 0x05, 0x07})
    EXPECT_FALSE(answer(request(method, kCounters), kPort, some())) << method;
  wire::Mad mad = request(1, kCounters);
  put(mad, 1, {7});
  EXPECT_FALSE(answer(mad, kPort, some())) << "another class";
  mad = request(1, kCounters);
  put(mad, 0, {2});
  EXPECT_FALSE(answer(mad, kPort, some())) << "another base version";
}

TEST(PerformanceAgent, NeverAnswersItself) {
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    wire::Mad mad;
    for (std::byte& byte : mad) byte = static_cast<std::byte>(random());
    put(mad, 0, {1, 4, 1});
    const auto response = answer(mad, kPort, some());
    if (response) {
      EXPECT_FALSE(answer(*response, kPort, some()));
    }
  }
}

}  // namespace
}  // namespace softhca::management
