// SPDX-License-Identifier: Apache-2.0

// A session in the engine: its VCBs, the memory that process and engine share, and the ways by
// which each notifies the other.
#pragma once

#include <memory>

#include "daemon/base/kept.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/device/session/vcb_grant.hpp"

namespace softhca::control {

class Attachment {
 public:
  Attachment(Adapter& adapter, SessionContext& context)
      : adapter_(adapter), context_(context), vcbs_(adapter, context.tenant()) {}
  ~Attachment() { close(); }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  /// Charges the tenant again for the session. Returns 0 or ENOMEM.
  int charge();
  /// Installs the session in the engine, which does not read its memory yet. Returns 0 with a
  /// complete `reply`, or an errno value. After an error it may be tried again. REQUIRES: it is
  /// charged, and not open. `version`: of the protocol. `kept`: for the record, what the session
  /// knows of it.
  int open(engine::Level* level, std::uint32_t version, const record::Session& kept, Reply& reply);
  /// Does the same as an earlier adapter did. The engine reads the memory at once if the process
  /// can no longer free any of it. Errors: EBADMSG, the record does not fit.
  Outcome restore(const record::Session& kept, engine::Level* level, KeptId vcb_pages,
                  records::Record record);
  /// Returns the descriptor of the memory that open() announced to the process, which has mapped
  /// it. Seal it (SealedMemory::seal_holes) before begin(). Empty: this has been done.
  DescriptorToSeal to_seal() { return is_open() ? memory_.take_to_seal() : DescriptorToSeal(); }
  /// Lets the engine read the memory from now on, as the process can no longer free any of it. Does
  /// nothing if it was called before.
  void begin();

  /// Removes the session from the engine, if it is open. REQUIRES: its objects are removed from the
  /// engine.
  void close();

  bool is_open() const { return session_ != nullptr; }
  /// True if begin() was called.
  bool has_begun() const { return begun_; }
  /// Returns the engine's session. Null: it is not open.
  engine::Session* session() const { return session_.get(); }
  VcbGrant& vcbs() { return vcbs_; }
  const VcbGrant& vcbs() const { return vcbs_; }
  /// Raises an event of the port or its addresses. Does nothing if the session is not open.
  void raise(engine::EventType type, std::uint8_t port);

 private:
  Outcome make_memory();
  int make_ways(Reply& reply);
  shm::SessionView::Places places() const {
    if (vcb_pages_.base() == nullptr) return memory_.base();
    return {memory_.base(), vcb_pages_.base()};
  }
  Outcome keep(const engine::Level* level, record::Session kept);
  void install(engine::Level* level, SessionId id, shm::SessionView view);

  Adapter& adapter_;
  SessionContext& context_;
  configuration::Charge charge_;
  configuration::Charge mapping_;
  VcbGrant vcbs_;
  SealedMemory memory_;
  SealedMemory vcb_pages_;  ///< of a process in a virtual machine; else behind `memory_`
  UniqueFd wake_;
  Kept kept_wake_;
  std::unique_ptr<EventEnd> async_;
  records::Record record_;
  std::unique_ptr<engine::Session> session_;
  bool begun_ = false;
};

}  // namespace softhca::control
