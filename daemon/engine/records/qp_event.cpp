// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/records/qp_event.hpp"

#include <cstdio>

#include "daemon/base/verdict.hpp"
#include "daemon/engine/records/qp_failure.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/headers.hpp"

namespace softhca::engine {
namespace {

struct KindWords {
  const char* name;
  const char* text;
};

constexpr std::array<KindWords, static_cast<std::size_t>(QpEventKind::kCount)> kKindWords{{
    {"none", ""},
    {"state", ""},
    {"failed", "failed: "},
    {"timeout", "no acknowledgement within the timeout, retries left: "},
    {"early_retry", "no acknowledgement for longer than usual: packet sent again"},
    {"probe", "no answer for two round trips: probe sent"},
    {"response_missed", "a response was lost: request sent again"},
    {"sequence_nak_received", "NAK received: the peer misses a packet"},
    {"nak_received", "NAK received: "},
    {"rnr_nak_received", "RNR NAK received: the peer has no receive; retry after "},
    {"congestion", "congestion notification received: rate reduced to "},
    {"command_failed", "command failed: "},
    {"commands_flushed", "commands flushed"},
    {"sequence_nak_sent", "NAK sent: a packet is missing"},
    {"nak_sent", "NAK sent: "},
    {"rnr_nak_sent", "RNR NAK sent: no receive"},
    {"over_rate", "the peer sends more than its rate"},
    {"duplicate", "duplicate request received"},
    {"out_of_sequence", "request out of sequence received"},
    {"access_refused", "access refused, key "},
    {"bad_request", "packet dropped: "},
    {"receive_missing", "message dropped: no receive"},
    {"receive_failed", "receive failed: "},
    {"receives_flushed", "receives flushed"},
}};

const char* reason_of(transport::Count what) {
  switch (what) {
    case transport::Count::kBadOpcode:
      return "opcode is not valid here";
    case transport::Count::kBadLength:
      return "length does not fit";
    case transport::Count::kBadQkey:
      return "wrong Q_Key";
    default:
      return "malformed";
  }
}

const char* text_of_syndrome(std::uint32_t syndrome) {
  switch (syndrome) {
    case wire::kSyndromeInvalidRequest:
      return "invalid request";
    case wire::kSyndromeRemoteAccess:
      return "remote access error";
    case wire::kSyndromeRemoteOperation:
      return "remote operation error";
    default:
      return "unknown syndrome";
  }
}

std::string text_of_state(std::uint32_t detail) {
  const auto from = static_cast<QpState>(detail >> 8);
  const auto to = static_cast<QpState>(detail & 0xff);
  if (from == to) return std::string("in ") + name_of(to);
  return std::string(name_of(from)) + " to " + name_of(to);
}

/// Returns the text for the detail of an event.
std::string text_of_detail(QpEventKind kind, std::uint32_t detail) {
  char text[32];
  switch (kind) {
    case QpEventKind::kState:
      return text_of_state(detail);
    case QpEventKind::kFailed:
      return text_of(static_cast<QpFailure>(detail));
    case QpEventKind::kCommandFailed:
    case QpEventKind::kReceiveFailed:
      return softhca::name_of(static_cast<Verdict>(detail));
    case QpEventKind::kNakReceived:
    case QpEventKind::kNakSent:
      return text_of_syndrome(detail);
    case QpEventKind::kBadRequest:
      return reason_of(static_cast<transport::Count>(detail));
    case QpEventKind::kTimeout:
      return std::to_string(detail);
    case QpEventKind::kRnrNakReceived:
      return std::to_string(detail) + " us";
    case QpEventKind::kCongestion:
      return std::to_string(detail) + " kB/s";
    case QpEventKind::kAccessRefused:
      std::snprintf(text, sizeof text, "0x%08x", detail);
      return text;
    default:
      return "";
  }
}

}  // namespace

const char* name_of(QpEventKind kind) { return kKindWords[static_cast<std::size_t>(kind)].name; }

std::string text_of(const QpEvent& event) {
  return kKindWords[event.kind_bits].text + text_of_detail(event.kind(), event.detail);
}

}  // namespace softhca::engine
