// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/srq_advice.hpp"

#include <algorithm>
#include <cstdio>

namespace softhca::control {
namespace {

constexpr std::uint32_t kRounded = 16;  ///< sizes are advised in steps of this many
constexpr std::uint32_t kReserve = 8;   ///< an eighth above the peak

std::string text_of(std::uint64_t number) { return std::to_string(number); }

std::uint32_t rounded(std::uint64_t size) {
  return static_cast<std::uint32_t>((size + kRounded - 1) / kRounded * kRounded);
}

std::string share_of(std::uint64_t part, std::uint64_t whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g %%",
                100 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

std::string name_of(const SrqUser& user) {
  return "queue pair " + text_of(user.qpn.value) +
         (user.peer.empty() ? "" : " (peer " + user.peer + ")");
}

/// Returns the setting that the limit comes from, and that changes it.
std::string setting_of(const SrqUser& user) {
  if (user.own_limit) return "softhcactl qp set " + text_of(user.qpn.value) + " srq_limit";
  if (user.rule != 0) return "limit of srq_rule " + text_of(user.rule);
  return "srq.limit of the tenant";
}

/// Returns advice on the size of a queue. An attempt that found no receive is repeated until there
/// is one. So the attempts do not tell how many receives are missing. The queue pairs that waited
/// do: each needs at least one.
std::string size_advice(const SrqFigures& it) {
  const std::string peak = "peak " + text_of(it.peak) + " of " + text_of(it.size);
  if (it.empty == 0) {
    const std::uint32_t enough = rounded(it.peak + it.peak / kReserve + 1);
    return peak + ", never empty: " +
           (enough < it.size ? text_of(enough) + " would have been enough" : "its size is right");
  }
  const std::string found = peak + ", " + share_of(it.empty, it.empty + it.draws) +
                            " of attempts found it empty, up to " + text_of(it.most_waiting) +
                            " queue pairs at once: ";
  if (it.most_available < it.size / 2)
    return found + "its program posts no more than " + text_of(it.most_available) +
           " receives at once; let it post more before it makes the queue longer";
  return found + text_of(rounded(std::uint64_t{it.size} + it.most_waiting)) +
         " would have been enough for one more message of each; or let the program post its "
         "receives sooner";
}

std::string over_soft_limit(const SrqUser& user) {
  const std::uint32_t enough = user.held + user.held / kReserve + 1;
  return name_of(user) + " holds " + text_of(user.held) + " receives, " +
         text_of(user.held - user.limit) + " over its soft limit: if that is its normal use, set " +
         setting_of(user) + " to " + text_of(enough) +
         "; to bound it, make the limit hard (kind = \"hard\", on_exceed = \"quarantine\")";
}

std::string in_quarantine(const SrqUser& user) {
  return name_of(user) + " is in quarantine with " + text_of(user.held) +
         " receives: its program has to process and post them; if it should hold as many, raise " +
         setting_of(user);
}

std::string without_limit(const SrqUser& user, const SrqFigures& it) {
  return name_of(user) + " drew " + share_of(user.draws, it.lately) +
         " of the recent receives and has no limit: softhcactl qp set " + text_of(user.qpn.value) +
         " srq_limit=" + text_of(std::max(it.size / 4, 1u)) + " leaves the others three quarters";
}

}  // namespace

std::vector<std::string> advice_on(const SrqFigures& figures) {
  std::vector<std::string> advice;
  if (figures.draws + figures.empty == 0) return advice;
  advice.push_back(size_advice(figures));
  if (figures.refused != 0)
    advice.push_back(share_of(figures.refused, figures.refused + figures.draws) +
                     " of attempts were refused by limits (" + text_of(figures.refused) +
                     "): their senders wait");
  // If the queue runs short of receives, its largest users matter.
  const bool short_of = figures.empty != 0 || figures.peak > figures.size - figures.size / 8;
  for (const SrqUser& user : figures.users) {
    if (user.quarantined)
      advice.push_back(in_quarantine(user));
    else if (user.soft && user.limit != 0 && user.held > user.limit)
      advice.push_back(over_soft_limit(user));
    else if (short_of && user.limit == 0 && user.draws != 0 && figures.queue_pairs > 1)
      advice.push_back(without_limit(user, figures));
  }
  return advice;
}

}  // namespace softhca::control
