// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/packet/transmit_queue.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "daemon/base/endian.hpp"
#include "daemon/port/roce_udp.hpp"

namespace softhca::port {
namespace {

constexpr std::uint16_t kChecksumOffset = 6;  // in the UDP header

/// True for errors that mean that a device or kernel never can do something, rather than not now.
bool is_inability(int error) {
  return error == EINVAL || error == EIO || error == EMSGSIZE || error == EOPNOTSUPP ||
         error == EPROTONOSUPPORT;
}

}  // namespace

TrainLimits TransmitQueue::limits() const {
  TrainLimits limits = kSocketTrains;
  if (!takes_trains_) limits.packets = 1;
  if (room_.blocked()) limits.packets = 0;
  return limits;
}

TransmitQueue::Message& TransmitQueue::begin(std::size_t head_length, std::uint32_t bytes) {
  assert(!is_full());
  Message& message = messages_[count_];
  message.head.offload = {};
  message.head_length = head_length;
  message.bytes = bytes;
  message.segment = bytes;
  message.packets = 1;
  msghdr& header = headers_[count_++].msg_hdr;
  header.msg_iov = &pieces_[used_];
  header.msg_iovlen = 0;
  append({&message.head, sizeof message.head.offload + head_length});
  return message;
}

void TransmitQueue::append(const iovec& piece) {
  pieces_[used_++] = piece;
  ++headers_[count_ - 1].msg_hdr.msg_iovlen;
}

void TransmitQueue::add(std::span<const std::byte> frame) {
  begin(0, static_cast<std::uint32_t>(frame.size()));
  append({const_cast<std::byte*>(frame.data()), frame.size()});
}

void TransmitQueue::add(const Train& train) {
  assert(train.head.size() <= sizeof Head::bytes && !is_full(train.pieces.size()));
  Message& message = begin(train.head.size(), train.bytes);
  message.network = train.network;
  message.segment = train.segment;
  message.packets = train.packets;
  std::memcpy(message.head.bytes.data(), train.head.data(), train.head.size());
  for (const iovec& piece : train.pieces) append(piece);
  if (train.packets == 1) return;
  Offload& offload = message.head.offload;
  offload.flags = Offload::kNeedsChecksum;
  offload.gso_type = Offload::kGsoUdp;
  offload.gso_size = static_cast<std::uint16_t>(train.segment);
  offload.header_length = static_cast<std::uint16_t>(train.head.size());
  offload.checksum_start = static_cast<std::uint16_t>(train.head.size() - kUdpHeader);
  offload.checksum_offset = kChecksumOffset;
  store_be(&message.head.bytes[offload.checksum_start + kChecksumOffset],
           pseudo_header_sum(train.head, train.network));
}

void TransmitQueue::flush() {
  for (std::size_t done = 0; done < count_;) {
    const int sent = sendmmsg(fd_, &headers_[done], static_cast<unsigned>(count_ - done), 0);
    if (sent < 0) {
      if (errno != EINTR) handle_refusal(done++, errno);
      continue;
    }
    for (const std::size_t end = done + static_cast<std::size_t>(sent); done < end; ++done)
      count_sent(messages_[done]);
  }
  count_ = used_ = 0;
}

void TransmitQueue::count_sent(const Message& message) {
  room_.sent(counters_.count_sent(message.packets, message.head_length, message.bytes));
}

/// Handles a message that the kernel refused.
void TransmitQueue::handle_refusal(std::size_t at, int error) {
  if (messages_[at].packets > 1 && is_inability(error)) {
    takes_trains_ = false;
    return send_apart(at);
  }
  if (error == EAGAIN) room_.refused();
  counters_.dropped.add(messages_[at].packets);
}

/// Sends the packets of a train one by one.
void TransmitQueue::send_apart(std::size_t at) {
  counters_.refused.add();
  const Message& train = messages_[at];
  std::span<iovec> rest(headers_[at].msg_hdr.msg_iov + 1, headers_[at].msg_hdr.msg_iovlen - 1);
  for (std::uint32_t index = 0, left = train.bytes; left != 0; ++index) {
    Message packet = train;
    packet.packets = 1;
    packet.bytes = std::min(left, train.segment);
    packet.head.offload = {};
    const std::span<std::byte> head(packet.head.bytes.data(), packet.head_length);
    make_packet_head(head, packet.network, index, packet.bytes);
    left -= packet.bytes;
    std::array<iovec, kSocketTrains.pieces + 1> parts;
    std::size_t count = 1;
    for (std::size_t wanted = packet.bytes; wanted != 0;) {
      iovec& from = rest.front();
      const std::size_t part = std::min(wanted, from.iov_len);
      parts[count++] = {from.iov_base, part};
      wanted -= part;
      from = {static_cast<std::byte*>(from.iov_base) + part, from.iov_len - part};
      if (from.iov_len == 0) rest = rest.subspan(1);
    }
    if (send_packet(packet, {parts.data(), count}))
      count_sent(packet);
    else
      counters_.dropped.add();
  }
}

bool TransmitQueue::send_packet(Message& message, std::span<iovec> parts) {
  parts[0] = {&message.head, sizeof message.head.offload + message.head_length};
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = parts.size();
  return sendmsg(fd_, &header, 0) >= 0;
}

}  // namespace softhca::port
