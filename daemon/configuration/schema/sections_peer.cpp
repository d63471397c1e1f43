// SPDX-License-Identifier: Apache-2.0

// The keys of [[peer]].
#include "daemon/configuration/schema/reader.hpp"
#include "daemon/configuration/schema/schema.hpp"
#include "daemon/configuration/schema/text_rules.hpp"

namespace softhca::configuration {
namespace {

constexpr const char* kNoAddresses =
    "is missing; name hosts, such as [\"10.0.0.2\", \"10.1.0.0/16\"]";

constexpr Key kPeerKeys[] = {
    {.name = "name",
     .at = at<&PeerConfig::name>,
     .text = kSafeName,
     .missing = kNameMissing,
     .shown = Shown::kOff,
     .sample = "\"rack-7\""},
    {.name = "addresses",
     .at = at<&PeerConfig::addresses>,
     .missing = kNoAddresses,
     .doc = "hosts or multicast groups; the longest prefix decides",
     .shown = Shown::kOff,
     .sample = "[\"10.0.7.0/24\", \"fd00:7::/64\"]"},
    {.name = "key_file",
     .at = at<&PeerConfig::key_file>,
     .text = {[](std::string_view text) { return text.empty() || text.starts_with('/'); },
              "must be an absolute path, beginning with '/', or \"\" for none"},
     .doc = "File with one key a line, up to four, each of 64 hexadecimal digits (openssl rand "
            "-hex 32). Packets are sent with the first key and accepted with any of them. The file "
            "belongs to root or the daemon's user and has mode 0600. The daemon reads it at the "
            "start and at each reload. \"\": no keys.",
     .shown = Shown::kOff,
     .sample = "\"/etc/softhca/rack-7.keys\""},
    {.name = "plain",
     .at = at<&PeerConfig::plain>,
     .words = kPlainPackets,
     .doc = "Packets without a tag. \"refuse\": they are dropped. \"allow\": received ones are "
            "accepted. \"send\": they are accepted, and packets to these hosts are sent without a "
            "tag, for the time until the other side has the keys.",
     .shown = Shown::kOff,
     .sample = "\"refuse\""},
};

void check_peer(Reader& reader, void*) {
  const Value* given = reader.find("addresses");
  if (given != nullptr && given->array() != nullptr && given->array()->empty())
    reader.complain("addresses", kNoAddresses);
}
constexpr Schema kPeer{
    .comment =
        "Hosts with which packets are authenticated: they and this host share keys, and packets "
        "end with a tag made with a key instead of the ICRC (docs/security.md). Hosts that no "
        "[[peer]] names send plain packets. To refuse plain packets of all hosts, add a peer "
        "without key_file for [\"0.0.0.0/0\", \"::/0\"]. A reload changes all of it while programs "
        "run.",
    .keys = kPeerKeys,
    .check = check_peer};

}  // namespace

template <>
const Schema& schema_of<PeerConfig>() {
  return kPeer;
}

}  // namespace softhca::configuration
