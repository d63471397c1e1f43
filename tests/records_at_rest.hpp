// SPDX-License-Identifier: Apache-2.0

// Records that an adapter has left, changed before the next one reads them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/live_records/record_store.hpp"
#include "tests/fake_keeper.hpp"

namespace softhca {

class RecordsAtRest {
 public:
  explicit RecordsAtRest(FakeKeeper& keeper) : keeper_(keeper) {}

  using Change = std::function<void(std::vector<std::byte>& body)>;

  /// Changes the body of the first record of a kind. REQUIRES: no adapter runs.
  void change(records::Kind kind, const Change& to) {
    bool found = false;
    change_if([&](records::Kind each) { return each == kind && !std::exchange(found, true); }, to);
    EXPECT_TRUE(found);
  }
  /// Changes the bodies of all records.
  void change_all(const Change& to) {
    change_if([](records::Kind) { return true; }, to);
  }

 private:
  template <class IsWanted>
  void change_if(IsWanted&& is_wanted, const Change& to) {
    // It stays, as its end would erase the records.
    Store& at = *stores_.emplace_back(std::make_unique<Store>(keeper_));
    ASSERT_TRUE(at.store.adopt());
    at.all = at.store.take_adopted();
    for (records::Adopted& each : at.all) {
      if (!is_wanted(each.kind)) continue;
      to(each.body);
      ASSERT_TRUE(at.store.reserve());
      each.record.replace(each.body);
    }
    at.store.end_restoring();
    at.keeping.retire();
  }

  struct Store {
    explicit Store(FakeKeeper& keeper) : keeping(keeper) {}
    FakeKeeping keeping;
    records::RecordStore store{&keeping};
    std::vector<records::Adopted> all;
  };
  FakeKeeper& keeper_;
  std::vector<std::unique_ptr<Store>> stores_;
};

}  // namespace softhca
