// SPDX-License-Identifier: Apache-2.0

#include "cli/measure/figures.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace softhca::cli {

std::vector<WriteRate> rates_of(const std::vector<Json>& objects) {
  std::map<std::pair<std::uint64_t, unsigned>, WriteRate> found;  // by bytes and queue pairs
  for (const Json& object : objects) {
    if (object.at("measure") != "rate") continue;
    const auto bytes = object.at("bytes").get<std::uint64_t>();
    const double rate = object.at("messages_per_second");
    const auto [at, is_new] =
        found.try_emplace({bytes, object.at("queue_pairs")},
                          WriteRate{.bytes = bytes, .best = 0, .least = rate, .memcpy = 0});
    WriteRate& of = at->second;
    of.best = std::max(of.best, rate);
    of.least = std::min(of.least, rate);
    of.memcpy = std::max(of.memcpy, object.at("memcpy_per_second").get<double>());
  }
  std::vector<WriteRate> rates;
  for (const auto& [key, rate] : found) {
    if (rates.empty() || rates.back().bytes != rate.bytes)
      rates.push_back(rate);
    else if (rates.back().best < rate.best)
      rates.back() = rate;
  }
  return rates;
}

std::vector<double> together_of(const std::vector<Json>& objects, std::size_t clients) {
  std::vector<double> best, turn;
  const auto sum = [](const std::vector<double>& of) {
    return std::accumulate(of.begin(), of.end(), 0.0);
  };
  // Clients begin each turn together, and print when they have ended it.
  for (const Json& object : objects) {
    turn.push_back(object.at("messages_per_second"));
    if (turn.size() < clients) continue;
    if (sum(turn) > sum(best)) best = turn;
    turn.clear();
  }
  return best;
}

MemoryCosts memory_of(const Json& object) {
  return {.daemon = object.at("daemon_bytes"),
          .daemon_own = object.at("daemon_own_bytes"),
          .session = object.at("session_bytes"),
          .queue_pair = object.at("queue_pair_bytes"),
          .queue_pair_queues = object.at("queue_pair_queue_bytes"),
          .queue_pair_depth = object.at("queue_pair_depth"),
          .completion_entry = object.at("completion_entry_queue_bytes"),
          .registered_gib = object.at("registered_gib_bytes")};
}

}  // namespace softhca::cli
