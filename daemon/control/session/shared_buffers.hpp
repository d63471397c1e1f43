// Memory that the daemon makes for a process to share: what lies in such a buffer is registered in
// place.
#pragma once

#include <memory>
#include <utility>

#include "daemon/base/unique_fd.hpp"
#include "daemon/control/session/context.hpp"
#include "daemon/control/session/shared_names.hpp"
#include "daemon/control/sockets/message.hpp"
#include "daemon/memory/shared_buffer.hpp"

namespace softhca::control {

class SharedBuffers {
 public:
  SharedBuffers(const SessionContext& context, SharedNames& names);

  /// As QueuePairs::end().
  bool end(const Turn& turn);

  int alloc(const RequestBody& body, Reply& reply);
  int free(const RequestBody& body, Reply& reply);
  /// kUnfinished: when what to_seal() gives is sealed. The same request is to come next.
  int name(const RequestBody& body, Reply& reply);
  int join(const RequestBody& body, Reply& reply);
  /// As MemoryRegions::to_seal(), of what is to be named; an empty descriptor: nothing.
  std::pair<UniqueFd, std::shared_ptr<void>> to_seal();

  /// Null: there is none.
  std::shared_ptr<memory::SharedBuffer> acquire(std::uint32_t handle) {
    return buffers_.acquire(handle);
  }

  // Bytes of the buffers that nothing is registered in.
  std::uint64_t idle_bytes() const { return buffers_.idle_bytes(); }
  std::uint64_t idle_count() const { return buffers_.idle_count(); }
  void give_up_oldest() { buffers_.give_up_oldest(); }

 private:
  const SessionContext& context_;
  SharedNames& names_;
  std::shared_ptr<memory::SharedBuffer> to_name_;  ///< when it is sealed
  memory::SharedBufferPool buffers_;
};

}  // namespace softhca::control
