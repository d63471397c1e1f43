// SPDX-License-Identifier: Apache-2.0

// The methods `capture.start` and `captures` of the admin socket: packets for `softhcactl capture`.
//
// The answer to `capture.start` carries two descriptors: the memory with the ring
// (abi/capture.hpp), and the write end of a pipe. No process writes to the pipe. The capture lasts
// until all processes that have the write end have closed it, by ending if nothing else. When the
// daemon ends, they find the pipe broken.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <string>

#include "daemon/base/sealed_memory.hpp"
#include "daemon/device/adapter/adapter.hpp"
#include "daemon/engine/diagnostics/captures.hpp"
#include "daemon/operate/admin/admin_methods.hpp"

namespace softhca::control {

class AdminCaptures {
 public:
  explicit AdminCaptures(Adapter& adapter) : adapter_(adapter) {}
  ~AdminCaptures();

  Outcome open();
  /// Adds the methods. This object must outlive them.
  void add_to(AdminMethods& methods);
  /// Returns a descriptor that is readable when serve() has something to do.
  int fd() const { return epoll_.get(); }
  /// Ends a capture if all processes have closed its pipe.
  void serve();

 private:
  struct Entry {
    SealedMemory memory;
    std::unique_ptr<engine::Capture> capture;
    UniqueFd life;  ///< read end of the pipe
    PeerIdentity who;
    engine::CaptureOptions options;
    std::chrono::system_clock::time_point since;
    records::Record record;
    std::list<Entry>::iterator self;
  };

  RpcResult start(const Json& params, const PeerIdentity& caller);
  RpcResult list() const;
  Expected<engine::CaptureOptions> options_of(const Json& params) const;
  RpcResult begin(std::size_t ring_bytes, engine::CaptureOptions options,
                  const PeerIdentity& caller);
  void end(Entry& entry);
  std::string packets_of(const Entry& entry) const;
  void note(const Entry& entry, const char* kind, const char* does);

  Adapter& adapter_;
  UniqueFd epoll_;
  std::list<Entry> entries_;
};

}  // namespace softhca::control
