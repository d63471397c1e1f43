// SPDX-License-Identifier: Apache-2.0

// The state of a tenant's rdma_cm service in records of live objects.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/live_records/record_store.hpp"
#include "daemon/roce/cm/state_records.hpp"

namespace softhca::management::rdma_cm {

class KeptState final : public cm::StateRecords {
 public:
  /// `complain` is called when a record finds no room. The store outlives it.
  KeptState(records::RecordStore& store, std::string tenant,
            std::function<void(const Error&)> complain)
      : store_(store), tenant_(std::move(tenant)), complain_(std::move(complain)) {}

  void record(cm::StateKind kind, std::uint64_t number, std::span<const std::byte> state) override;
  void forget(cm::StateKind kind, std::uint64_t number) override;
  void commit() override;
  /// Calls `action` when the call under way is recorded: a message that leaves the adapter or wakes
  /// a program up says no more than the records.
  void after_commit(std::function<void()> action) { actions_.push_back(std::move(action)); }

  /// What a record says. It is valid as long as the record's body.
  struct Recorded {
    std::string tenant;
    cm::StateKind kind{};
    std::uint64_t number = 0;
    std::span<const std::byte> state;
  };
  /// Reads the body of a record. One that ends early has an empty state, which fits no object.
  /// Nothing: it has no tenant.
  static std::optional<Recorded> read(std::span<const std::byte> body);
  /// Takes over a record of an earlier adapter.
  void adopt(const Recorded& recorded, records::Record record);

 private:
  struct Kept {
    records::Record record;
    std::uint32_t checksum = 0;  ///< of the recorded state
  };

  void begin();

  records::RecordStore& store_;
  const std::string tenant_;
  const std::function<void(const Error&)> complain_;
  bool changes_ = false;  ///< since the last commit
  std::vector<std::function<void()>> actions_;
  std::map<std::pair<cm::StateKind, std::uint64_t>, Kept> kept_;
};

}  // namespace softhca::management::rdma_cm
