// SPDX-License-Identifier: Apache-2.0

// The version of the protocol between daemon and provider: the messages of the tenant socket
// (control.hpp) and the memory that both map (session.hpp, rings.hpp, command.hpp). The provider
// states in its first request which versions it speaks, and the daemon answers with the newest
// version that both speak. Both keep to it until the connection ends. CONTRIBUTING.md says which
// changes need a new version.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>

namespace softhca::abi {

struct ProtocolVersion {
  std::uint32_t version;
  const char* release;  ///< the first release that speaks it
  const char* change;   ///< from the version before
};
/// All versions that releases have spoken.
inline constexpr ProtocolVersion kProtocolVersions[] = {
    {4, "0.1.0", "none: the first release has it"},
};

/// The newest version.
inline constexpr std::uint32_t kAbiVersion = 4;
static_assert(std::end(kProtocolVersions)[-1].version == kAbiVersion);
static_assert(kAbiVersion - kProtocolVersions[0].version + 1 == std::size(kProtocolVersions),
              "the versions follow each other");

/// Daemon and provider speak so many versions: the newest ones.
inline constexpr std::size_t kVersionsSpoken = 3;

struct VersionRange {
  std::uint32_t oldest;
  std::uint32_t newest;
  bool operator==(const VersionRange&) const = default;
};

inline constexpr VersionRange kSpokenVersions{
    kProtocolVersions[std::max(std::size(kProtocolVersions), kVersionsSpoken) - kVersionsSpoken]
        .version,
    kAbiVersion};

/// Returns the range that a process states. A provider of before the negotiation states one
/// version, and 0 as the newest.
constexpr VersionRange stated_range(VersionRange sent) {
  if (sent.newest == 0) sent.newest = sent.oldest;
  return sent;
}

/// Returns the newest version that both speak, or 0: there is none. A range without versions
/// (oldest > newest) or with version 0 is invalid, so it has none in common with another.
constexpr std::uint32_t choose_version(VersionRange daemon, VersionRange provider) {
  if (provider.oldest == 0 || provider.oldest > provider.newest) return 0;
  const std::uint32_t newest = std::min(daemon.newest, provider.newest);
  return newest >= std::max(daemon.oldest, provider.oldest) ? newest : 0;
}

/// Returns the version of the connection, by the daemon's answer to a provider that stated this
/// range. Returns 0 if the provider does not speak the version. A daemon of before the negotiation
/// answers 0: it has accepted the oldest version.
constexpr std::uint32_t answered_version(VersionRange provider, std::uint32_t answer) {
  if (answer == 0) return provider.oldest;
  return answer >= provider.oldest && answer <= provider.newest ? answer : 0;
}

/// Returns the range that a refusal states. A daemon of before the negotiation states none, and
/// speaks version 4.
constexpr VersionRange refused_range(VersionRange answer) {
  return answer.oldest == 0 ? VersionRange{4, 4} : answer;
}

/// Room for the text of explain_mismatch().
inline constexpr std::size_t kMismatchBytes = 192;

/// Writes what each side speaks, and which side to upgrade. REQUIRES: choose_version() returned 0.
inline void explain_mismatch(VersionRange daemon, VersionRange provider,
                             char (&out)[kMismatchBytes]) {
  const auto write_range = [](VersionRange range, char(&text)[32]) {
    if (range.oldest == range.newest)
      std::snprintf(text, sizeof text, "%u", range.oldest);
    else
      std::snprintf(text, sizeof text, "%u to %u", range.oldest, range.newest);
  };
  char daemons[32], providers[32];
  write_range(daemon, daemons);
  write_range(provider, providers);
  std::snprintf(out, sizeof out,
                "the provider speaks protocol version %s, the daemon %s; upgrade %s", providers,
                daemons,
                provider.oldest > daemon.newest
                    ? "the daemon (package softhca)"
                    : "the provider (package softhca-provider) where the program runs");
}

}  // namespace softhca::abi
