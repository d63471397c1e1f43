// SPDX-License-Identifier: Apache-2.0

// Which state changes are allowed and what they take, for every pair of states and every attribute,
// as text that is compared with an approved file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "daemon/engine/records/qp_attributes.hpp"

namespace softhca::engine {
namespace {

constexpr const char* kAttributes[] = {
    "state",    "cur_state",     "sqd_notify", "access_flags", "pkey_index", "port",   "qkey",
    "av",       "path_mtu",      "timeout",    "retry_count",  "rnr_retry",  "rq_psn", "max_rd",
    "alt_path", "min_rnr_timer", "sq_psn",     "max_dest_rd",  "path_mig",   "cap",    "dest_qpn"};
constexpr const char* kStates[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"};
constexpr std::uint32_t kAll = (1u << std::size(kAttributes)) - 1;

std::string names(std::uint32_t mask) {
  std::string out;
  for (std::size_t i = 0; i < std::size(kAttributes); ++i)
    if ((mask >> i & 1) != 0) out += std::string(" ") + kAttributes[i];
  return out.empty() ? " none" : out;
}

/// What the specification requires for one change or another (table 91).
constexpr std::uint32_t kStarts[] = {
    0,
    attr::kPkeyIndex | attr::kPort | attr::kAccessFlags,
    attr::kPkeyIndex | attr::kPort | attr::kQkey,
    attr::kAv | attr::kPathMtu | attr::kDestQpn | attr::kRqPsn | attr::kMaxDestRdAtomic |
        attr::kMinRnrTimer,
    attr::kAv | attr::kPathMtu | attr::kDestQpn | attr::kRqPsn,
    attr::kTimeout | attr::kRetryCount | attr::kRnrRetry | attr::kSqPsn | attr::kMaxRdAtomic,
    attr::kSqPsn,
};

/// Finds by asking which attributes are required and which are optional. "-": never allowed.
std::string describe(QpType type, QpState from, QpState to) {
  std::uint32_t accepted = kAll + 1;
  for (const std::uint32_t mask : kStarts)
    if (!check_transition(type, from, to, mask)) accepted = mask;
  if (accepted > kAll) {
    std::minstd_rand random;
    for (int i = 0; i < 2000; ++i)
      EXPECT_TRUE(check_transition(type, from, to, random() & kAll).is_unknown);
    return " -";
  }
  std::uint32_t most = accepted;
  for (std::size_t i = 1; i < std::size(kAttributes); ++i) {
    const std::uint32_t bit = 1u << i;
    if (!check_transition(type, from, to, most | bit)) most |= bit;
  }
  std::uint32_t least = most;
  for (std::size_t i = 1; i < std::size(kAttributes); ++i)
    if (!check_transition(type, from, to, least & ~(1u << i))) least &= ~(1u << i);
  EXPECT_FALSE(check_transition(type, from, to, least | 1)) << "with the state named";
  return ": required" + names(least) + "; optional" + names(most & ~least);
}

TEST(Transitions, AreAsApproved) {
  std::string text;
  const std::pair<const char*, QpType> types[] = {{"RC", QpType::kRc},
                                                  {"UC", QpType::kUc},
                                                  {"UD", QpType::kUd},
                                                  {"XRC_SEND", QpType::kXrcSend},
                                                  {"XRC_RECV", QpType::kXrcReceive}};
  for (const auto& [name, type] : types)
    for (std::size_t from = 0; from < std::size(kStates); ++from)
      for (std::size_t to = 0; to < std::size(kStates); ++to)
        text += std::string(name) + " " + kStates[from] + " -> " + kStates[to] +
                describe(type, static_cast<QpState>(from), static_cast<QpState>(to)) + "\n";
  const char* root = std::getenv("SOFTHCA_SOURCE_ROOT");
  const std::string path =
      std::string(root == nullptr ? "." : root) + "/tests/unit/engine/transitions.approved";
  std::ifstream file(path);
  std::stringstream approved;
  approved << file.rdbuf();
  EXPECT_EQ(text, approved.str()) << "differs from " << path;
  if (text != approved.str()) std::ofstream("transitions.received") << text;
}

}  // namespace
}  // namespace softhca::engine
