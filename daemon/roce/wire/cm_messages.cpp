// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/cm_messages.hpp"

#include <cstring>
#include <type_traits>

#include "daemon/base/endian.hpp"

// fields() of each message lists the places of its fields, and both directions use that list. A
// place is a byte, counted from the end of the common header; a bit in it, counted from its most
// significant one; and a width in bits (tables 106 to 120).

namespace softhca::wire {
namespace {

struct Place {
  unsigned byte;
  unsigned bit;
  unsigned width;

  unsigned end_byte() const { return byte + (bit + width + 7) / 8; }
  unsigned shift() const { return (8 - (bit + width) % 8) % 8; }
  std::uint64_t mask() const { return width == 64 ? ~std::uint64_t{0} : (1ull << width) - 1; }
};

std::uint64_t load_bytes(const std::byte* data, const Place& place) {
  std::uint64_t value = 0;
  for (unsigned i = place.byte; i < place.end_byte(); ++i)
    value = value << 8 | std::to_integer<std::uint64_t>(data[i]);
  return value;
}

void store_bits(std::byte* data, const Place& place, std::uint64_t bits) {
  std::uint64_t value = load_bytes(data, place) & ~(place.mask() << place.shift());
  value |= (bits & place.mask()) << place.shift();
  for (unsigned i = place.end_byte(); i-- > place.byte; value >>= 8) data[i] = std::byte(value);
}

class Reader {
 public:
  explicit Reader(const std::byte* data) : data_(data) {}

  template <class T>
  void operator()(T& field, const Place& place) {
    field = static_cast<T>(load_bytes(data_, place) >> place.shift() & place.mask());
  }
  void operator()(Qpn& field, const Place& place) { (*this)(field.value, place); }
  void operator()(Psn& field, const Place& place) {
    field = Psn(static_cast<std::uint32_t>(load_bytes(data_, place) >> place.shift()));
  }
  void operator()(Gid& field, unsigned byte) { (*this)(field.bytes, byte); }
  template <class T, std::size_t size>
  void operator()(std::array<T, size>& field, unsigned byte) {
    std::memcpy(field.data(), data_ + byte, size);
  }

 private:
  const std::byte* data_;
};

class Writer {
 public:
  explicit Writer(std::byte* data) : data_(data) {}

  template <class T>
  void operator()(const T& field, const Place& place) {
    store_bits(data_, place, static_cast<std::uint64_t>(field));
  }
  void operator()(const Qpn& field, const Place& place) { store_bits(data_, place, field.value); }
  void operator()(const Psn& field, const Place& place) { store_bits(data_, place, field.value()); }
  void operator()(const Gid& field, unsigned byte) { (*this)(field.bytes, byte); }
  template <class T, std::size_t size>
  void operator()(const std::array<T, size>& field, unsigned byte) {
    std::memcpy(data_ + byte, field.data(), size);
  }

