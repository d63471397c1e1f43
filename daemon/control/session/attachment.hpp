// A session as the engine knows it: its VCBs, the memory in which process and engine meet, and the
// descriptors by which each tells the other of something.
#pragma once

#include <memory>

#include "daemon/base/sealed_memory.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/control/session/context.hpp"
#include "daemon/control/session/vcb_grant.hpp"
#include "daemon/control/sockets/message.hpp"

namespace softhca::control {

class Attachment {
 public:
  Attachment(Adapter& adapter, SessionContext& context)
      : adapter_(adapter), context_(context), vcbs_(adapter, context.tenant()) {}
  ~Attachment() { close(); }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  /// Charges the tenant anew with what a session counts as. 0 or ENOMEM.
  int charge();
  /// Installs the session in the engine, which does not look at its memory yet. 0, with `reply`
  /// complete, or an errno value, after which it may be tried again. REQUIRES: it is charged, and
  /// not open.
  int open(engine::Level* level, Reply& reply);
  /// The descriptor of the memory that open() told the process of, which has mapped it. To be
  /// sealed (SealedMemory::seal_holes) before begin() is called. Empty: that has been done.
  UniqueFd to_seal() { return is_open() ? memory_.take_fd() : UniqueFd(); }
  /// The process can give none of the memory back, and the engine takes in what it finds there from
  /// now on. Nothing happens if that is so already.
  void begin();

  /// Removes the session from the engine, if it is open. REQUIRES: its objects are gone from there.
  void close();

  bool is_open() const { return session_ != nullptr; }
  /// begin() has been called.
  bool has_begun() const { return begun_; }
  /// Null: it is not open.
  engine::Session* session() const { return session_.get(); }
  VcbGrant& vcbs() { return vcbs_; }
  const VcbGrant& vcbs() const { return vcbs_; }
  /// Raises an event of the port or of its addresses. Nothing happens if the session is not open.
  void raise(engine::EventType type);

 private:
  int make_descriptors(Reply& reply);
  void install(engine::Level* level);

  Adapter& adapter_;
  SessionContext& context_;
  resource::Charge charge_;
  resource::Charge mapping_;
  VcbGrant vcbs_;
  SealedMemory memory_;
  UniqueFd wake_;
  PeerSocket async_;
  std::unique_ptr<engine::Session> session_;
  bool begun_ = false;
};

}  // namespace softhca::control
