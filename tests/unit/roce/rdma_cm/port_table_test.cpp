// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/port_table.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "tests/unit/roce/rdma_cm/world.hpp"

namespace softhca::management::rdma_cm {
namespace {

PortTable::Claim claim(const std::string& text, bool reuse = false, bool af_only = false,
                       std::uint16_t port = 7174) {
  return {.at = address(text, port), .reuse = reuse, .af_only = af_only};
}

TEST(PortTable, WhoGetsAlongWithWhom) {
  struct Case {
    const char* what;
    PortTable::Claim held, wanted;
    int error;
  };
  const Case cases[] = {
      {"an address twice", claim("10.0.0.1"), claim("10.0.0.1"), EADDRINUSE},
      {"two addresses", claim("10.0.0.1"), claim("10.0.0.2"), 0},
      {"wildcard twice", claim("0.0.0.0"), claim("0.0.0.0"), EADDRNOTAVAIL},
      {"wildcard, then address", claim("0.0.0.0"), claim("10.0.0.1"), EADDRNOTAVAIL},
      {"address, then wildcard", claim("10.0.0.1"), claim("0.0.0.0"), EADDRNOTAVAIL},
      {"IPv6 wildcard takes IPv4, too", claim("::"), claim("0.0.0.0", false, true), EADDRNOTAVAIL},
      {"each keeps to its family", claim("::", false, true), claim("0.0.0.0", false, true), 0},
      {"only one keeps to its family", claim("::", false, true), claim("0.0.0.0"), EADDRNOTAVAIL},
      {"addresses of two families", claim("fd00::1"), claim("10.0.0.1"), 0},
      {"both reuse", claim("10.0.0.1", true), claim("10.0.0.1", true), 0},
      {"both reuse a wildcard", claim("0.0.0.0", true), claim("10.0.0.1", true), 0},
      {"only the first reuses", claim("10.0.0.1", true), claim("10.0.0.1"), EADDRINUSE},
      {"only the second reuses", claim("10.0.0.1"), claim("10.0.0.1", true), EADDRINUSE},
      {"another port", claim("10.0.0.1"), claim("10.0.0.1", false, false, 7175), 0},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    PortTable table;
    ASSERT_EQ(table.bind(1, one.held).error, 0);
    EXPECT_EQ(table.bind(2, one.wanted).error, one.error);
    table.release(1, one.held.at.port);
    table.release(2, one.wanted.at.port);
    EXPECT_EQ(table.bind(3, one.wanted).error, 0);
  }
}

TEST(PortTable, ListeningEndsReuse) {
  PortTable table;
  ASSERT_EQ(table.bind(1, claim("10.0.0.1", true)).error, 0);
  ASSERT_EQ(table.bind(2, claim("10.0.0.1", true)).error, 0);
  EXPECT_EQ(table.listen(1, 7174).error, EADDRINUSE);
  table.release(2, 7174);
  EXPECT_EQ(table.listen(1, 7174).error, 0);
  EXPECT_EQ(table.bind(3, claim("10.0.0.1", true)).error, EADDRINUSE);
  EXPECT_EQ(table.bind(3, claim("10.0.0.2", true)).error, 0);
  EXPECT_EQ(table.listen(3, 7174).error, 0);
}

TEST(PortTable, AnyPortIsOneOfTheRangeFromARandomPlace) {
  PortTable table({.first = 100, .last = 104});
  PortTable::Claim any = claim("10.0.0.1", true, false, 0);
  EXPECT_EQ(table.bind_any(1, any, 3), 103);
  EXPECT_EQ(table.bind_any(2, any, 5 * 1000 + 3), 104);
  EXPECT_EQ(table.bind_any(3, any, 3), 100);
  std::set<std::uint16_t> rest{table.bind_any(4, any, 0), table.bind_any(5, any, 0)};
  EXPECT_EQ(rest, (std::set<std::uint16_t>{101, 102}));
  EXPECT_EQ(table.bind_any(6, any, 0), 0) << "all taken";
  table.release(4, 101);
  table.release(4, 102);
  EXPECT_NE(table.bind_any(6, any, 0), 0);
  EXPECT_EQ(table.bind_any(7, any, 0), 0) << "only one of the two was its owner's to release";
}

TEST(PortTable, ARangeOfNothing) {
  PortTable table({.first = 2, .last = 1});
  EXPECT_EQ(table.bind_any(1, claim("10.0.0.1"), 5), 0);
  EXPECT_EQ(table.bind(1, claim("10.0.0.1", false, false, 1)).error, 0);
}

TEST(PortTable, AWildcardThatBecameAnAddressCountsAsOne) {
  PortTable table;
  ASSERT_EQ(table.bind(1, claim("0.0.0.0")).error, 0);
  EXPECT_EQ(table.bind(2, claim("10.0.0.2")).error, EADDRNOTAVAIL);
  table.change(1, claim("10.0.0.1"));
  EXPECT_EQ(table.bind(2, claim("10.0.0.2")).error, 0);
  EXPECT_EQ(table.bind(3, claim("10.0.0.1")).error, EADDRINUSE);
}

TEST(PortTable, ReleaseOfWhatIsNotHeldDoesNothing) {
  PortTable table;
  ASSERT_EQ(table.bind(1, claim("10.0.0.1")).error, 0);
  table.release(2, 7174);
  table.release(1, 7175);
  EXPECT_EQ(table.bind(3, claim("10.0.0.1")).error, EADDRINUSE);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
