// Memory regions of a session; those of a device file are of all sessions that have the file.
#pragma once

#include <memory>
#include <vector>

#include "daemon/control/session/context.hpp"
#include "daemon/control/session/protection_domains.hpp"
#include "daemon/control/session/shared_buffers.hpp"
#include "daemon/memory/process_memory.hpp"

namespace softhca::control {

class MemoryRegions {
 public:
  MemoryRegions(const SessionContext& context, ProtectionDomains& pds, SharedBuffers& buffers)
      : context_(context), pds_(pds), buffers_(buffers) {}
  /// Removes them all from the engine, unless other sessions have the file.
  ~MemoryRegions();
  MemoryRegions(const MemoryRegions&) = delete;
  MemoryRegions& operator=(const MemoryRegions&) = delete;

  /// The memory of the process, which can be registered from now on though it is not shared.
  void set_process(std::shared_ptr<memory::ProcessMemory> process) {
    process_ = std::move(process);
  }
  bool reaches_process() const { return process_ != nullptr; }
  std::uint32_t size() const { return pds_.regions().size(); }

  int register_mr(const RequestBody& body, Reply& reply);
  int alloc_null_mr(const RequestBody& body, Reply& reply);
  int reregister_mr(const RequestBody& body, Reply& reply);
  int deregister_mr(const RequestBody& body, Reply& reply);
  int import_mr(const RequestBody& body, Reply& reply);

 private:
  /// The extents of a request, with the buffers they name, which are idle afterwards if the request
  /// fails.
  struct Extents {
    std::vector<abi::MrExtent> all;
    std::vector<std::shared_ptr<memory::SharedBuffer>> buffers;  ///< of each; null: none
  };
  template <class Head>
  bool read_extents(const RequestBody& body, std::uint32_t count, Extents& extents);
  int add(const Extents& extents, memory::RegionSpec& spec) const;
  int change_spec(const abi::ReregisterMrRequest& request, const Extents& extents,
                  memory::RegionSpec& spec) const;
  int install(std::unique_ptr<memory::Region> region, std::unique_ptr<Mr> mr, Reply& reply);
  std::unique_ptr<memory::Region> remove(engine::Engine& engine, const Mr& mr) const;

  const SessionContext& context_;
  ProtectionDomains& pds_;
  SharedBuffers& buffers_;
  std::shared_ptr<memory::ProcessMemory> process_;  ///< null: out of reach
};

}  // namespace softhca::control
