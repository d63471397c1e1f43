// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/ports/outbox.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "daemon/base/endian.hpp"
#include "daemon/roce/wire/icrc.hpp"
#include "daemon/roce/wire/packet_tag.hpp"

namespace softhca::engine {
namespace {

/// Payload of up to this many bytes is copied: a copy costs less than one more piece to gather.
constexpr std::uint32_t kCopied = 512;
/// The outbox is flushed once this many bytes wait, so that a receiver on another core can start.
constexpr std::size_t kFlushBytes = 128 << 10;
/// Most pieces of a packet: headers, a scatter list, pad and ICRC.
constexpr std::size_t kPacketPieces = memory::kMaxEntries + 2;
constexpr std::size_t kMostPieces = 256;

/// Returns the ICRC or the tag of a packet. `sum` already covers the headers and the copied
/// payload.
template <class Sum>
std::uint32_t trailer_of(Sum sum, std::span<const iovec> pieces, std::span<const std::byte> pad) {
  for (const iovec& piece : pieces)
    sum.add({static_cast<const std::byte*>(piece.iov_base), piece.iov_len});
  if (!pad.empty()) sum.add(pad);
  return sum.finish();
}

}  // namespace

Outbox::Outbox(port::Port& port, port::TrainSender& sender, PayloadReader& payloads)
    : port_(port),
      sender_(sender),
      payloads_(payloads),
      arena_(std::make_unique_for_overwrite<std::byte[]>(kArena)) {
  pieces_.reserve(kMostPieces);
}

/// True if a packet of this size can be appended to the open train.
bool Outbox::fits(const wire::FrameTemplate& path, std::size_t datagram) const {
  return packets_ != 0 && !ended_ && datagram <= segment_ && packets_ < limits_.packets &&
         bytes_ + datagram <= limits_.bytes &&
         pieces_.size() + kPacketPieces <= std::min<std::size_t>(limits_.pieces, kMostPieces) &&
         path == path_;
}

/// Makes room for a packet in the open train, or opens a new one. False: the port is full.
bool Outbox::prepare(const wire::FrameTemplate& path, std::size_t datagram) {
  if (!fits(path, datagram)) close();
  if (arena_used_ + datagram > kArena || (packets_ == 0 && pending_ >= kFlushBytes)) flush();
  if (packets_ != 0) return true;
  limits_ = sender_.limits();
  path_ = path;
  segment_ = static_cast<std::uint32_t>(datagram);
  bytes_ = 0;
  ended_ = false;
  return limits_.packets != 0;
}

/// Appends the next `bytes` of the arena to the train.
void Outbox::put(std::size_t bytes) {
  std::byte* at = arena_.get() + arena_used_;
  arena_used_ += bytes;
  if (!pieces_.empty()) {
    iovec& last = pieces_.back();
    if (static_cast<std::byte*>(last.iov_base) + last.iov_len == at) {
      last.iov_len += bytes;
      return;
    }
  }
  pieces_.push_back({at, bytes});
}

transport::SendResult Outbox::add(const wire::FrameTemplate& path, const wire::Headers& h,
                                  const transport::PayloadSource& payload, const QueuePair* qp,
                                  Parts* show) {
  const std::size_t pad = wire::pad_for(payload.length);
  const std::size_t datagram = wire::datagram_length(h.opcode, payload.length);
  if (!prepare(path, datagram)) return transport::SendResult::kNoBuffer;

  std::byte* at = arena_.get() + arena_used_;
  std::byte* tail = at + wire::encode(h, payload.length, at);
  PayloadPieces pieces;
  if (payload.is_held && payload.length > kCopied &&
      payloads_.locate(*qp, payload, pieces) != Verdict::kOk)
    return transport::SendResult::kNoAccess;
  if (payload.length != 0 && pieces.count == 0) {
    if (payloads_.read(qp, payload, {tail, payload.length}) != Verdict::kOk)
      return payloads_.is_busy() ? transport::SendResult::kNoBuffer
                                 : transport::SendResult::kNoAccess;
    tail += payload.length;
  }
  std::memset(tail, 0, pad);

  std::array<std::byte, wire::kMaxNetworkHeaders> network;
  path.write(network.data(), datagram, static_cast<std::uint16_t>(identification_ + packets_));
  const std::size_t link = path.link_length();
  const std::span<const std::byte> below(network.data() + link, path.length() - link);
  const std::span<const std::byte> begin(at, tail), padding(tail, pad);
  const std::uint32_t trailer =
      path.key() == nullptr
          ? trailer_of(wire::IcrcSum(below, begin), pieces.view(), padding)
          : trailer_of(wire::TagSum(*path.key(), below, begin), pieces.view(), padding);
  store_be(tail + pad, swap_bytes(trailer));
  if (show != nullptr) [[unlikely]] {
    show->head = network;
    show->bytes[show->count++] = {show->head.data(), path.length()};
    show->bytes[show->count++] = {at, tail};
    for (const iovec& piece : pieces.view())
      show->bytes[show->count++] = {static_cast<const std::byte*>(piece.iov_base), piece.iov_len};
    show->bytes[show->count++] = {tail, pad + wire::kIcrcLength};
  }

  put(static_cast<std::size_t>(tail - at));
  pieces_.insert(pieces_.end(), pieces.view().begin(), pieces.view().end());
  put(pad + wire::kIcrcLength);
  bytes_ += static_cast<std::uint32_t>(datagram);
  ++packets_;
  ended_ = datagram < segment_;
  return transport::SendResult::kSent;
}

void Outbox::close() {
  if (packets_ == 0) return;
  std::array<std::byte, wire::kMaxNetworkHeaders> head;
  path_.write(head.data(), bytes_, identification_);
  sender_.transmit({.head = {head.data(), path_.length()},
                    .network = path_.link_length(),
                    .pieces = pieces_,
                    .bytes = bytes_,
                    .segment = segment_,
                    .packets = packets_});
  if (port_.kernel_headers() == nullptr)
    identification_ = static_cast<std::uint16_t>(identification_ + packets_);
  pending_ += bytes_;
  pieces_.clear();
  packets_ = 0;
}

std::uint16_t Outbox::give_way() {
  close();
  return port_.kernel_headers() == nullptr ? identification_++ : std::uint16_t{0};
}

void Outbox::flush() {
  close();
  port_.flush();
  arena_used_ = 0;
  pending_ = 0;
}

}  // namespace softhca::engine
