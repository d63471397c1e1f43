// The keys of [[peer]].
#include "daemon/resource/reader.hpp"
#include "daemon/resource/schema.hpp"
#include "daemon/resource/text_rules.hpp"

namespace softhca::resource {
namespace {

constexpr const char* kNoAddresses = "is missing; name hosts, as [\"10.0.0.2\", \"10.1.0.0/16\"]";

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
     .doc = "hosts, or multicast groups; the longest prefix decides",
     .shown = Shown::kOff,
     .sample = "[\"10.0.7.0/24\", \"fd00:7::/64\"]"},
    {.name = "key_file",
     .at = at<&PeerConfig::key_file>,
     .text = {[](std::string_view text) { return text.empty() || text.starts_with('/'); },
              "must be an absolute path, beginning with '/', or \"\" for none"},
     .doc = "A key a line, up to four, each 64 hexadecimal digits (openssl rand -hex 32): packets "
            "are sent with the first and taken with any of them. Root's or the daemon's, mode "
            "0600. It is read at the start and by each reload. \"\": no keys.",
     .shown = Shown::kOff,
     .sample = "\"/etc/softhca/rack-7.keys\""},
    {.name = "plain",
     .at = at<&PeerConfig::plain>,
     .words = kPlainPackets,
     .doc = "Packets without a tag: \"refuse\", \"allow\" (those that come are taken), \"send\" "
            "(besides, those to these hosts are sent without; for the time until the other side "
            "has the keys).",
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
        "Hosts whose packets are authenticated: they and this one share keys, and packets end with "
        "a tag of these in place of the ICRC (docs/security.md). Hosts that no [[peer]] names send "
        "plain packets. To take no plain packet from anybody: a peer without key_file for "
        "[\"0.0.0.0/0\", \"::/0\"]. A reload changes all of it while programs run.",
    .keys = kPeerKeys,
    .check = check_peer};

}  // namespace

template <>
const Schema& schema_of<PeerConfig>() {
  return kPeer;
}

}  // namespace softhca::resource
