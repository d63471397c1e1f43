// SPDX-License-Identifier: Apache-2.0

// The codecs against packets that another implementation sent.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "daemon/roce/wire/arp_nd.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "daemon/roce/wire/source_port.hpp"
#include "tests/unit/roce/wire/pcap.hpp"
#include "tests/unit/roce/wire/rebuild.hpp"

namespace softhca::wire {
namespace {

using test::Bytes;

using Counts = std::map<std::string, int>;

struct IndexRow {
  std::string file;
  int packets = 0;
  Counts opcodes;
};

/// The table of INDEX.md: | file | packets | NAME 3, OTHER_NAME | (no number means one).
std::vector<IndexRow> read_index() {
  std::ifstream in(test::capture_directory() / "INDEX.md");
  std::vector<IndexRow> rows;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string bar;
    std::string list;
    IndexRow row;
    if (!(fields >> bar >> row.file >> bar >> row.packets >> bar) || bar != "|") continue;
    std::getline(fields, list, '|');
    std::istringstream items(list);
    for (std::string item; std::getline(items, item, ',');) {
      std::istringstream words(item);
      std::string opcode;
      int n = 1;
      words >> opcode;
      words >> n;
      if (words.fail()) n = 1;
      row.opcodes[opcode] += n;
    }
    rows.push_back(row);
  }
  return rows;
}

std::string index_name(const Headers& h) {
  const std::string name = opcode_info(h.opcode).name;
  return name.starts_with("RC_") ? name.substr(3) : name;
}

TEST(Captures, IndexListsEveryFile) {
  std::set<std::string> listed;
  for (const IndexRow& row : read_index()) listed.insert(row.file);
  std::set<std::string> present;
  for (const auto& entry : std::filesystem::directory_iterator(test::capture_directory()))
    if (entry.path().extension() == ".pcap") present.insert(entry.path().filename());
  EXPECT_EQ(listed, present);
  EXPECT_EQ(present.size(), 55u);
}

TEST(Captures, EveryPacketDecodesAndOpcodesAreThoseOfTheIndex) {
  for (const IndexRow& row : read_index()) {
    SCOPED_TRACE(row.file);
    Counts found;
    int packets = 0;
    for (const Bytes& frame : test::read_capture(row.file)) {
      ParsedFrame parsed;
      const DropReason reason = parse_frame(frame, parsed);
      ++packets;
      if (reason == DropReason::kNone)
        ++found[index_name(parsed.headers)];
      else if (is_foreign(reason))
        ++found["other"];
      else
        ADD_FAILURE() << "packet " << packets << ": " << name(reason);
    }
    EXPECT_EQ(packets, row.packets);
    EXPECT_EQ(found, row.opcodes);
  }
}

/// Packet 30, counted from 1: a SEND_ONLY that the kernel never acknowledged.
constexpr const char* kFileWithWrongIcrc = "hostpeer_rc_from_afpacket.pcap";
constexpr int kPacketWithWrongIcrc = 30;

TEST(Captures, EveryIcrcMatchesButOne) {
  int checked = 0;
  std::vector<std::pair<std::string, int>> wrong;
  for (const IndexRow& row : read_index()) {
    int number = 0;
    for (const Bytes& frame : test::read_capture(row.file)) {
      ++number;
      ParsedFrame parsed;
      if (parse_frame(frame, parsed) != DropReason::kNone) continue;
      ++checked;
      if (!check_icrc(parsed)) wrong.emplace_back(row.file, number);
    }
  }
  EXPECT_EQ(checked, 580);
  const std::vector<std::pair<std::string, int>> expected{
      {kFileWithWrongIcrc, kPacketWithWrongIcrc}};
  EXPECT_EQ(wrong, expected);
}

TEST(Captures, EveryPacketIsRebuiltByteForByte) {
  int rebuilt = 0;
  for (const IndexRow& row : read_index()) {
    SCOPED_TRACE(row.file);
    int number = 0;
    for (Bytes frame : test::read_capture(row.file)) {
      ++number;
      ParsedFrame parsed;
      if (parse_frame(frame, parsed) != DropReason::kNone) continue;
      Bytes again = test::rebuild(parsed);
      if (row.file == kFileWithWrongIcrc && number == kPacketWithWrongIcrc) {
        EXPECT_NE(frame, again);
        frame.resize(frame.size() - kIcrcLength);
        again.resize(again.size() - kIcrcLength);
      }
      EXPECT_EQ(frame, again) << "packet " << number;
      ++rebuilt;
    }
  }
  EXPECT_EQ(rebuilt, 580);
}

ParsedFrame first_packet(const Bytes& frame) {
  ParsedFrame parsed;
  EXPECT_EQ(parse_frame(frame, parsed), DropReason::kNone);
  return parsed;
}

TEST(Captures, TrafficClassAndFlowLabelScenario) {
  const auto frames = test::read_capture("rc_send_tos_flow.pcap");
  const ParsedFrame f = first_packet(frames.at(0));
  EXPECT_EQ(f.source, Gid::from_ipv4(0x0a090003));
  EXPECT_EQ(f.destination, Gid::from_ipv4(0x0a090002));
  EXPECT_EQ(f.traffic_class, 0x68);
  EXPECT_EQ(f.hop_limit, 64);
  EXPECT_EQ(f.identification, 14765);
  EXPECT_EQ(f.udp_source_port, source_port(0x12345, Qpn(0x1f), Qpn(0x1f)));
  EXPECT_FALSE(f.is_congested());
  EXPECT_EQ(f.headers.destination, Qpn(0x1f));
  EXPECT_EQ(f.headers.psn, Psn(1193046));
  EXPECT_TRUE(f.headers.ack_request);
  EXPECT_FALSE(f.headers.migrated);
  EXPECT_EQ(f.headers.pkey, 0xffff);
  EXPECT_EQ(f.payload.size(), 100u);
  EXPECT_EQ(f.payload[0], std::byte{0x03});
}

TEST(Captures, PadIsNotPayload) {
  // The scenarios are named by how many bytes they send beyond a multiple of four.
  for (const std::size_t odd : {1, 2, 3}) {
    const auto frames = test::read_capture("rc_send_pad" + std::to_string(odd) + ".pcap");
    const ParsedFrame f = first_packet(frames.at(0));
    EXPECT_EQ(f.headers.pad, 4 - odd);
    EXPECT_EQ(f.payload.size() % 4, odd);
  }
}

TEST(Captures, DatagramsComeFromTheHashedPort) {
  for (const char* file :
       {"pp_ud.pcap", "ud_send.pcap", "ud_send_imm.pcap", "ud_send_mtu.pcap", "cm_ucmatose.pcap"})
    for (const Bytes& frame : test::read_capture(file)) {
      const ParsedFrame f = first_packet(frame);
      if (!opcode_info(f.headers.opcode).mask.has_any(kDeth)) continue;
      EXPECT_EQ(f.udp_source_port, datagram_source_port(f.headers.source)) << file;
    }
}

TEST(Captures, ArpAndSolicitationsAreReadAndRebuilt) {
  int arp = 0;
  int solicitations = 0;
  for (const Bytes& frame : test::read_capture(kFileWithWrongIcrc)) {
    std::array<std::byte, kMaxResolutionFrame> out;
    if (const auto m = parse_arp(frame)) {
      ++arp;
      const Station self{m->sender_mac, m->vlan, m->sender};
      ArpMessage question;
      question.sender = m->target;
      question.sender_mac = m->target_mac;
      const std::size_t n = m->operation == ArpMessage::Operation::kArpRequest
                                ? build_arp_request(self, m->target, out)
                                : build_arp_reply(self, question, out);
      EXPECT_EQ(frame, Bytes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n)));
    }
    if (const auto m = parse_neighbour(frame)) {
      ++solicitations;
      EXPECT_FALSE(m->is_advertisement);
      EXPECT_TRUE(m->source.is_zero());  // a node checks that its address is unused
      EXPECT_EQ(m->destination, solicited_node_group(m->target));
      EXPECT_FALSE(m->link);
    }
  }
  EXPECT_EQ(arp, 2);
  EXPECT_EQ(solicitations, 2);
}

}  // namespace
}  // namespace softhca::wire
