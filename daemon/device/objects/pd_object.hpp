// SPDX-License-Identifier: Apache-2.0

// A protection domain, and its use by objects.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <unordered_set>
#include <utility>

#include "daemon/configuration/resource_manager/accounts.hpp"
#include "daemon/live_records/record_store.hpp"
#include "daemon/tenant_memory/region.hpp"

namespace softhca::control {

/// Random numbers of the domains of one adapter. take() returns no number that is in use, and never
/// 0, which stands for none.
class PdNumbers {
 public:
  memory::PdId take() {
    for (;;)
      if (const std::uint32_t number = random_(); number != 0 && in_use_.insert(number).second)
        return memory::PdId(number);
  }
  /// Takes a number that an earlier adapter took. False: it is in use, or 0.
  bool take(memory::PdId id) { return id.value != 0 && in_use_.insert(id.value).second; }
  void give_back(memory::PdId id) { in_use_.erase(id.value); }

 private:
  std::random_device random_;
  std::unordered_set<std::uint32_t> in_use_;
};

/// Kinds of objects in a domain.
enum class PdUser : std::uint8_t {
  kMemoryRegion,
  kMemoryWindow,
  kQueuePair,
  kSharedReceiveQueue,
  kAddressHandle,
  kCount,
};

struct PdObject {
  explicit PdObject(PdNumbers& all) : PdObject(all, all.take()) {}
  /// `number`: taken out of `all`.
  PdObject(PdNumbers& all, memory::PdId number) : numbers(all), id(number) {}
  PdObject(const PdObject&) = delete;
  PdObject& operator=(const PdObject&) = delete;
  ~PdObject() { numbers.give_back(id); }

  records::Record record;
  configuration::Charge charge;
  std::uint32_t handle = 0;
  PdNumbers& numbers;
  memory::PdId id;
  std::array<std::uint32_t, static_cast<std::size_t>(PdUser::kCount)> users{};  ///< by kind
};

/// Held by an object in the domain. The domain must outlive the object: it cannot be removed while
/// this is held.
class PdUse {
 public:
  PdUse() = default;
  PdUse(PdObject& pd, PdUser user) : users_(&pd.users[static_cast<std::size_t>(user)]) {
    ++*users_;
  }
  PdUse(PdUse&& other) noexcept : users_(std::exchange(other.users_, nullptr)) {}
  PdUse& operator=(PdUse&& other) noexcept {
    std::swap(users_, other.users_);
    return *this;
  }
  ~PdUse() {
    if (users_ != nullptr) --*users_;
  }

 private:
  std::uint32_t* users_ = nullptr;  ///< the count of the domain
};

}  // namespace softhca::control
