// SPDX-License-Identifier: Apache-2.0

// Memory regions of a session. Those of a device file belong to all sessions that have the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/device/objects/pd_objects.hpp"
#include "daemon/device/objects/shared_buffers.hpp"
#include "daemon/engine/requests/memory_requests.hpp"
#include "daemon/tenant_memory/process_memory.hpp"

namespace softhca::control {

class MrObjects {
 public:
  MrObjects(const SessionContext& context, PdObjects& pds, SharedBuffers& buffers)
      : context_(context), pds_(pds), buffers_(buffers) {}
  /// Removes all regions from the engine, unless other sessions have the file.
  ~MrObjects() { end(Turn::endless()); }
  MrObjects(const MrObjects&) = delete;
  MrObjects& operator=(const MrObjects&) = delete;

  /// Continues the end of the session. Returns true if none is left, false if the turn is over.
  bool end(const Turn& turn);

  /// Sets the memory of the process. From now on, the process can register memory that is not
  /// shared.
  void set_process(std::shared_ptr<memory::ProcessMemory> process) {
    process_ = std::move(process);
  }
  bool has_process() const { return process_ != nullptr; }
  /// True if a region uses that memory.
  bool uses_process() const { return process_.use_count() > 1; }
  std::uint32_t size() const { return pds_.regions().size(); }

  /// Return kUnfinished until the descriptors of to_seal() are sealed and all pages are mapped,
  /// which takes 0.2 s for each GiB of them. The caller then repeats the same request.
  int register_mr(const RequestBody& body, Reply& reply);
  int reregister_mr(const RequestBody& body, Reply& reply);
  /// Returns the descriptors of the shared memory that an unfinished request names, and the
  /// accounts that end with them. Seal them (SealedMemory::seal_holes) before the request
  /// continues.
  std::pair<std::vector<DescriptorToSeal>, std::vector<std::shared_ptr<void>>> to_seal();

  /// Finds what regions of an earlier adapter use, by its records. Null: it is gone.
  struct Earlier {
    std::function<std::shared_ptr<memory::SharedBuffer>(KeptId buffer)> buffer;
    std::function<std::shared_ptr<memory::ProcessMemory>(record::SessionKey session)> memory;
  };
  /// Makes a region of the device file again. Returns false if the record does not fit.
  bool restore(const record::MemoryRegion& kept, std::span<const record::RegionExtent> extents,
               const Earlier& earlier, records::Record record);
  const std::shared_ptr<memory::ProcessMemory>& process() const { return process_; }

  int alloc_null_mr(const RequestBody& body, Reply& reply);
  int deregister_mr(const RequestBody& body, Reply& reply);
  int import_mr(const RequestBody& body, Reply& reply);

 private:
  /// The extents of a request, with the buffers that they name. The buffers are idle again if the
  /// request fails.
  struct Extents {
    std::vector<abi::MrExtent> all;
    std::vector<std::shared_ptr<memory::SharedBuffer>> buffers;  ///< by extent; null: none
  };
  /// A region that is allowed, checked and charged. Its pages are being mapped.
  struct Registration {
    Extents extents;
    std::unique_ptr<memory::Region> region;
    std::unique_ptr<MrObject> mr;  ///< the new region's, or the changes of an existing one
    std::uint64_t replaces = 0;    ///< serial number of the existing region
    std::size_t extent = 0;        ///< next extent to map
    std::uint64_t offset = 0;      ///< offset in it of the next page
  };
  int check_access(std::uint32_t access) const;
  Expected<Registration> begin(const abi::RegisterMrRequest& request, Extents extents);
  Expected<Registration> begin(const abi::ReregisterMrRequest& request, Extents extents);
  bool map_some(Registration& at) const;
  template <class Request>
  int advance(const RequestBody& body, const Request& request, std::uint32_t count,
              Registration& done);
  std::shared_ptr<memory::SharedBuffer> buffer_of(abi::MrExtent& extent) const;
  template <class Head>
  bool read_extents(const RequestBody& body, std::uint32_t count, Extents& extents);
  int add(const Extents& extents, memory::RegionSpec& spec) const;
  int change_spec(const abi::ReregisterMrRequest& request, const Extents& extents,
                  memory::RegionSpec& spec) const;
  bool charge_extents(std::size_t count, configuration::Charge& charge) const;
  void keep_extents(MrObject& mr, const Extents& extents) const;
  void write(MrObject& mr) const;
  int install(std::unique_ptr<memory::Region> region, std::unique_ptr<MrObject> mr,
              std::uint32_t pd, const Extents& extents, Reply& reply);
  engine::DeregisterMr removal(const MrObject& mr, std::unique_ptr<memory::Region>& region) const;

  const SessionContext& context_;
  PdObjects& pds_;
  SharedBuffers& buffers_;
  std::shared_ptr<memory::ProcessMemory> process_;  ///< null: not accessible
  std::optional<Registration> registration_;        ///< of the unfinished request
};

}  // namespace softhca::control
