// SPDX-License-Identifier: Apache-2.0

// The clients of a receive pool by number and by key.
#include "daemon/qos/gsa/client_table.hpp"

#include <gtest/gtest.h>

namespace softhca::management::gsa {
namespace {

constexpr ClientKey kKey{7};

TEST(ClientTable, FindsAClientByKeyAndById) {
  ClientTable table(4);
  const auto id = table.add({.key = kKey, .name = "agent"});
  ASSERT_TRUE(id);
  EXPECT_TRUE(table.contains(kKey));
  EXPECT_EQ(table.find(kKey), id);
  ASSERT_NE(table.find(*id), nullptr);
  EXPECT_EQ(table.find(*id)->name, "agent");
  EXPECT_FALSE(table.find(ClientKey(8)));
}

TEST(ClientTable, AnIdIsStaleAfterItsClientLeft) {
  ClientTable table(4);
  const ClientId gone = *table.add({.key = kKey});
  table.remove(gone);
  EXPECT_EQ(table.find(gone), nullptr);
  EXPECT_EQ(std::as_const(table).find(gone), nullptr);
  EXPECT_FALSE(table.contains(kKey));
  const ClientId next = *table.add({.key = kKey});
  EXPECT_EQ(next.index, gone.index) << "the place is used again";
  EXPECT_EQ(table.find(gone), nullptr);
  EXPECT_EQ(std::as_const(table).find({.index = 1000, .generation = 1}), nullptr);
}

TEST(ClientTable, HasSoManyPlaces) {
  ClientTable table(2);
  EXPECT_TRUE(table.add({.key = ClientKey(1)}));
  EXPECT_TRUE(table.add({.key = ClientKey(2)}));
  EXPECT_FALSE(table.add({.key = ClientKey(3)}));
  EXPECT_FALSE(table.contains(ClientKey(3)));
}

TEST(ClientTable, TheOperatorSeesClientsByKey) {
  ClientTable table(4);
  table.add({.key = ClientKey(9), .name = "last"});
  table.add({.key = ClientKey(3), .name = "first", .borrowed = 2});
  const std::vector<ClientView> view = table.view();
  ASSERT_EQ(view.size(), 2u);
  EXPECT_EQ(view[0].name, "first");
  EXPECT_EQ(view[0].borrowed, 2u);
  EXPECT_EQ(view[1].name, "last");
}

}  // namespace
}  // namespace softhca::management::gsa
