// SPDX-License-Identifier: Apache-2.0

// Reads classic pcap files (little endian, link type Ethernet). For tests: throws on anything odd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace softhca::test {

using Bytes = std::vector<std::byte>;

inline std::vector<Bytes> read_pcap(const std::filesystem::path& path) {
  constexpr std::size_t kFileHeader = 24;
  constexpr std::size_t kRecordHeader = 16;
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> raw((std::istreambuf_iterator<char>(in)), {});
  const auto word = [&](std::size_t at) {
    if (at + 4 > raw.size()) throw std::runtime_error(path.string() + ": cut short");
    std::uint32_t v;
    std::memcpy(&v, &raw[at], sizeof v);
    return v;
  };
  if (word(0) != 0xa1b2c3d4 || word(20) != 1)
    throw std::runtime_error(path.string() + ": not a little-endian Ethernet pcap");
  std::vector<Bytes> frames;
  for (std::size_t at = kFileHeader; at < raw.size();) {
    const std::uint32_t captured = word(at + 8);
    if (captured != word(at + 12) || at + kRecordHeader + captured > raw.size())
      throw std::runtime_error(path.string() + ": frame cut short");
    const auto* data = reinterpret_cast<const std::byte*>(raw.data()) + at + kRecordHeader;
    frames.emplace_back(data, data + captured);
    at += kRecordHeader + captured;
  }
  return frames;
}

inline std::filesystem::path capture_directory() { return SOFTHCA_CAPTURES; }

inline std::vector<Bytes> read_capture(const std::string& file) {
  return read_pcap(capture_directory() / file);
}

/// Every frame of every capture.
inline std::vector<Bytes> all_captured_frames() {
  std::vector<Bytes> all;
  for (const auto& entry : std::filesystem::directory_iterator(capture_directory()))
    if (entry.path().extension() == ".pcap")
      for (Bytes& frame : read_pcap(entry.path())) all.push_back(std::move(frame));
  return all;
}

}  // namespace softhca::test
