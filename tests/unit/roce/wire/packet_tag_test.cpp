// SPDX-License-Identifier: Apache-2.0

// Tags of packets against the definition, with the library's own GMAC and AES, and against what may
// happen to a packet on its way.
#include "daemon/roce/wire/packet_tag.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <string_view>

#include "daemon/base/endian.hpp"
#include "tests/unit/roce/wire/rebuild.hpp"

namespace softhca::wire {
namespace {

using test::build;
using test::Bytes;
using test::counting_payload;

Bytes bytes_of(std::string_view hex) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

const unsigned char* raw_bytes(const Bytes& bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw_bytes(Bytes& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

Bytes gmac(const Bytes& key, const Bytes& nonce, const Bytes& text) {
  EVP_CIPHER_CTX* c = EVP_CIPHER_CTX_new();
  int length = 0;
  Bytes rest(16), tag(16);
  EXPECT_EQ(EVP_EncryptInit_ex(c, EVP_aes_128_gcm(), nullptr, raw_bytes(key), raw_bytes(nonce)), 1);
  EXPECT_EQ(EVP_EncryptUpdate(c, nullptr, &length, raw_bytes(text), static_cast<int>(text.size())),
            1);
  EXPECT_EQ(EVP_EncryptFinal_ex(c, raw_bytes(rest), &length), 1);
  EXPECT_EQ(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, 16, tag.data()), 1);
  EVP_CIPHER_CTX_free(c);
  return tag;
}

Bytes aes(const Bytes& key, const Bytes& block) {
  EVP_CIPHER_CTX* c = EVP_CIPHER_CTX_new();
  int length = 0;
  Bytes out(32);
  EXPECT_EQ(EVP_EncryptInit_ex(c, EVP_aes_128_ecb(), nullptr, raw_bytes(key), nullptr), 1);
  EXPECT_EQ(EVP_EncryptUpdate(c, raw_bytes(out), &length, raw_bytes(block), 16), 1);
  EVP_CIPHER_CTX_free(c);
  out.resize(16);
  return out;
}

PeerSecret secret(unsigned seed) {
  PeerSecret s;
  for (std::size_t i = 0; i < s.size(); ++i) s[i] = std::byte(seed + 11 * i);
  return s;
}

std::unique_ptr<PacketKey> key_of(const PeerSecret& s) {
  auto key = PacketKey::make(s);
  EXPECT_TRUE(key) << key.error().message;
  return std::move(*key);
}

Headers write_only() {
  Headers h;
  h.opcode = raw(Opcode::kRcWriteOnly);
  h.pkey = 0xffff;
  h.destination = Qpn(0x1234);
  h.psn = Psn(77);
  h.remote_addr = 0x1122334455667788;
  h.rkey = Rkey(0x99);
  h.dma_length = 100;
  return h;
}

/// The tag by its definition, of a frame without VLAN.
Bytes tag_by_definition(const PeerSecret& s, const Bytes& frame) {
  const bool is_ipv4 = frame[12] == std::byte{0x08};
  const std::size_t ip = 14, udp = ip + (is_ipv4 ? 20 : 40), bth = udp + 8;
  Bytes text;
  const auto put = [&](std::size_t from, std::size_t count) {
    text.insert(text.end(), frame.begin() + static_cast<std::ptrdiff_t>(from),
                frame.begin() + static_cast<std::ptrdiff_t>(from + count));
  };
  const Bytes mapped = bytes_of("00000000000000000000ffff");
  for (std::size_t i = 0; i < 2; ++i) {
    if (is_ipv4) text.insert(text.end(), mapped.begin(), mapped.end());
    is_ipv4 ? put(ip + 12 + 4 * i, 4) : put(ip + 8 + 16 * i, 16);
  }
  put(udp, 4);
  const std::size_t at = text.size();
  put(bth, frame.size() - 4 - bth);
  text[at + 4] = std::byte{0};
  const Bytes first(s.begin(), s.begin() + 16), second(s.begin() + 16, s.end());
  Bytes tag = aes(second, gmac(first, Bytes(12), text));
  tag.resize(4);
  return tag;
}

Bytes trailer(const Bytes& frame) { return {frame.end() - 4, frame.end()}; }

/// NIST CAVP gcmEncryptExtIV128 (no plaintext, 128 bits of further data), FIPS-197 appendix C.1.
TEST(PacketTag, ItsPartsAreThePublishedOnes) {
  EXPECT_EQ(gmac(bytes_of("77be63708971c4e240d1cb79e8d77feb"), bytes_of("e0e00f19fed7ba0136a797f3"),
                 bytes_of("7a43ec1d9c0a5a78a0b16533a6213cab")),
            bytes_of("209fcc8d3675ed938e9c7166709dd946"));
  EXPECT_EQ(aes(bytes_of("000102030405060708090a0b0c0d0e0f"),
                bytes_of("00112233445566778899aabbccddeeff")),
            bytes_of("69c4e0d86a7b0430d8cdb78070b4c55a"));
}

TEST(PacketTag, IsWhatItsDefinitionSays) {
  const auto key = key_of(secret(1));
  for (FramePath path : {test::ipv4_path(), test::ipv6_path()}) {
    path.key = key.get();
    for (const std::size_t payload : {0u, 1u, 3u, 8u, 63u, 64u, 65u, 66u, 100u, 1024u, 4096u}) {
      const Bytes frame = build(path, write_only(), counting_payload(payload), 5);
      EXPECT_EQ(trailer(frame), tag_by_definition(secret(1), frame)) << payload;
      ParsedFrame parsed;
      ASSERT_EQ(parse_frame(frame, parsed), DropReason::kNone);
      EXPECT_TRUE(check_tag(parsed, *key));
      EXPECT_FALSE(check_icrc(parsed));
    }
  }
}

TEST(PacketTag, IsTheSameForAnyPartsOfThePacket) {
  const auto key = key_of(secret(1));
  FramePath path = test::ipv4_path();
  path.key = key.get();
  const Bytes frame = build(path, write_only(), counting_payload(300));
  const std::span<const std::byte> network(frame.data() + 14, 28);
  const std::span<const std::byte> datagram(frame.data() + 42, frame.size() - 42 - 4);
  const auto wanted = swap_bytes(load_be<std::uint32_t>(frame.data() + frame.size() - 4));
  for (std::size_t head = 12; head <= datagram.size(); ++head) {
    TagSum sum(*key, network, datagram.first(head));
    const auto rest = datagram.subspan(head);
    const std::size_t middle = rest.size() / 3;
    sum.add(rest.first(middle));
    sum.add({});
    sum.add(rest.subspan(middle));
    EXPECT_EQ(sum.finish(), wanted) << head;
  }
}

TEST(PacketTag, AnotherKeyDoesNotFit) {
  const auto key = key_of(secret(1));
  FramePath path = test::ipv4_path();
  path.key = key.get();
  const Bytes frame = build(path, write_only(), counting_payload(100));
  ParsedFrame parsed;
  ASSERT_EQ(parse_frame(frame, parsed), DropReason::kNone);
  for (std::size_t bit = 0; bit < 8 * sizeof(PeerSecret); ++bit) {
    PeerSecret other = secret(1);
    other[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(check_tag(parsed, *key_of(other))) << bit;
  }
}

enum class Fate { kMalformed, kWrongTag, kTaken };

Fate look_at(const Bytes& frame, PacketKey& key) {
  ParsedFrame parsed;
  if (parse_frame(frame, parsed) != DropReason::kNone) return Fate::kMalformed;
  return check_tag(parsed, key) ? Fate::kTaken : Fate::kWrongTag;
}

/// Recomputes the checksum of the IPv4 header, as an attacker can.
void correct_checksum(Bytes& frame) {
  if (frame[12] != std::byte{0x08}) return;
  store_be(&frame[24], std::uint16_t{0});
  const auto sum = static_cast<std::uint16_t>(~fold_checksum(add_checksum({&frame[14], 20}, 0)));
  std::memcpy(&frame[24], &sum, sizeof sum);
}

/// Every flipped bit of a packet is detected, except bits that routers may change and bits that the
/// receiver does not read.
TEST(PacketTag, NoBitThatMattersCanBeTurned) {
  const auto key = key_of(secret(1));
  for (FramePath path : {test::ipv4_path(), test::ipv6_path()}) {
    path.key = key.get();
    const bool is_ipv4 = path.source.is_ipv4();
    const Bytes frame = build(path, write_only(), counting_payload(100));
    const std::size_t udp = is_ipv4 ? 34 : 54;
    const auto may_change = [&](std::size_t bit) {
      const std::size_t at = bit / 8;
      if (at < 12) return true;                         // link addresses
      if (at == udp + 6 || at == udp + 7) return true;  // UDP checksum
      if (at == udp + 8 + 4) return true;               // FECN, BECN, reserved
      if (is_ipv4)
        return at == 15 || at == 18 || at == 19 || at == 22 ||  // class, identification, TTL
               at == 24 || at == 25 ||                          // checksum, made anew
               (at == 20 && bit % 8 >= 6);                      // don't fragment, reserved
      return (at == 14 && bit % 8 < 4) || (at > 14 && at < 18) || at == 21;  // class, label, hops
    };
    for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      Bytes turned = frame;
      turned[bit / 8] ^= std::byte{1} << bit % 8;
      correct_checksum(turned);
      const Fate fate = look_at(turned, *key);
      if (may_change(bit))
        EXPECT_EQ(fate, Fate::kTaken) << "bit " << bit % 8 << " of byte " << bit / 8;
      else
        EXPECT_NE(fate, Fate::kTaken) << "bit " << bit % 8 << " of byte " << bit / 8;
    }
  }
}

/// What makes a CRC with a secret in it worthless: the difference of two tags would say the
/// difference of any two packets that differ likewise.
TEST(PacketTag, DifferencesDoNotCarryOver) {
  const auto key = key_of(secret(1));
  FramePath path = test::ipv4_path();
  path.key = key.get();
  const auto tag_of = [&](std::byte first, std::byte second) {
    Bytes payload = counting_payload(100);
    payload[10] = first;
    payload[20] = second;
    return load_be<std::uint32_t>(trailer(build(path, write_only(), payload)).data());
  };
  const std::byte a{1}, b{2};
  EXPECT_NE(tag_of(a, a) ^ tag_of(b, a), tag_of(a, b) ^ tag_of(b, b));
}

TEST(PacketTag, OfTrainsIsThatOfEachPacketAlone) {
  const auto key = key_of(secret(1));
  for (FramePath path : {test::ipv4_path(), test::ipv6_path()}) {
    path.key = key.get();
    const FrameTemplate headers(path);
    Bytes datagrams;
    std::size_t segment = 0;
    for (const std::size_t payload : {256u, 256u, 16u}) {
      const Bytes frame = build(path, write_only(), counting_payload(payload), 9);
      datagrams.insert(datagrams.end(),
                       frame.begin() + static_cast<std::ptrdiff_t>(headers.length()), frame.end());
      if (segment == 0) segment = datagrams.size();
    }
    Bytes train(headers.length());
    headers.write(train.data(), datagrams.size(), 1);
    train.insert(train.end(), datagrams.begin(), datagrams.end());
    FrameWalk walk(train, segment);
    ParsedFrame parsed;
    std::size_t packets = 0;
    do {
      ASSERT_EQ(walk.next(parsed), DropReason::kNone);
      EXPECT_TRUE(check_tag(parsed, *key)) << packets;
      ++packets;
    } while (walk.has_more());
    EXPECT_EQ(packets, 3u);
  }
}

}  // namespace
}  // namespace softhca::wire
