// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/roce/transport/text.hpp"

#include <cstdio>

#include "daemon/roce/transport/codes.hpp"
#include "daemon/roce/wire/opcode.hpp"

namespace softhca::transport {
namespace {

std::string aeth_text(const wire::Headers& h) {
  const std::string psn = std::to_string(h.psn.value());
  switch (h.syndrome & 0xe0) {
    case wire::kSyndromeAck:
      return "ACK " + psn;
    case wire::kSyndromeRnr:
      return "RNR " + std::to_string(h.syndrome & 0x1f) + " " + psn;
    default:
      return "NAK " + hex(h.syndrome) + " " + psn;
  }
}

bool counts_credits(std::uint8_t syndrome) {
  return (syndrome & 0xe0) == wire::kSyndromeAck && syndrome != wire::kSyndromeNoCreditLimit;
}

}  // namespace

std::string hex(std::uint64_t v) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(v));
  return text;
}

std::string range(std::uint64_t from, std::uint64_t length) {
  if (length == 0) return "";
  return " [" + std::to_string(from) + "," + std::to_string(from + length) + ")";
}

std::string to_text(RemoteAccess access) {
  constexpr const char* kNames[] = {"write", "read", "atomic", "flush", "flush region"};
  return kNames[static_cast<unsigned>(access)];
}

std::string to_text(const wire::Headers& h, const PayloadSource& payload) {
  using From = PayloadSource::From;
  const wire::OpcodeInfo& info = wire::opcode_info(h.opcode);
  std::string text = std::string(info.name).substr(3) + " " + std::to_string(h.psn.value());
  if (h.opcode == wire::raw(wire::Opcode::kRcAck)) text = aeth_text(h);
  if (info.mask.has_all(wire::kReth))
    text += " " + hex(h.remote_addr) + "+" + std::to_string(h.dma_length);
  if (info.mask.has_all(wire::kAtomicEth))
    text += " " + hex(h.remote_addr) + " " + std::to_string(h.swap_add) + "," +
            std::to_string(h.compare);
  if (info.mask.has_all(wire::kFeth)) text += " flush " + hex(h.flush);
  if (payload.from == From::kRequest) text += range(payload.offset, payload.length);
  if (payload.from == From::kRemote)
    text += " " + hex(payload.addr) + "+" + std::to_string(payload.length);
  if (info.mask.has_all(wire::kAeth)) text += " msn " + std::to_string(h.msn);
  if (info.mask.has_all(wire::kAeth) && counts_credits(h.syndrome))
    text += " credits " + std::to_string(decode_credits(h.syndrome));
  if (info.mask.has_all(wire::kAtomicAckEth)) text += " =" + std::to_string(h.original);
  if (info.mask.has_all(wire::kImmDt)) text += " imm " + hex(h.imm);
  if (info.mask.has_all(wire::kIeth)) text += " key " + hex(h.invalidate.value);
  if (info.mask.has_all(wire::kDeth))
    text += " from " + std::to_string(h.source.value) + " qkey " + hex(h.qkey);
  if (h.solicited) text += " !";
  if (h.ack_request) text += " ?";
  return text;
}

std::string to_text(const ReceiveCompletion& c) {
  std::string text = to_text(c.verdict);
  if (c.verdict != Verdict::kOk) return text;
  text += " " + std::to_string(c.byte_len) + " bytes";
  if (c.from_write) text += " written";
  if (c.has_imm) text += " imm " + hex(c.imm);
  if (c.invalidated) text += " key " + hex(c.imm);
  if (c.solicited) text += " !";
  if (c.has_grh) text += " grh from " + std::to_string(c.source.value);
  return text;
}

std::string to_text(Verdict v) {
  switch (v) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kBusy:
      return "busy";
    case Verdict::kLocalLength:
      return "local-length";
    case Verdict::kLocalQpOperation:
      return "local-qp-operation";
    case Verdict::kLocalProtection:
      return "local-protection";
    case Verdict::kFlushed:
      return "flushed";
    case Verdict::kBadResponse:
      return "bad-response";
    case Verdict::kWindowBind:
      return "window-bind";
    case Verdict::kRemoteInvalidRequest:
      return "remote-invalid-request";
    case Verdict::kRemoteAccess:
      return "remote-access";
    case Verdict::kRemoteOperation:
      return "remote-operation";
    case Verdict::kRetryExceeded:
      return "retry-exceeded";
    case Verdict::kRnrRetryExceeded:
      return "rnr-retry-exceeded";
    case Verdict::kReceiverNotReady:
      return "receiver-not-ready";
  }
  return "?";
}

std::string to_text(AsyncEvent e) {
  switch (e) {
    case AsyncEvent::kCommunicationEstablished:
      return "established";
    case AsyncEvent::kQpFatal:
      return "qp-fatal";
    case AsyncEvent::kInvalidRequest:
      return "invalid-request";
    case AsyncEvent::kAccessError:
      return "access-error";
  }
  return "?";
}

}  // namespace softhca::transport
