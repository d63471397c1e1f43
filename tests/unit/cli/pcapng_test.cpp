// SPDX-License-Identifier: Apache-2.0

// The pcapng writer, against the layout of the blocks as the draft has it.
#include "cli/ctl/pcapng.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace softhca::cli {
namespace {

struct Block {
  std::uint32_t type;
  std::string body;

  std::uint32_t word(std::size_t at) const {
    std::uint32_t value = 0;
    if (at + sizeof value <= body.size()) std::memcpy(&value, body.data() + at, sizeof value);
    return value;
  }
  /// Those that begin at `at`, by code.
  std::map<int, std::string> options(std::size_t at) const {
    std::map<int, std::string> found;
    while (at + 4 <= body.size()) {
      std::uint16_t code, length;
      std::memcpy(&code, body.data() + at, 2);
      std::memcpy(&length, body.data() + at + 2, 2);
      if (code == 0) {
        EXPECT_EQ(length, 0);
        EXPECT_EQ(at + 4, body.size()) << "something behind the end of the options";
        return found;
      }
      found[code] = body.substr(at + 4, length);
      at += 4 + (length + 3u) / 4 * 4;
    }
    ADD_FAILURE() << "no end of the options";
    return found;
  }
};

class Pcapng : public ::testing::Test {
 protected:
  /// All that was written.
  std::vector<Block> blocks() {
    std::fflush(file.get());
    const std::string_view all(text, size);
    std::vector<Block> out;
    for (std::size_t at = 0; at < all.size();) {
      std::uint32_t head[2], tail;
      std::memcpy(head, all.data() + at, sizeof head);
      if (head[1] % 4 != 0 || head[1] < 12 || at + head[1] > all.size()) {
        ADD_FAILURE() << "a block of " << head[1] << " bytes";
        break;
      }
      std::memcpy(&tail, all.data() + at + head[1] - 4, sizeof tail);
      EXPECT_EQ(tail, head[1]);
      out.push_back({head[0], std::string(all.substr(at + 8, head[1] - 12))});
      at += head[1];
    }
    return out;
  }
  static std::span<const std::byte> bytes(std::string_view of) {
    return std::as_bytes(std::span(of));
  }

  struct Closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  char* text = nullptr;
  std::size_t size = 0;
  std::unique_ptr<std::FILE, Closer> file{::open_memstream(&text, &size)};
  PcapngWriter writer{file.get(), "a test"};

  ~Pcapng() override {
    file.reset();
    std::free(text);
  }
};

TEST_F(Pcapng, BeginsWithASection) {
  const auto all = blocks();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].type, 0x0a0d0d0au);
  EXPECT_EQ(all[0].word(0), 0x1a2b3c4du);
  EXPECT_EQ(all[0].word(4), 1u) << "version 1.0";
  EXPECT_EQ(all[0].word(8), ~0u);
  EXPECT_EQ(all[0].options(16).at(4), "a test");
}

TEST_F(Pcapng, NamesInterfaces) {
  EXPECT_EQ(writer.add_interface("web", "on the wire", 0), 0u);
  EXPECT_EQ(writer.add_interface("web local", "inside", 96), 1u);
  const auto all = blocks();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2].type, 1u);
  EXPECT_EQ(all[2].word(0), 1u) << "Ethernet";
  EXPECT_EQ(all[2].word(4), 96u);
  const auto options = all[2].options(8);
  EXPECT_EQ(options.at(2), "web local");
  EXPECT_EQ(options.at(3), "inside");
  EXPECT_EQ(options.at(9), std::string(1, 9)) << "nanoseconds";
}

TEST_F(Pcapng, PacketsOfAllLengths) {
  writer.add_interface("web", "", 0);
  const std::string data = "0123456789";
  for (std::size_t n = 0; n < 6; ++n)
    writer.add_packet({.interface_id = 0,
                       .time = 0x123456789abcdef0,
                       .bytes = bytes(data).first(n),
                       .length = 1500,
                       .direction = PcapngWriter::Direction::kOutbound,
                       .comment = {}});
  const auto all = blocks();
  ASSERT_EQ(all.size(), 8u);
  for (std::size_t n = 0; n < 6; ++n) {
    const Block& packet = all[2 + n];
    EXPECT_EQ(packet.type, 6u);
    EXPECT_EQ(packet.word(0), 0u);
    EXPECT_EQ(packet.word(4), 0x12345678u) << "the upper half first";
    EXPECT_EQ(packet.word(8), 0x9abcdef0u);
    EXPECT_EQ(packet.word(12), n);
    EXPECT_EQ(packet.word(16), 1500u);
    EXPECT_EQ(packet.body.substr(20, n), data.substr(0, n));
    const auto options = packet.options(20 + (n + 3) / 4 * 4);
    EXPECT_EQ(options.at(2), std::string("\2\0\0\0", 4)) << "outbound";
    EXPECT_FALSE(options.contains(1));
  }
}

TEST_F(Pcapng, Comments) {
  writer.add_interface("web", "", 0);
  writer.add_packet({.interface_id = 0,
                     .time = 0,
                     .bytes = bytes("abc"),
                     .length = 3,
                     .direction = PcapngWriter::Direction::kInbound,
                     .comment = "dropped: bad_icrc"});
  EXPECT_EQ(blocks().back().options(24).at(1), "dropped: bad_icrc");
  EXPECT_EQ(blocks().back().options(24).at(2), std::string("\1\0\0\0", 4)) << "inbound";
}

TEST_F(Pcapng, WhatWasLost) {
  writer.add_interface("web", "", 0);
  writer.add_statistics(0, 5, 10, 3);
  const Block last = blocks().back();
  EXPECT_EQ(last.type, 5u);
  EXPECT_EQ(last.word(8), 5u);
  const auto options = last.options(12);
  EXPECT_EQ(options.at(4), std::string("\12\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(options.at(5), std::string("\3\0\0\0\0\0\0\0", 8));
}

}  // namespace
}  // namespace softhca::cli
