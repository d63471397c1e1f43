// SPDX-License-Identifier: Apache-2.0

// Numbers of the private interface after 34, with what they added to the structures of abi34.hpp.
// Each number has its own plugin (registration.cpp). The provider implements none of the added
// operations.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "libverbs-provider/abi34.hpp"

namespace softhca::provider {

/// Versions of rdma-core in which the structures grew, each with its interface numbers. Two
/// versions may share a number.
inline constexpr int kFirstVersion = 36;  // 34; also 57, which adds nothing here
inline constexpr int kVersion59 = 59;     // 59
inline constexpr int kVersion62 = 62;     // also 59
inline constexpr int kVersion64 = 64;     // 64
inline constexpr int kVersion65 = 65;     // 65

struct AddedOperation {
  int since;
  std::size_t before;  ///< offset in abi34::ContextOps of the operation that it precedes
};

inline constexpr AddedOperation kAddedOperations[] = {
    {kVersion64, offsetof(abi34::ContextOps, alloc_dm)},          // alloc_buf
    {kVersion59, offsetof(abi34::ContextOps, alloc_mw)},          // alloc_dmah
    {kVersion65, offsetof(abi34::ContextOps, create_counters)},   // create_comp_cntr
    {kVersion59, offsetof(abi34::ContextOps, dealloc_mw)},        // dealloc_dmah
    {kVersion65, offsetof(abi34::ContextOps, destroy_counters)},  // destroy_comp_cntr
    {kVersion62, offsetof(abi34::ContextOps, free_context)},      // dm_export_dmabuf_fd
    {kVersion64, offsetof(abi34::ContextOps, free_context)},      // free_buf
    {kVersion65, offsetof(abi34::ContextOps, modify_cq)},         // inc_comp_cntr
    {kVersion65, offsetof(abi34::ContextOps, modify_cq)},         // inc_err_comp_cntr
    {kVersion65, offsetof(abi34::ContextOps, query_device_ex)},   // qp_attach_comp_cntr
    {kVersion65, offsetof(abi34::ContextOps, query_device_ex)},   // query_comp_cntr_caps
    {kVersion62, offsetof(abi34::ContextOps, query_qp)},          // query_port_speed
    {kVersion65, offsetof(abi34::ContextOps, read_counters)},     // read_comp_cntr
    {kVersion65, offsetof(abi34::ContextOps, reg_dm_mr)},         // read_err_comp_cntr
    {kVersion59, offsetof(abi34::ContextOps, req_notify_cq)},     // reg_mr_ex
    {kVersion65, offsetof(abi34::ContextOps, set_ece)},           // set_comp_cntr
    {kVersion65, offsetof(abi34::ContextOps, unimport_dm)},       // set_err_comp_cntr
};

inline constexpr std::size_t kFirstOperations = sizeof(abi34::ContextOps) / sizeof(void (*)());
using Operations = std::array<abi34::NotProvided, kFirstOperations + std::size(kAddedOperations)>;

/// Returns the operations for verbs_set_ops() of this version: `ops`, with null for each added
/// operation.
inline Operations operations_of(int version, const abi34::ContextOps& ops) {
  Operations all{};
  const auto* from = reinterpret_cast<const std::byte*>(&ops);
  std::size_t place = 0;
  for (std::size_t offset = 0; offset < sizeof ops; offset += sizeof all[0]) {
    for (const AddedOperation& added : kAddedOperations)
      if (added.before == offset && added.since <= version) ++place;
    std::memcpy(&all[place++], from + offset, sizeof all[0]);
  }
  return all;
}

/// Returns the bytes in front of the ibv_context in a verbs_context of this version. Each added
/// operation is a pointer.
constexpr std::size_t context_front(int version) {
  const std::size_t pointers = (version >= kVersion59 ? 3u : 0u) +  // alloc_dmah to reg_mr_ex
                               (version >= kVersion62 ? 1u : 0u) +  // dm_export_dmabuf_fd
                               (version >= kVersion64 ? 2u : 0u);   // alloc_buf, free_buf
  return abi34::kContextFront + pointers * sizeof(void*);
}
inline constexpr std::size_t kLargestContextFront = context_front(kVersion65);

/// Returns the version, as above, of the library that has loaded this plugin.
int library_version();

}  // namespace softhca::provider
