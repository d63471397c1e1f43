// Memory that the daemon makes for a process to share: what lies in such a buffer is registered in
// place.
#pragma once

#include <memory>

#include "daemon/control/session/context.hpp"
#include "daemon/control/sockets/message.hpp"
#include "daemon/memory/shared_buffer.hpp"

namespace softhca::control {

class SharedBuffers {
 public:
  explicit SharedBuffers(const SessionContext& context);

  int alloc(const RequestBody& body, Reply& reply);
  int free(const RequestBody& body, Reply& reply);

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
  memory::SharedBufferPool buffers_;
};

}  // namespace softhca::control
