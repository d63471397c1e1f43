// SPDX-License-Identifier: Apache-2.0

// Messages of connection management: every field at its place, and what another implementation
// sent, byte for byte.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "daemon/roce/wire/cm_messages.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "tests/unit/roce/wire/pcap.hpp"

namespace softhca::wire {
namespace {

/// Ones in all of a field.
template <class T>
void fill(T& field) {
  field = static_cast<T>(~0ull);
}
void fill(bool& field) { field = true; }
void fill(Qpn& field) { field = Qpn(0xffffff); }
void fill(Psn& field) { field = Psn(0xffffff); }
void fill(Gid& field) { field.bytes.fill(0xff); }
template <std::size_t size>
void fill(CmData<size>& field) {
  field.fill(std::byte{0xff});
}

template <class Message>
Message zero() {
  return decode_cm<Message>(Mad{});
}

template <class Message>
struct Row {
  const char* name;
  unsigned byte;  ///< from the end of the common header
  unsigned bit;   ///< from the most significant one
  unsigned width;
  std::function<void(Message&)> set;
};

/// A MAD in which exactly the field's bits are set.
template <class Message>
Mad only(const Row<Message>& row) {
  Mad mad{};
  for (unsigned i = row.bit; i < row.bit + row.width; ++i)
    mad[kMadHeaderBytes + row.byte + i / 8] |= std::byte(0x80u >> i % 8);
  return mad;
}

template <class Message>
void check(const std::vector<Row<Message>>& rows) {
  for (const Row<Message>& row : rows) {
    SCOPED_TRACE(row.name);
    const Mad mad = only(row);
    Message message = zero<Message>();
    row.set(message);
    const Mad encoded = encode_cm(message, 0);
    EXPECT_TRUE(
        std::equal(mad.begin() + kMadHeaderBytes, mad.end(), encoded.begin() + kMadHeaderBytes));
    // The member may be wider than the field on the wire. Decoding returns the bits that fit.
    EXPECT_EQ(encode_cm(decode_cm<Message>(mad), 0), encoded);
    EXPECT_EQ(decode_cm<Message>(encoded), decode_cm<Message>(mad));
    EXPECT_NE(decode_cm<Message>(mad), zero<Message>());
  }
}

#define FIELD(member, byte, bit, width)                        \
  {                                                            \
#member, byte, bit, width, [](auto& m) { fill(m.member); } \
  }

TEST(CmFields, Req) {
  check<CmReq>({
      FIELD(local_comm_id, 0, 0, 32),
      FIELD(service_id, 8, 0, 64),
      FIELD(local_ca_guid, 16, 0, 64),
      FIELD(local_qkey, 28, 0, 32),
      FIELD(local_qpn, 32, 0, 24),
      FIELD(responder_resources, 35, 0, 8),
      FIELD(local_eecn, 36, 0, 24),
      FIELD(initiator_depth, 39, 0, 8),
      FIELD(remote_eecn, 40, 0, 24),
      FIELD(remote_response_timeout, 43, 0, 5),
      FIELD(transport, 43, 5, 2),
      FIELD(end_to_end_flow_control, 43, 7, 1),
      FIELD(starting_psn, 44, 0, 24),
      FIELD(local_response_timeout, 47, 0, 5),
      FIELD(retry_count, 47, 5, 3),
      FIELD(pkey, 48, 0, 16),
      FIELD(path_mtu, 50, 0, 4),
      FIELD(rdc_exists, 50, 4, 1),
      FIELD(rnr_retry_count, 50, 5, 3),
      FIELD(max_cm_retries, 51, 0, 4),
      FIELD(srq, 51, 4, 1),
      FIELD(extended_transport, 51, 5, 3),
      FIELD(primary.local_lid, 52, 0, 16),
      FIELD(primary.remote_lid, 54, 0, 16),
      FIELD(primary.local_gid, 56, 0, 128),
      FIELD(primary.remote_gid, 72, 0, 128),
      FIELD(primary.flow_label, 88, 0, 20),
      FIELD(primary.packet_rate, 91, 2, 6),
      FIELD(primary.traffic_class, 92, 0, 8),
      FIELD(primary.hop_limit, 93, 0, 8),
      FIELD(primary.sl, 94, 0, 4),
      FIELD(primary.subnet_local, 94, 4, 1),
      FIELD(primary.local_ack_timeout, 95, 0, 5),
      FIELD(alternate.local_lid, 96, 0, 16),
      FIELD(alternate.remote_lid, 98, 0, 16),
      FIELD(alternate.local_gid, 100, 0, 128),
      FIELD(alternate.remote_gid, 116, 0, 128),
      FIELD(alternate.flow_label, 132, 0, 20),
      FIELD(alternate.packet_rate, 135, 2, 6),
      FIELD(alternate.traffic_class, 136, 0, 8),
      FIELD(alternate.hop_limit, 137, 0, 8),
      FIELD(alternate.sl, 138, 0, 4),
      FIELD(alternate.subnet_local, 138, 4, 1),
      FIELD(alternate.local_ack_timeout, 139, 0, 5),
      FIELD(sap_supported, 139, 5, 1),
      FIELD(private_data, 140, 0, 736),
  });
}

TEST(CmFields, Mra) {
  check<CmMra>({
      FIELD(local_comm_id, 0, 0, 32),
      FIELD(remote_comm_id, 4, 0, 32),
      FIELD(message, 8, 0, 2),
      FIELD(service_timeout, 9, 0, 5),
      FIELD(private_data, 10, 0, 1776),
  });
}

TEST(CmFields, Rej) {
  check<CmRej>({
      FIELD(local_comm_id, 0, 0, 32),
      FIELD(remote_comm_id, 4, 0, 32),
      FIELD(message, 8, 0, 2),
      FIELD(info_length, 9, 0, 7),
      FIELD(reason, 10, 0, 16),
      FIELD(info, 12, 0, 576),
      FIELD(private_data, 84, 0, 1184),
  });
}

TEST(CmFields, Rep) {
  check<CmRep>({
      FIELD(local_comm_id, 0, 0, 32),
      FIELD(remote_comm_id, 4, 0, 32),
      FIELD(local_qkey, 8, 0, 32),
      FIELD(local_qpn, 12, 0, 24),
      FIELD(local_eecn, 16, 0, 24),
      FIELD(starting_psn, 20, 0, 24),
      FIELD(responder_resources, 24, 0, 8),
      FIELD(initiator_depth, 25, 0, 8),
      FIELD(target_ack_delay, 26, 0, 5),
      FIELD(failover_accepted, 26, 5, 2),
      FIELD(end_to_end_flow_control, 26, 7, 1),
      FIELD(rnr_retry_count, 27, 0, 3),
      FIELD(srq, 27, 3, 1),
      FIELD(local_ca_guid, 28, 0, 64),
      FIELD(private_data, 36, 0, 1568),
  });
}

TEST(CmFields, RtuAndDrep) {
  check<CmRtu>({
      FIELD(local_comm_id, 0, 0, 32),
      FIELD(remote_comm_id, 4, 0, 32),
      FIELD(private_data, 8, 0, 1792),
  });
  check<CmDrep>({
      FIELD(local_comm_id, 0, 0, 32),
      FIELD(remote_comm_id, 4, 0, 32),
      FIELD(private_data, 8, 0, 1792),
  });
}

TEST(CmFields, Dreq) {
  check<CmDreq>({
      FIELD(local_comm_id, 0, 0, 32),
      FIELD(remote_comm_id, 4, 0, 32),
      FIELD(remote_qpn, 8, 0, 24),
      FIELD(private_data, 12, 0, 1760),
  });
}

TEST(CmFields, Lap) {
  check<CmLap>({
      FIELD(local_comm_id, 0, 0, 32),
      FIELD(remote_comm_id, 4, 0, 32),
      FIELD(remote_qpn, 12, 0, 24),
      FIELD(remote_response_timeout, 15, 0, 5),
      FIELD(alternate.local_lid, 20, 0, 16),
      FIELD(alternate.remote_lid, 22, 0, 16),
      FIELD(alternate.local_gid, 24, 0, 128),
      FIELD(alternate.remote_gid, 40, 0, 128),
      FIELD(alternate.flow_label, 56, 0, 20),
      FIELD(alternate.traffic_class, 59, 0, 8),
      FIELD(alternate.hop_limit, 60, 0, 8),
      FIELD(alternate.packet_rate, 61, 2, 6),
      FIELD(alternate.sl, 62, 0, 4),
      FIELD(alternate.subnet_local, 62, 4, 1),
      FIELD(alternate.local_ack_timeout, 63, 0, 5),
      FIELD(private_data, 64, 0, 1344),
  });
}

TEST(CmFields, Apr) {
  check<CmApr>({
      FIELD(local_comm_id, 0, 0, 32),
      FIELD(remote_comm_id, 4, 0, 32),
      FIELD(info_length, 8, 0, 8),
      FIELD(status, 9, 0, 8),
      FIELD(info, 12, 0, 576),
      FIELD(private_data, 84, 0, 1184),
  });
}

TEST(CmFields, SidrReq) {
  check<CmSidrReq>({
      FIELD(request_id, 0, 0, 32),
      FIELD(pkey, 4, 0, 16),
      FIELD(service_id, 8, 0, 64),
      FIELD(private_data, 16, 0, 1728),
  });
}

TEST(CmFields, SidrRep) {
  check<CmSidrRep>({
      FIELD(request_id, 0, 0, 32),
      FIELD(status, 4, 0, 8),
      FIELD(info_length, 5, 0, 8),
      FIELD(qpn, 8, 0, 24),
      FIELD(service_id, 12, 0, 64),
      FIELD(qkey, 20, 0, 32),
      FIELD(info, 24, 0, 576),
      FIELD(private_data, 96, 0, 1088),
  });
}

TEST(CmFields, IpHeader) {
  std::array<std::byte, CmIpHeader::kBytes> data{};
  CmIpHeader header;
  header.version = 0x12;
  header.ip_version = 6;
  header.source_port = 0x3456;
  header.source.fill(0x78);
  header.destination.fill(0x9a);
  encode(header, data);
  EXPECT_EQ(data[0], std::byte{0x12});
  EXPECT_EQ(data[1], std::byte{0x60});
  EXPECT_EQ(data[2], std::byte{0x34});
  EXPECT_EQ(data[3], std::byte{0x56});
  for (std::size_t i = 4; i < 20; ++i) EXPECT_EQ(data[i], std::byte{0x78});
  for (std::size_t i = 20; i < 36; ++i) EXPECT_EQ(data[i], std::byte{0x9a});
  EXPECT_EQ(decode_cm_ip_header(data), header);
}

TEST(MadHeader, EveryFieldAtItsPlace) {
  const MadHeader header{.management_class = ManagementClass::kPerformance,
                         .class_version = 2,
                         .method = MadMethod::kGetResponse,
                         .status = 0x0304,
                         .class_specific = 0x0506,
                         .transaction_id = 0x0708090a0b0c0d0e,
                         .attribute_id = 0x0f10,
                         .attribute_modifier = 0x11121314};
  Mad mad;
  mad.fill(std::byte{0xa5});
  encode(header, mad);
  const std::array<unsigned, kMadHeaderBytes> expected{
      0x01, 0x04, 0x02, 0x81, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a,
      0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x00, 0x00, 0x11, 0x12, 0x13, 0x14};
  for (std::size_t i = 0; i < kMadHeaderBytes; ++i)
    EXPECT_EQ(std::to_integer<unsigned>(mad[i]), expected[i]) << i;
  EXPECT_EQ(decode_mad_header(mad), header);
}

TEST(MadHeader, RefusesOtherSizesAndVersions) {
  Mad mad{};
  EXPECT_FALSE(decode_mad_header(mad));
  mad[0] = std::byte{1};
  EXPECT_TRUE(decode_mad_header(mad));
  EXPECT_FALSE(decode_mad_header(std::span(mad).first(kMadBytes - 1)));
  EXPECT_FALSE(decode_mad_header({}));
  mad[0] = std::byte{2};
  EXPECT_FALSE(decode_mad_header(mad));
}

/// The MADs of a capture, in order.
std::vector<Mad> captured_mads(const std::string& file) {
  std::vector<Mad> mads;
  for (const test::Bytes& frame : test::read_capture(file)) {
    ParsedFrame parsed;
    if (parse_frame(frame, parsed) != DropReason::kNone) continue;
    if (parsed.headers.destination.value != kGeneralServicesQpn) continue;
    EXPECT_EQ(parsed.headers.qkey, kGeneralServicesQkey);
    EXPECT_EQ(parsed.payload.size(), kMadBytes);
    Mad mad;
    std::ranges::copy(parsed.payload, mad.begin());
    mads.push_back(mad);
  }
  return mads;
}

template <class Message>
Mad again(const Mad& mad, std::uint64_t transaction_id) {
  return encode_cm(decode_cm<Message>(mad), transaction_id);
}

Mad rebuilt(const Mad& mad) {
  const auto header = decode_mad_header(mad);
  EXPECT_TRUE(header);
  const std::uint64_t id = header->transaction_id;
  switch (CmAttribute{header->attribute_id}) {
    case CmAttribute::kReq:
      return again<CmReq>(mad, id);
    case CmAttribute::kRep:
      return again<CmRep>(mad, id);
    case CmAttribute::kRtu:
      return again<CmRtu>(mad, id);
    case CmAttribute::kRej:
      return again<CmRej>(mad, id);
    case CmAttribute::kDreq:
      return again<CmDreq>(mad, id);
    case CmAttribute::kDrep:
      return again<CmDrep>(mad, id);
    default:
      ADD_FAILURE() << "attribute " << header->attribute_id;
      return {};
  }
}

TEST(CmCaptures, EveryMadIsRebuiltByteForByte) {
  std::map<std::string, int> found;
  for (const char* file : {"cm_rping.pcap", "cm_ucmatose.pcap", "cm_bw_R.pcap"})
    for (const Mad& mad : captured_mads(file)) {
      EXPECT_EQ(rebuilt(mad), mad) << file;
      ++found[name_of(CmAttribute{decode_mad_header(mad)->attribute_id})];
    }
  const std::map<std::string, int> expected{
      {"DREP", 4}, {"DREQ", 4}, {"REP", 4}, {"REQ", 4}, {"RTU", 4}};
  EXPECT_EQ(found, expected);
}

TEST(CmCaptures, ARequestOfRping) {
  const Mad mad = captured_mads("cm_rping.pcap").at(0);
  const auto req = decode_cm<CmReq>(mad);
  EXPECT_EQ(req.local_comm_id, 0xa925a4e3u);
  EXPECT_EQ(req.service_id, 0x0000000001061c06u);  // port space TCP, port 7174
  EXPECT_EQ(req.local_ca_guid, 0x505400fffed94b00u);
  EXPECT_EQ(req.local_qpn, Qpn(0x49));
  EXPECT_EQ(req.responder_resources, 1);
  EXPECT_EQ(req.initiator_depth, 1);
  EXPECT_EQ(req.remote_response_timeout, 20);
  EXPECT_EQ(req.local_response_timeout, 20);
  EXPECT_EQ(req.transport, CmTransport::kReliableConnected);
  EXPECT_EQ(req.starting_psn, Psn(0x68e851));
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.rnr_retry_count, 7);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.path_mtu, 5);
  EXPECT_EQ(req.pkey, 0xffff);
  EXPECT_EQ(req.primary.local_lid, 0xffff);
  EXPECT_EQ(req.primary.local_gid, Gid::from_ipv4(0x0a090003));
  EXPECT_EQ(req.primary.remote_gid, Gid::from_ipv4(0x0a090002));
  EXPECT_EQ(req.primary.flow_label, 0xb40a0u);
  EXPECT_EQ(req.primary.hop_limit, 64);
  EXPECT_EQ(req.primary.local_ack_timeout, 19);
  EXPECT_EQ(req.alternate, CmPath::none());
  const auto ip = decode_cm_ip_header(std::span(req.private_data).first<CmIpHeader::kBytes>());
  EXPECT_EQ(ip.version, 0);
  EXPECT_EQ(ip.ip_version, 4);
  EXPECT_EQ(ip.source[12], 10);
  EXPECT_EQ(ip.source[15], 3);
  EXPECT_EQ(ip.destination[15], 2);
  std::array<std::byte, CmIpHeader::kBytes> bytes;
  encode(ip, bytes);
  EXPECT_TRUE(std::ranges::equal(bytes, std::span(req.private_data).first<CmIpHeader::kBytes>()));
}

}  // namespace
}  // namespace softhca::wire
