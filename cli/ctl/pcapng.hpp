// SPDX-License-Identifier: Apache-2.0

// Writes pcapng (draft-ietf-opsawg-pcapng): Ethernet interfaces with nanosecond time stamps,
// packets with comments, and statistics of drops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace softhca::cli {

class PcapngWriter {
 public:
  enum class Direction : std::uint32_t { kInbound = 1, kOutbound = 2 };

  struct Packet {
    std::uint32_t interface_id = 0;
    std::uint64_t time = 0;  ///< nanoseconds since 1970-01-01 00:00 UTC
    std::span<const std::byte> bytes;
    std::uint32_t length = 0;  ///< of the whole frame
    Direction direction = Direction::kInbound;
    std::string_view comment;  ///< empty: none
  };

  /// Begins a section. `file` must outlive the writer. ferror() reports failures.
  PcapngWriter(std::FILE* file, std::string_view application);

  /// Adds an interface and returns its number, from 0 up.
  std::uint32_t add_interface(std::string_view name, std::string_view description,
                              std::uint32_t snaplen);
  /// Adds a packet. REQUIRES: the interface has been added.
  void add_packet(const Packet& packet);
  void add_statistics(std::uint32_t interface_id, std::uint64_t time, std::uint64_t received,
                      std::uint64_t dropped);

 private:
  void number(std::uint32_t value);
  void number64(std::uint64_t value);
  void time(std::uint64_t value);
  void padded(const void* bytes, std::size_t length);
  void option(std::uint16_t code, const void* bytes, std::size_t length);
  void option(std::uint16_t code, std::string_view text) { option(code, text.data(), text.size()); }
  void end_options();
  void write(std::uint32_t type);

  std::FILE* file_;
  std::string body_;  ///< of the current block
  std::uint32_t interfaces_ = 0;
};

}  // namespace softhca::cli
