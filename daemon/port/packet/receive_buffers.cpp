// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/packet/receive_buffers.hpp"

#include <linux/if_packet.h>

#include <cstring>

#include "daemon/base/endian.hpp"
#include "daemon/port/packet/socket.hpp"

namespace softhca::port {
namespace {

constexpr std::size_t kEthernetHeader = 14;
constexpr std::size_t kAddresses = 12;  // in the Ethernet header
constexpr std::size_t kTag = 4;

/// Returns what the kernel reports beside a frame.
const tpacket_auxdata* beside(const msghdr& header) {
  const cmsghdr* control = CMSG_FIRSTHDR(&header);
  if (control == nullptr || control->cmsg_level != SOL_PACKET ||
      control->cmsg_type != PACKET_AUXDATA)
    return nullptr;
  return reinterpret_cast<const tpacket_auxdata*>(CMSG_DATA(control));
}

/// Inserts the tag that the kernel removed, so that the frame begins earlier. Returns its new
/// beginning.
std::byte* insert_tag(std::byte* frame, std::uint16_t protocol, std::uint16_t tag) {
  std::byte* tagged = frame - kTag;
  std::memmove(tagged, frame, kAddresses);
  store_be(tagged + kAddresses, protocol);
  store_be(tagged + kAddresses + 2, tag);
  return tagged;
}

}  // namespace

void ReceiveBuffers::offer(msghdr& to, Buffer& buffer) {
  buffer.parts = {{{buffer.apart.data(), sizeof(Offload)}, {buffer.data, kLongest}}};
  to.msg_iov = buffer.parts.data();
  to.msg_iovlen = buffer.parts.size();
}

/// Refuses runts, which have no complete header.
Frame ReceiveBuffers::accept(const mmsghdr& message, Buffer& buffer) {
  static_assert(CMSG_SPACE(sizeof(tpacket_auxdata)) <= sizeof buffer.beside);
  Offload offload;
  if (message.msg_len < sizeof offload + kEthernetHeader) return {};
  std::memcpy(&offload, buffer.apart.data(), sizeof offload);
  Frame frame{buffer.data, message.msg_len - static_cast<std::uint32_t>(sizeof offload)};
  const tpacket_auxdata* aux = beside(message.msg_hdr);
  if (aux != nullptr && (aux->tp_status & TP_STATUS_VLAN_VALID) != 0) {
    const bool has_type = (aux->tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
    frame.data = insert_tag(frame.data, has_type ? aux->tp_vlan_tpid : std::uint16_t{0x8100},
                            aux->tp_vlan_tci);
    frame.length += kTag;
  }
  if ((offload.gso_type & ~Offload::kGsoEcn) == Offload::kGsoUdp) frame.segment = offload.gso_size;
  return frame;
}

}  // namespace softhca::port
