// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/ud_probe.hpp"

#include "daemon/base/endian.hpp"

namespace softhca::wire {
namespace {

/// Offset of the attribute (IBA 16.1.2).
constexpr std::size_t kCounted = 64;
constexpr std::size_t kMarkAt = kCounted;
constexpr std::size_t kSinceAt = kCounted + 4;
constexpr std::size_t kPacketsAt = kCounted + 8;
constexpr std::size_t kBytesAt = kCounted + 16;

MadHeader header_of(MadMethod method, std::uint64_t id) {
  return {.management_class = ManagementClass::kPerformance,
          .method = method,
          .transaction_id = id,
          .attribute_id = kDatagramsReceived};
}

std::optional<MadHeader> decode_probe(std::span<const std::byte> mad, MadMethod method) {
  auto header = decode_mad_header(mad);
  if (!header || header->management_class != ManagementClass::kPerformance ||
      header->method != method || header->attribute_id != kDatagramsReceived)
    return std::nullopt;
  return header;
}

}  // namespace

Mad encode(const DatagramQuestion& question) {
  Mad mad{};
  encode(header_of(MadMethod::kGet, question.id), mad);
  mad[kMarkAt] = std::byte{question.mark};
  return mad;
}

Mad encode(const DatagramAnswer& answer) {
  Mad mad{};
  MadHeader header = header_of(MadMethod::kGetResponse, answer.id);
  if (!answer.counts) header.status = MadStatus::kBusy;
  encode(header, mad);
  mad[kMarkAt] = std::byte{answer.mark};
  store_be(&mad[kSinceAt], answer.since);
  store_be(&mad[kPacketsAt], answer.packets);
  store_be(&mad[kBytesAt], answer.bytes);
  return mad;
}

std::optional<DatagramQuestion> decode_datagram_question(std::span<const std::byte> mad) {
  const auto header = decode_probe(mad, MadMethod::kGet);
  if (!header) return std::nullopt;
  return DatagramQuestion{header->transaction_id, std::to_integer<std::uint8_t>(mad[kMarkAt])};
}

std::optional<DatagramAnswer> decode_datagram_answer(std::span<const std::byte> mad) {
  const auto header = decode_probe(mad, MadMethod::kGetResponse);
  if (!header) return std::nullopt;
  DatagramAnswer answer{.id = header->transaction_id,
                        .mark = std::to_integer<std::uint8_t>(mad[kMarkAt])};
  if (header->status != MadStatus::kOk) return answer;
  answer.counts = true;
  answer.since = load_be<std::uint32_t>(&mad[kSinceAt]);
  answer.packets = load_be<std::uint64_t>(&mad[kPacketsAt]);
  answer.bytes = load_be<std::uint64_t>(&mad[kBytesAt]);
  return answer;
}

}  // namespace softhca::wire
