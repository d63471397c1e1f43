// SPDX-License-Identifier: Apache-2.0

// Records that an adapter has left, changed before the next one reads them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/live_records/record_store.hpp"
#include "tests/fake_keeper.hpp"

namespace softhca {

class RecordsAtRest {
 public:
  explicit RecordsAtRest(FakeKeeper& keeper) : keeper_(keeper) {}

  /// Changes the body of the first record of a kind. REQUIRES: no adapter runs.
  void change(records::Kind kind, const std::function<void(std::vector<std::byte>& body)>& to) {
    // It stays, as its end would erase the records.
    Store& at = *stores_.emplace_back(std::make_unique<Store>(keeper_));
    ASSERT_TRUE(at.store.adopt());
    at.all = at.store.take_adopted();
    const auto found = std::ranges::find(at.all, kind, &records::Adopted::kind);
    ASSERT_NE(found, at.all.end());
    to(found->body);
    ASSERT_TRUE(at.store.reserve());
    found->record.replace(found->body);
    at.store.end_restoring();
    at.keeping.retire();
  }

 private:
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