 private:
  std::byte* data_;
};

/// True if Message is M or const M.
template <class Message, class M>
concept Is = std::is_same_v<std::remove_const_t<Message>, M>;

/// Visits a path of REQ. The alternate path has the layout of the primary one, 44 bytes further on.
template <Is<CmPath> Path, class Visitor>
void req_path(Path& p, Visitor& visit, unsigned at) {
  visit(p.local_lid, {at, 0, 16});
  visit(p.remote_lid, {at + 2, 0, 16});
  visit(p.local_gid, at + 4);
  visit(p.remote_gid, at + 20);
  visit(p.flow_label, {at + 36, 0, 20});
  visit(p.packet_rate, {at + 39, 2, 6});
  visit(p.traffic_class, {at + 40, 0, 8});
  visit(p.hop_limit, {at + 41, 0, 8});
  visit(p.sl, {at + 42, 0, 4});
  visit(p.subnet_local, {at + 42, 4, 1});
  visit(p.local_ack_timeout, {at + 43, 0, 5});
}

template <class Message, class Visitor>
void comm_ids(Message& m, Visitor& visit) {
  visit(m.local_comm_id, {0, 0, 32});
  visit(m.remote_comm_id, {4, 0, 32});
}

template <Is<CmReq> Message, class Visitor>
void fields(Message& m, Visitor& visit) {
  visit(m.local_comm_id, {0, 0, 32});
  visit(m.service_id, {8, 0, 64});
  visit(m.local_ca_guid, {16, 0, 64});
  visit(m.local_qkey, {28, 0, 32});
  visit(m.local_qpn, {32, 0, 24});
  visit(m.responder_resources, {35, 0, 8});
  visit(m.local_eecn, {36, 0, 24});
  visit(m.initiator_depth, {39, 0, 8});
  visit(m.remote_eecn, {40, 0, 24});
  visit(m.remote_response_timeout, {43, 0, 5});
  visit(m.transport, {43, 5, 2});
  visit(m.end_to_end_flow_control, {43, 7, 1});
  visit(m.starting_psn, {44, 0, 24});
  visit(m.local_response_timeout, {47, 0, 5});
  visit(m.retry_count, {47, 5, 3});
  visit(m.pkey, {48, 0, 16});
  visit(m.path_mtu, {50, 0, 4});
  visit(m.rdc_exists, {50, 4, 1});
  visit(m.rnr_retry_count, {50, 5, 3});
  visit(m.max_cm_retries, {51, 0, 4});
  visit(m.srq, {51, 4, 1});
  visit(m.extended_transport, {51, 5, 3});
  req_path(m.primary, visit, 52);
  req_path(m.alternate, visit, 96);
  visit(m.sap_supported, {139, 5, 1});
  visit(m.private_data, 140);
}

template <Is<CmMra> Message, class Visitor>
void fields(Message& m, Visitor& visit) {
  comm_ids(m, visit);
  visit(m.message, {8, 0, 2});
  visit(m.service_timeout, {9, 0, 5});
  visit(m.private_data, 10);
}

template <Is<CmRej> Message, class Visitor>
void fields(Message& m, Visitor& visit) {
  comm_ids(m, visit);
  visit(m.message, {8, 0, 2});
  visit(m.info_length, {9, 0, 7});
  visit(m.reason, {10, 0, 16});
  visit(m.info, 12);
  visit(m.private_data, 84);
}

template <Is<CmRep> Message, class Visitor>
void fields(Message& m, Visitor& visit) {
  comm_ids(m, visit);
  visit(m.local_qkey, {8, 0, 32});
  visit(m.local_qpn, {12, 0, 24});
  visit(m.local_eecn, {16, 0, 24});
  visit(m.starting_psn, {20, 0, 24});
  visit(m.responder_resources, {24, 0, 8});
  visit(m.initiator_depth, {25, 0, 8});
  visit(m.target_ack_delay, {26, 0, 5});
  visit(m.failover_accepted, {26, 5, 2});
  visit(m.end_to_end_flow_control, {26, 7, 1});
  visit(m.rnr_retry_count, {27, 0, 3});
  visit(m.srq, {27, 3, 1});
  visit(m.local_ca_guid, {28, 0, 64});
  visit(m.private_data, 36);
}

template <class Message, class Visitor>
requires Is<Message, CmRtu> || Is<Message, CmDrep>
void fields(Message& m, Visitor& visit) {
  comm_ids(m, visit);
  visit(m.private_data, 8);
}

template <Is<CmDreq> Message, class Visitor>
void fields(Message& m, Visitor& visit) {
  comm_ids(m, visit);
  visit(m.remote_qpn, {8, 0, 24});
  visit(m.private_data, 12);
}

template <Is<CmLap> Message, class Visitor>
void fields(Message& m, Visitor& visit) {
  comm_ids(m, visit);
  visit(m.remote_qpn, {12, 0, 24});
  visit(m.remote_response_timeout, {15, 0, 5});
  auto& p = m.alternate;
  visit(p.local_lid, {20, 0, 16});
  visit(p.remote_lid, {22, 0, 16});
  visit(p.local_gid, 24);
  visit(p.remote_gid, 40);
  visit(p.flow_label, {56, 0, 20});
  visit(p.traffic_class, {59, 0, 8});
  visit(p.hop_limit, {60, 0, 8});
  visit(p.packet_rate, {61, 2, 6});
  visit(p.sl, {62, 0, 4});
  visit(p.subnet_local, {62, 4, 1});
  visit(p.local_ack_timeout, {63, 0, 5});
  visit(m.private_data, 64);
}

template <Is<CmApr> Message, class Visitor>
void fields(Message& m, Visitor& visit) {
  comm_ids(m, visit);
  visit(m.info_length, {8, 0, 8});
  visit(m.status, {9, 0, 8});
  visit(m.info, 12);
  visit(m.private_data, 84);
}

template <Is<CmSidrReq> Message, class Visitor>
void fields(Message& m, Visitor& visit) {
  visit(m.request_id, {0, 0, 32});
  visit(m.pkey, {4, 0, 16});
  visit(m.service_id, {8, 0, 64});
  visit(m.private_data, 16);
}

template <Is<CmSidrRep> Message, class Visitor>
void fields(Message& m, Visitor& visit) {
  visit(m.request_id, {0, 0, 32});
  visit(m.status, {4, 0, 8});
  visit(m.info_length, {5, 0, 8});
  visit(m.qpn, {8, 0, 24});
  visit(m.service_id, {12, 0, 64});
  visit(m.qkey, {20, 0, 32});
  visit(m.info, 24);
  visit(m.private_data, 96);
}

constexpr std::size_t kIpSource = 4;
constexpr std::size_t kIpDestination = 20;

}  // namespace

const char* name_of(CmAttribute attribute) {
  switch (attribute) {
    case CmAttribute::kClassPortInfo:
      return "ClassPortInfo";
    case CmAttribute::kReq:
      return "REQ";
    case CmAttribute::kMra:
      return "MRA";
    case CmAttribute::kRej:
      return "REJ";
    case CmAttribute::kRep:
      return "REP";
    case CmAttribute::kRtu:
      return "RTU";
    case CmAttribute::kDreq:
      return "DREQ";
    case CmAttribute::kDrep:
      return "DREP";
    case CmAttribute::kSidrReq:
      return "SIDR_REQ";
    case CmAttribute::kSidrRep:
      return "SIDR_REP";
    case CmAttribute::kLap:
      return "LAP";
    case CmAttribute::kApr:
      return "APR";
  }
  return "unknown";
}

template <class Message>
Message decode_cm(std::span<const std::byte, kMadBytes> mad) {
  Message message;
  Reader reader(mad.data() + kMadHeaderBytes);
  fields(message, reader);
  return message;
}

template <class Message>
Mad encode_cm(const Message& message, std::uint64_t transaction_id) {
  Mad mad{};
  encode(MadHeader{.management_class = ManagementClass::kCommunication,
                   .class_version = kCmClassVersion,
                   .method = MadMethod::kSendMessage,
                   .transaction_id = transaction_id,
                   .attribute_id = static_cast<std::uint16_t>(Message::kAttribute)},
         mad);
  Writer writer(mad.data() + kMadHeaderBytes);
  fields(message, writer);
  return mad;
}

#define SOFTHCA_CM_MESSAGE(Message)                                           \
  template Message decode_cm<Message>(std::span<const std::byte, kMadBytes>); \
  template Mad encode_cm<Message>(const Message&, std::uint64_t);
SOFTHCA_CM_MESSAGE(CmReq)
SOFTHCA_CM_MESSAGE(CmMra)
SOFTHCA_CM_MESSAGE(CmRej)
SOFTHCA_CM_MESSAGE(CmRep)
SOFTHCA_CM_MESSAGE(CmRtu)
SOFTHCA_CM_MESSAGE(CmDreq)
SOFTHCA_CM_MESSAGE(CmDrep)
SOFTHCA_CM_MESSAGE(CmLap)
SOFTHCA_CM_MESSAGE(CmApr)
SOFTHCA_CM_MESSAGE(CmSidrReq)
SOFTHCA_CM_MESSAGE(CmSidrRep)
#undef SOFTHCA_CM_MESSAGE

CmIpHeader decode_cm_ip_header(std::span<const std::byte, CmIpHeader::kBytes> data) {
  CmIpHeader h;
  h.version = std::to_integer<std::uint8_t>(data[0]);
  h.ip_version = std::to_integer<std::uint8_t>(data[1]) >> 4;
  h.source_port = load_be<std::uint16_t>(&data[2]);
  std::memcpy(h.source.data(), &data[kIpSource], h.source.size());
  std::memcpy(h.destination.data(), &data[kIpDestination], h.destination.size());
  return h;
}

void encode(const CmIpHeader& header, std::span<std::byte, CmIpHeader::kBytes> data) {
  data[0] = std::byte{header.version};
  data[1] = std::byte(header.ip_version << 4);
  store_be(&data[2], header.source_port);
  std::memcpy(&data[kIpSource], header.source.data(), header.source.size());
  std::memcpy(&data[kIpDestination], header.destination.data(), header.destination.size());
}

}  // namespace softhca::wire
