// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/connections/admission_control.hpp"

#include <cerrno>
#include <utility>

namespace softhca::management::rdma_cm {

namespace {

/// Returns the peer for counting. All peers with unverified addresses count as one.
Gid counted_as(const cm::Path& path) {
  return path.standing == cm::Standing::kUnknown ? Gid{} : path.remote;
}

}  // namespace

bool AdmissionControl::rate_allows(Time now, cm::Standing peer) {
  if (rate_.take(limits_.connects_per_second, now, peer == cm::Standing::kUnknown)) return true;
  environment_.note_refused(Refusal::kConnectRate);
  return false;
}

int AdmissionControl::check_rate(const ChannelCommand& command) {
  if (rate_allows(command.now)) return 0;
  return command.refuse(
      EAGAIN, "tenant limit of %u connections per second reached (connections.connects_per_second)",
      limits_.connects_per_second);
}

int AdmissionControl::admit(const ChannelCommand& command, Identifier& id) {
  const std::string& level = command.channel.owner.level;
  if (!admission_.take(level)) {
    environment_.note_refused(Refusal::kAdmission);
    return command.refuse(ENOBUFS,
                          "the tenant has %u connections, and its guarantees carry no more",
                          admission_.admitted());
  }
  id.connection.admitted = level;
  const int error = check_rate(command);
  if (error != 0) give_back(id);
  return error;
}

/// Checks admission first: refused requests do not count towards the connects per second.
bool AdmissionControl::admit_request(const std::string& level, const cm::Path& path, Time now,
                                     cm::Answer& why) {
  const Gid peer = counted_as(path);
  switch (admission_.take_half_open(level, path.remote, peer, now)) {
    case ConnectionAdmission::Verdict::kTaken:
      break;
    case ConnectionAdmission::Verdict::kNotCarried:
      environment_.note_refused(Refusal::kAdmission);
      environment_.note_reject_sent(wire::CmRejectReason::kNoResources);
      why = cm::Answer::refuse(wire::CmRejectReason::kNoResources);
      return false;
    case ConnectionAdmission::Verdict::kLater:
      environment_.note_refused(Refusal::kPeers);
      return false;
  }
  if (rate_allows(now, path.standing)) return true;
  admission_.close_half(level, peer);
  admission_.give_back(level);
  return false;
}

void AdmissionControl::admitted(Identifier& request, const std::string& level,
                                const cm::Path& path) {
  request.connection.admitted = level;
  request.connection.half_open = counted_as(path);
}

void AdmissionControl::close_half(Identifier& id) {
  if (const auto peer = std::exchange(id.connection.half_open, std::nullopt))
    admission_.close_half(*id.connection.admitted, *peer);
}

void AdmissionControl::give_back(Identifier& id) {
  if (!id.connection.admitted) return;
  close_half(id);
  admission_.give_back(*id.connection.admitted);
  id.connection.admitted.reset();
}

void AdmissionControl::connection_over(Identifier& id) {
  id.connection.id.reset();
  give_back(id);
}

}  // namespace softhca::management::rdma_cm
