// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/diagnostics/capture_remarks.hpp"

#include <iterator>

namespace softhca::engine {
namespace {

using transport::Count;

struct OfCount {
  Count count;
  const char* text;
};
constexpr OfCount kOfCounts[] = {
    {Count::kBadOpcode, "dropped: bad_opcode"},
    {Count::kBadState, "dropped: bad_state"},
    {Count::kBadLength, "bad_length: dropped, or refused by a NAK"},
    {Count::kBadQkey, "dropped: bad_qkey"},
    {Count::kRateDropped, "dropped: rate"},
    {Count::kBadAccess, "dropped: access"},
    {Count::kReceiveDropped, "dropped: out_of_buffer"},
    {Count::kGhostAck, "dropped: ghost_response"},
    {Count::kDuplicateRequests, "duplicate_request: not executed again"},
    {Count::kOutOfSequence, "out_of_sequence: dropped, or kept for its turn"},
};

struct OfVerdict {
  Verdict verdict;
  const char* text;
};
constexpr OfVerdict kOfVerdicts[] = {
    {Verdict::kReceiverNotReady, "dropped: receiver not ready"},
    {Verdict::kRemoteInvalidRequest, "refused: remote invalid request error"},
    {Verdict::kRemoteAccess, "refused: remote access error"},
    {Verdict::kRemoteOperation, "refused: remote operation error"},
    {Verdict::kRetryExceeded, "unanswered: no queue pair is connected to this one"},
};

// The list begins with no remark, then the drop reasons of the wire from 1 on, then these groups.
constexpr std::size_t kFrames = static_cast<std::size_t>(wire::DropReason::kCount);
constexpr std::size_t kCounts = kFrames + static_cast<std::size_t>(FrameDrop::kCount);
constexpr std::size_t kVerdicts = kCounts + std::size(kOfCounts);
constexpr std::size_t kUnresolved = kVerdicts + std::size(kOfVerdicts);
constexpr std::size_t kInjected = kUnresolved + 1;
static_assert(kInjected + kFaultKinds <= 256);

constexpr CaptureRemark remark_at(std::size_t index) { return static_cast<CaptureRemark>(index); }

}  // namespace

CaptureRemark remark_of(wire::DropReason reason) {
  return remark_at(static_cast<std::size_t>(reason));
}

CaptureRemark remark_of(FrameDrop reason) {
  return remark_at(kFrames + static_cast<std::size_t>(reason));
}

CaptureRemark remark_of(Count count) {
  for (std::size_t i = 0; i < std::size(kOfCounts); ++i)
    if (kOfCounts[i].count == count) return remark_at(kCounts + i);
  return CaptureRemark::kNone;
}

CaptureRemark remark_of(Verdict verdict) {
  for (std::size_t i = 0; i < std::size(kOfVerdicts); ++i)
    if (kOfVerdicts[i].verdict == verdict) return remark_at(kVerdicts + i);
  return CaptureRemark::kNone;
}

CaptureRemark unresolved_remark() { return remark_at(kUnresolved); }

CaptureRemark injected_remark(FaultKind kind) {
  return remark_at(kInjected + static_cast<std::size_t>(kind));
}

std::vector<std::string> capture_remarks() {
  std::vector<std::string> out{""};
  for (std::size_t i = 1; i < kFrames; ++i)
    out.push_back(std::string("dropped: ") + wire::name(static_cast<wire::DropReason>(i)));
  for (std::size_t i = 0; i < kCounts - kFrames; ++i)
    out.push_back(std::string("dropped: ") + name_of(static_cast<FrameDrop>(i)));
  for (const OfCount& entry : kOfCounts) out.emplace_back(entry.text);
  for (const OfVerdict& entry : kOfVerdicts) out.emplace_back(entry.text);
  out.emplace_back("dropped: unresolved");
  for (std::size_t i = 0; i < kFaultKinds; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    out.push_back(kind == FaultKind::kDrop ? "dropped: injected"
                                           : std::string("injected: ") + name_of(kind));
  }
  return out;
}

DropWatch::DropWatch(const PortDropCounters* port, const TenantCounters* one,
                     const TenantCounters* other, const Counter* lost)
    : port_(port),
      tenants_{one, other},
      lost_(lost),
      lost_before_(lost != nullptr ? lost->value() : 0) {
  if (port_ != nullptr)
    for (std::size_t i = 0; i < kFrameDrops; ++i) frame_[i] = port_->frame[i].value();
  for (std::size_t t = 0; t < tenants_.size(); ++t)
    if (tenants_[t] != nullptr)
      for (std::size_t i = 0; i < counts_[t].size(); ++i)
        counts_[t][i] = tenants_[t]->transport[i].value();
}

CaptureRemark DropWatch::remark() const {
  if (lost_ != nullptr && lost_->value() != lost_before_) return injected_remark(FaultKind::kDrop);
  if (port_ != nullptr)
    for (std::size_t i = 0; i < kFrameDrops; ++i)
      if (frame_[i] != port_->frame[i].value()) return remark_of(static_cast<FrameDrop>(i));
  for (const OfCount& entry : kOfCounts)
    for (std::size_t t = 0; t < tenants_.size(); ++t)
      if (tenants_[t] != nullptr &&
          counts_[t][static_cast<std::size_t>(entry.count)] != tenants_[t]->value(entry.count))
        return remark_of(entry.count);
  return CaptureRemark::kNone;
}

}  // namespace softhca::engine
