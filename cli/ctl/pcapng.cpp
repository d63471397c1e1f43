// SPDX-License-Identifier: Apache-2.0

#include "cli/ctl/pcapng.hpp"

namespace softhca::cli {
namespace {

constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kInterfaceStatistics = 5;
constexpr std::uint32_t kEnhancedPacket = 6;

constexpr std::uint32_t kByteOrder = 0x1a2b3c4d;
constexpr std::uint32_t kVersion = 1;  // major 1, minor 0
constexpr std::uint64_t kUnknownLength = ~std::uint64_t{0};
constexpr std::uint32_t kEthernet = 1;

constexpr std::uint16_t kEndOfOptions = 0, kComment = 1, kApplication = 4;
constexpr std::uint16_t kName = 2, kDescription = 3, kTimeResolution = 9;
constexpr std::uint16_t kFlags = 2, kReceived = 4, kDropped = 5;
constexpr std::uint8_t kNanoseconds = 9;
/// Most bytes of a text; readers need no longer ones.
constexpr std::size_t kMostText = 1024;

constexpr std::size_t padding(std::size_t length) { return (0 - length) & 3; }

}  // namespace

PcapngWriter::PcapngWriter(std::FILE* file, std::string_view application) : file_(file) {
  number(kByteOrder);
  number(kVersion);
  number64(kUnknownLength);
  option(kApplication, application);
  end_options();
  write(kSectionHeader);
}

std::uint32_t PcapngWriter::add_interface(std::string_view name, std::string_view description,
                                          std::uint32_t snaplen) {
  number(kEthernet);  // and a reserved half
  number(snaplen);
  option(kName, name.substr(0, kMostText));
  option(kDescription, description.substr(0, kMostText));
  option(kTimeResolution, &kNanoseconds, sizeof kNanoseconds);
  end_options();
  write(kInterfaceDescription);
  return interfaces_++;
}

void PcapngWriter::add_packet(const Packet& packet) {
  number(packet.interface_id);
  time(packet.time);
  number(static_cast<std::uint32_t>(packet.bytes.size()));
  number(packet.length);
  padded(packet.bytes.data(), packet.bytes.size());
  if (!packet.comment.empty()) option(kComment, packet.comment.substr(0, kMostText));
  const auto flags = static_cast<std::uint32_t>(packet.direction);
  option(kFlags, &flags, sizeof flags);
  end_options();
  write(kEnhancedPacket);
}

void PcapngWriter::add_statistics(std::uint32_t interface_id, std::uint64_t when,
                                  std::uint64_t received, std::uint64_t dropped) {
  number(interface_id);
  time(when);
  option(kReceived, &received, sizeof received);
  option(kDropped, &dropped, sizeof dropped);
  end_options();
  write(kInterfaceStatistics);
}

void PcapngWriter::number(std::uint32_t value) {
  body_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void PcapngWriter::number64(std::uint64_t value) {
  body_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Appends a time. The upper half comes first in any byte order.
void PcapngWriter::time(std::uint64_t value) {
  number(static_cast<std::uint32_t>(value >> 32));
  number(static_cast<std::uint32_t>(value));
}

void PcapngWriter::padded(const void* bytes, std::size_t length) {
  body_.append(static_cast<const char*>(bytes), length);
  body_.append(padding(length), '\0');
}

void PcapngWriter::option(std::uint16_t code, const void* bytes, std::size_t length) {
  // Both in the byte order of the machine.
  const std::uint16_t head[] = {code, static_cast<std::uint16_t>(length)};
  body_.append(reinterpret_cast<const char*>(head), sizeof head);
  padded(bytes, length);
}

void PcapngWriter::end_options() { number(kEndOfOptions); }

/// Writes the block, with its type and its length at both ends.
void PcapngWriter::write(std::uint32_t type) {
  const auto length = static_cast<std::uint32_t>(3 * sizeof(std::uint32_t) + body_.size());
  const std::uint32_t head[] = {type, length};
  std::fwrite(head, sizeof head, 1, file_);
  std::fwrite(body_.data(), 1, body_.size(), file_);
  std::fwrite(&length, sizeof length, 1, file_);
  body_.clear();
}

}  // namespace softhca::cli
