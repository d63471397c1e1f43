// Memory regions of a session; those of a device file are of all sessions that have the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
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
  ~MemoryRegions() { end(Turn::endless()); }
  MemoryRegions(const MemoryRegions&) = delete;
  MemoryRegions& operator=(const MemoryRegions&) = delete;

  /// Goes on with the end of the session. True: none is left; false: the turn is over.
  bool end(const Turn& turn);

  /// The memory of the process, which can be registered from now on though it is not shared.
  void set_process(std::shared_ptr<memory::ProcessMemory> process) {
    process_ = std::move(process);
  }
  bool has_process() const { return process_ != nullptr; }
  /// True if a region is reached by that memory.
  bool uses_process() const { return process_.use_count() > 1; }
  std::uint32_t size() const { return pds_.regions().size(); }

  /// kUnfinished: when what to_seal() gives is sealed, or for the next of the pages to be mapped,
  /// which takes 0.2 s for each GiB of them. The same request is to come next.
  int register_mr(const RequestBody& body, Reply& reply);
  int reregister_mr(const RequestBody& body, Reply& reply);
  /// Descriptors of the shared memory that an unfinished request names, to be sealed
  /// (SealedMemory::seal_holes) before it goes on, and what is to end with them.
  std::pair<std::vector<UniqueFd>, std::vector<std::shared_ptr<void>>> to_seal();

  int alloc_null_mr(const RequestBody& body, Reply& reply);
  int deregister_mr(const RequestBody& body, Reply& reply);
  int import_mr(const RequestBody& body, Reply& reply);

 private:
  /// The extents of a request, with the buffers they name, which are idle afterwards if the request
  /// fails.
  struct Extents {
    std::vector<abi::MrExtent> all;
    std::vector<std::shared_ptr<memory::SharedBuffer>> buffers;  ///< of each; null: none
  };
  /// A region that is allowed, checked and charged, and whose pages are being mapped.
  struct Registration {
    Extents extents;
    std::unique_ptr<memory::Region> region;
    std::unique_ptr<Mr> mr;      ///< of the request, or what changes of the one there is
    std::uint64_t replaces = 0;  ///< serial of the region there is
    std::size_t extent = 0;      ///< the next to be mapped
    std::uint64_t offset = 0;    ///< and from where in it
  };
  Expected<Registration> begin(const abi::RegisterMrRequest& request, Extents extents);
  Expected<Registration> begin(const abi::ReregisterMrRequest& request, Extents extents);
  bool map_some(Registration& at) const;
  template <class Request>
  int advance(const RequestBody& body, const Request& request, std::uint32_t count,
              Registration& done);
  template <class Head>
  bool read_extents(const RequestBody& body, std::uint32_t count, Extents& extents);
  int add(const Extents& extents, memory::RegionSpec& spec) const;
  int change_spec(const abi::ReregisterMrRequest& request, const Extents& extents,
                  memory::RegionSpec& spec) const;
  bool charge_extents(const Extents& extents, resource::Charge& charge) const;
  int install(std::unique_ptr<memory::Region> region, std::unique_ptr<Mr> mr, Reply& reply);
  std::unique_ptr<memory::Region> remove(engine::Engine& engine, const Mr& mr) const;

  const SessionContext& context_;
  ProtectionDomains& pds_;
  SharedBuffers& buffers_;
  std::shared_ptr<memory::ProcessMemory> process_;  ///< null: out of reach
  std::optional<Registration> registration_;        ///< of the unfinished request
};

}  // namespace softhca::control
