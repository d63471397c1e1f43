// SPDX-License-Identifier: Apache-2.0

// Makes a session of an earlier adapter again, and its objects, from their records.
#pragma once

#include "daemon/base/expected.hpp"
#include "daemon/device/session/device_session.hpp"
#include "daemon/live_records/record_store.hpp"

namespace softhca::control {

/// Call it before the first request of the session. The records are of this session.
class SessionRestorer {
 public:
  explicit SessionRestorer(DeviceSession& session) : session_(session) {}

  /// Opens the session. Errors: EBADMSG, the record does not fit.
  Outcome open(records::Adopted& record);
  /// Makes the monitor of a virtual machine, before the sessions of its programs. Returns false if
  /// its record does not fit.
  bool restore_monitor(const record::Machine& kept, records::Record record);
  /// Makes an object. Returns false if its record does not fit.
  bool restore(records::Adopted& object);
  /// Does the same for a region of the device file.
  bool restore_region(records::Adopted& region, const MrObjects::Earlier& earlier);
  /// From now on the limits hold.
  void finish();
  /// The earlier adapter, which crashed, may have done what the next request asks for.
  void expect_repetition() { session_.context_.set_repeats(true); }
  bool expects_repetition() const { return session_.context_.repeats(); }
  void skip_repetition() { session_.context_.set_repeats(false); }

  PdObjects& protection_domains() const { return session_.pds_; }
  SharedBuffers& buffers() const { return session_.buffers_; }
  MrObjects& regions() const { return session_.regions_; }
  QpObjects& queue_pairs() const { return session_.qps_; }
  const std::shared_ptr<memory::Machine>& machine() const { return session_.context_.machine(); }

 private:
  Subject subject() const { return {Subject::Kind::kConnection, session_.context_.record_key()}; }
  bool restore_offered(const record::OfferedMemory& kept, records::Record record);
  bool restore_in_machine(const record::OfferedMemory& kept, records::Record record);

  DeviceSession& session_;
};

}  // namespace softhca::control
