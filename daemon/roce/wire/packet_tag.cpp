// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/packet_tag.hpp"

#include <openssl/evp.h>
#include <openssl/modes.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "daemon/base/endian.hpp"
#include "daemon/roce/wire/headers.hpp"
#include "daemon/roce/wire/ip.hpp"
#include "daemon/roce/wire/opcode.hpp"

namespace softhca::wire {
namespace {

constexpr std::size_t kBlock = 16;
using Block = std::array<unsigned char, kBlock>;

/// Sets up AES-128 for single blocks. False: the cipher library refuses.
bool set_up_cipher(EVP_CIPHER_CTX* cipher, const std::byte* key) {
  return cipher != nullptr &&
         EVP_EncryptInit_ex2(cipher, EVP_aes_128_ecb(), reinterpret_cast<const unsigned char*>(key),
                             nullptr, nullptr) == 1 &&
         EVP_CIPHER_CTX_set_padding(cipher, 0) == 1;
}

void encrypt(EVP_CIPHER_CTX* cipher, const unsigned char* in, unsigned char* out) {
  int written = 0;
  [[maybe_unused]] const int done = EVP_EncryptUpdate(cipher, out, &written, in, kBlock);
  assert(done == 1 && written == kBlock);
}

/// Encrypts a block, with the signature that the hash expects. `key`: an EVP_CIPHER_CTX.
void encrypt_block(const unsigned char in[kBlock], unsigned char out[kBlock], const void* key) {
  encrypt(static_cast<EVP_CIPHER_CTX*>(const_cast<void*>(key)), in, out);
}

/// Hashed first: source and destination as GIDs, both UDP ports, the base transport header. These
/// are three blocks, so the rest starts at a block boundary.
constexpr std::size_t kHead = 3 * kBlock;
static_assert(2 * sizeof(Gid) + 4 + kBthLength == kHead);
/// Packets up to this size are hashed in one piece, as with the ICRC.
constexpr std::size_t kHashedInOnePiece = 128;

std::byte* put_addresses(std::span<const std::byte> network, std::byte* to) {
  const bool is_ipv4 = network.size() == kIpv4Length + kUdpLength;
  assert(is_ipv4 || network.size() == kIpv6Length + kUdpLength);
  const Gid source = is_ipv4 ? load_ipv4(&network[12]) : load_ipv6(&network[8]);
  const Gid destination = is_ipv4 ? load_ipv4(&network[16]) : load_ipv6(&network[24]);
  std::memcpy(to, source.bytes.data(), sizeof(Gid));
  std::memcpy(to + sizeof(Gid), destination.bytes.data(), sizeof(Gid));
  return to + 2 * sizeof(Gid);
}

}  // namespace

struct PacketKey::Ciphers {
  struct Free {
    void operator()(EVP_CIPHER_CTX* c) const { EVP_CIPHER_CTX_free(c); }
    void operator()(GCM128_CONTEXT* c) const { CRYPTO_gcm128_release(c); }
  };
  std::unique_ptr<EVP_CIPHER_CTX, Free> of_hash;  ///< cipher of `hash`
  std::unique_ptr<GCM128_CONTEXT, Free> hash;
  std::unique_ptr<EVP_CIPHER_CTX, Free> last;

  void add(const std::byte* bytes, std::size_t length) {
    [[maybe_unused]] const int done =
        CRYPTO_gcm128_aad(hash.get(), reinterpret_cast<const unsigned char*>(bytes), length);
    assert(done == 0);
  }
};

PacketKey::PacketKey(std::unique_ptr<Ciphers> ciphers) : ciphers_(std::move(ciphers)) {}
PacketKey::~PacketKey() = default;

Expected<std::unique_ptr<PacketKey>> PacketKey::make(const PeerSecret& secret) {
  auto ciphers = std::make_unique<Ciphers>();
  ciphers->of_hash.reset(EVP_CIPHER_CTX_new());
  ciphers->last.reset(EVP_CIPHER_CTX_new());
  if (set_up_cipher(ciphers->of_hash.get(), secret.data()) &&
      set_up_cipher(ciphers->last.get(), secret.data() + secret.size() / 2))
    ciphers->hash.reset(CRYPTO_gcm128_new(ciphers->of_hash.get(), encrypt_block));
  if (ciphers->hash == nullptr)
    return Error{"OpenSSL's libcrypto does not provide AES-128", ENOTSUP};
  return std::unique_ptr<PacketKey>(new PacketKey(std::move(ciphers)));
}

TagSum::TagSum(PacketKey& key, std::span<const std::byte> network,
               std::span<const std::byte> transport)
    : ciphers_(*key.ciphers_) {
  assert(transport.size() >= kBthLength);
  constexpr std::array<unsigned char, 12> kNonce{};
  CRYPTO_gcm128_setiv(ciphers_.hash.get(), kNonce.data(), kNonce.size());
  std::array<std::byte, kHashedInOnePiece> head;
  std::byte* at = put_addresses(network, head.data());
  std::memcpy(at, &network[network.size() - kUdpLength], 4);  // both ports
  at += 4;
  const bool fits = kHead - kBthLength + transport.size() <= kHashedInOnePiece;
  const std::size_t copied = fits ? transport.size() : kBthLength;
  std::memcpy(at, transport.data(), copied);
  at[4] = std::byte{0};  // FECN, BECN, reserved
  ciphers_.add(head.data(), kHead - kBthLength + copied);
  if (copied < transport.size()) add(transport.subspan(copied));
}

void TagSum::add(std::span<const std::byte> bytes) { ciphers_.add(bytes.data(), bytes.size()); }

std::uint32_t TagSum::finish() {
  Block hash, tag;
  CRYPTO_gcm128_tag(ciphers_.hash.get(), hash.data(), hash.size());
  encrypt(ciphers_.last.get(), hash.data(), tag.data());
  return swap_bytes(load_be<std::uint32_t>(reinterpret_cast<const std::byte*>(tag.data())));
}

bool check_tag(const ParsedFrame& frame, PacketKey& key) {
  const auto covered = frame.datagram.first(frame.datagram.size() - kIcrcLength);
  const auto sent = swap_bytes(load_be<std::uint32_t>(covered.data() + covered.size()));
  return TagSum(key, frame.network, covered).finish() == sent;
}

}  // namespace softhca::wire
