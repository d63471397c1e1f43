// SPDX-License-Identifier: Apache-2.0

// Memory that the daemon makes for a process to share. Regions in such a buffer are registered in
// place.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>

#include "daemon/base/unique_fd.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/device/objects/shared_names.hpp"
#include "daemon/tenant_memory/shared_buffer.hpp"

namespace softhca::control {

class SharedBuffers {
 public:
  SharedBuffers(const SessionContext& context, SharedNames& names);

  /// As QpObjects::end().
  bool end(const Turn& turn);

  int alloc(const RequestBody& body, Reply& reply);
  int free(const RequestBody& body, Reply& reply);
  /// Returns kUnfinished until the descriptor of to_seal() is sealed. The caller then repeats the
  /// same request.
  int name(const RequestBody& body, Reply& reply);
  int join(const RequestBody& body, Reply& reply);
  /// As MrObjects::to_seal(), for the buffer to be named. Empty descriptor: none.
  std::pair<DescriptorToSeal, std::shared_ptr<void>> to_seal();

  bool restore_handles(const record::SharedHandles& kept, records::Record record);
  /// Makes a buffer of an earlier adapter. `is_own`: the session has a handle for it. Null: the
  /// record does not fit.
  std::shared_ptr<memory::SharedBuffer> restore(const record::SharedBuffer& kept, bool is_own,
                                                records::Record record);

  /// Returns a buffer. Null: unknown handle.
  std::shared_ptr<memory::SharedBuffer> acquire(std::uint32_t handle) {
    return buffers_.acquire(handle);
  }

  // Bytes and number of the buffers without regions.
  std::uint64_t idle_bytes() const { return buffers_.idle_bytes(); }
  std::uint64_t idle_count() const { return buffers_.idle_count(); }
  void give_up_oldest() { buffers_.give_up_oldest(); }

 private:
  /// What ends with a buffer.
  struct Account {
    configuration::Charge bytes;
    configuration::Charge mapping;
    record::SharedBuffer kept{};
    records::Record record;
    void write() { record.replace(std::as_bytes(std::span(&kept, 1))); }
  };

  /// Handles that are announced at a time.
  static constexpr std::uint32_t kHandles = 1024;

  void announce_handles();
  std::shared_ptr<Account> account_of(std::uint32_t handle) const;

  const SessionContext& context_;
  SharedNames& names_;
  std::unordered_map<std::uint32_t, std::weak_ptr<Account>> accounts_;  ///< by handle
  std::uint64_t handles_end_ = 0;
  records::Record handles_record_;
  std::shared_ptr<memory::SharedBuffer> to_name_;  ///< to be named when it is sealed
  memory::SharedBufferPool buffers_;
};

}  // namespace softhca::control
