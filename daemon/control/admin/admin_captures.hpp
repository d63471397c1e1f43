// The methods `capture.start` and `captures` of the admin socket: packets for `softhcactl capture`.
//
// The answer to `capture.start` brings two descriptors: the memory with the ring (abi/capture.hpp),
// and an end of a pipe that nobody writes to. The capture lasts until that end is closed by all who
// have it, however they end; who has it finds it broken when the daemon goes.
#pragma once

#include <chrono>
#include <list>
#include <memory>

#include "daemon/base/sealed_memory.hpp"
#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/admin/admin_methods.hpp"

namespace softhca::control {

class AdminCaptures {
 public:
  explicit AdminCaptures(Adapter& adapter) : adapter_(adapter) {}
  ~AdminCaptures();

  Outcome open();
  /// Must outlive the methods.
  void add_to(AdminMethods& methods);
  /// Readable when serve() has something to do.
  int fd() const { return epoll_.get(); }
  /// Ends a capture that nobody has any more.
  void serve();

 private:
  struct Entry {
    SealedMemory memory;
    std::unique_ptr<engine::Capture> capture;
    UniqueFd life;  ///< our end of the pipe
    PeerIdentity who;
    engine::CaptureOptions options;
    std::chrono::system_clock::time_point since;
    std::list<Entry>::iterator self;
  };

  RpcResult start(const Json& params, const PeerIdentity& caller);
  RpcResult list() const;
  Expected<engine::CaptureOptions> options_of(const Json& params) const;
  RpcResult begin(std::size_t ring_bytes, engine::CaptureOptions options,
                  const PeerIdentity& caller);
  void end(Entry& entry);
  void note(const Entry& entry, const char* kind, const char* does);

  Adapter& adapter_;
  UniqueFd epoll_;
  std::list<Entry> entries_;
};

}  // namespace softhca::control
