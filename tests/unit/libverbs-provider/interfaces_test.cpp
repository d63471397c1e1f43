// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/private_interfaces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

namespace softhca::provider {
namespace {

constexpr int kVersions[] = {kFirstVersion, kVersion59, kVersion62, kVersion64, kVersion65};

/// Every operation is a pointer of its own here.
abi34::ContextOps different_operations() {
  abi34::ContextOps ops;
  for (std::size_t place = 0; place < kFirstOperations; ++place) {
    const std::size_t value = place + 1;
    std::memcpy(reinterpret_cast<std::byte*>(&ops) + place * sizeof value, &value, sizeof value);
  }
  return ops;
}

/// Where verbs_set_ops() of a version looks for an operation of number 34.
std::size_t place_of(int version, std::size_t offset) {
  const Operations all = operations_of(version, different_operations());
  const auto wanted = std::bit_cast<abi34::NotProvided>(offset / sizeof(void*) + 1);
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), wanted) - all.begin());
}

// The places were counted in the driver.h of rdma-core 56, 59, 62, 64 and 65.
TEST(Interfaces, OperationsStandWhereEachVersionLooksForThem) {
  struct Row {
    const char* name;
    std::size_t offset;
    std::size_t places[std::size(kVersions)];
  };
#define ROW(name, ...)                                        \
  {                                                           \
#name, offsetof(abi34::ContextOps, name), { __VA_ARGS__ } \
  }
  const Row rows[] = {
      ROW(advise_mr, 0, 0, 0, 0, 0),         ROW(alloc_dm, 1, 1, 1, 2, 2),
      ROW(alloc_mw, 2, 3, 3, 4, 4),          ROW(cq_event, 12, 13, 13, 14, 14),
      ROW(create_cq, 15, 16, 16, 17, 18),    ROW(create_qp, 19, 20, 20, 21, 22),
      ROW(dealloc_pd, 26, 28, 28, 29, 30),   ROW(dereg_mr, 28, 30, 30, 31, 32),
      ROW(free_context, 39, 41, 42, 44, 46), ROW(modify_cq, 45, 47, 48, 50, 54),
      ROW(poll_cq, 53, 55, 56, 58, 62),      ROW(query_device_ex, 58, 60, 61, 63, 69),
      ROW(query_qp, 61, 63, 65, 67, 73),     ROW(query_srq, 64, 66, 68, 70, 76),
      ROW(reg_mr, 68, 70, 72, 74, 82),       ROW(req_notify_cq, 69, 72, 74, 76, 84),
      ROW(resize_cq, 71, 74, 76, 78, 86),    ROW(unimport_mr, 74, 77, 79, 81, 91),
      ROW(unimport_pd, 75, 78, 80, 82, 92),
  };
#undef ROW
  for (const Row& row : rows)
    for (std::size_t i = 0; i < std::size(kVersions); ++i)
      EXPECT_EQ(place_of(kVersions[i], row.offset), row.places[i])
          << row.name << " in " << kVersions[i];
}

TEST(Interfaces, WhatWasAddedIsLeftToTheLibrary) {
  for (const int version : kVersions) {
    const Operations all = operations_of(version, different_operations());
    const auto provided =
        std::count_if(all.begin(), all.end(), [](auto op) { return op != nullptr; });
    EXPECT_EQ(static_cast<std::size_t>(provided), kFirstOperations);
  }
}

}  // namespace
}  // namespace softhca::provider
