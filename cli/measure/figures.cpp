// SPDX-License-Identifier: Apache-2.0

#include "cli/measure/figures.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace softhca::cli {
namespace {

// More than any machine has, and small enough for all that is computed of it.
constexpr double kMostFigure = 1e15;

/// Returns a member that is a number above 0.
double figure(const Json& object, const char* key) {
  const double value = object.at(key);
  if (!(value > 0 && value < kMostFigure))
    throw CommandError(kUsage, std::string(key) + " is " + object.at(key).dump() +
                                   ", which cannot have been measured");
  return value;
}

Json list_of(const std::vector<WriteRate>& rates) {
  Json list = Json::array();
  for (const WriteRate& rate : rates)
    list.push_back({{"bytes", rate.bytes},
                    {"messages_per_second", rate.best},
                    {"bytes_per_second", rate.byte_rate()},
                    {"of_memcpy", rate.best / rate.memcpy},
                    {"least_turn", rate.least / rate.best}});
  return list;
}

std::vector<WriteRate> rates_in(const Json& list) {
  std::vector<WriteRate> rates;
  for (const Json& entry : list) {
    const double best = figure(entry, "messages_per_second");
    rates.push_back({.bytes = static_cast<std::uint64_t>(figure(entry, "bytes")),
                     .best = best,
                     .least = best * figure(entry, "least_turn"),
                     .memcpy = best / figure(entry, "of_memcpy")});
  }
  return rates;
}

}  // namespace

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
  return {.session = object.at("session_bytes"),
          .queue_pair = object.at("queue_pair_bytes"),
          .queue_pair_queues = object.at("queue_pair_queue_bytes"),
          .queue_pair_depth = object.at("queue_pair_depth"),
          .completion_entry = object.at("completion_entry_queue_bytes"),
          .registered_gib = object.at("registered_gib_bytes")};
}

Json document_of(const Figures& figures) {
  const MemoryCosts& memory = figures.memory;
  return {{"local", list_of(figures.local)},
          {"wire", list_of(figures.wire)},
          {"latency_us", {{"median", figures.latency_p50_us}, {"p99", figures.latency_p99_us}}},
          {"together", figures.together},
          {"memory",
           {{"session_bytes", memory.session},
            {"queue_pair_bytes", memory.queue_pair},
            {"queue_pair_queue_bytes", memory.queue_pair_queues},
            {"queue_pair_depth", memory.queue_pair_depth},
            {"completion_entry_bytes", memory.completion_entry},
            {"registered_gib_bytes", memory.registered_gib}}}};
}

Figures figures_of(const Json& document) {
  const Json& latency = document.at("latency_us");
  const Json& memory = document.at("memory");
  Figures figures{.local = rates_in(document.at("local")),
                  .wire = rates_in(document.at("wire")),
                  .together = {},
                  .latency_p50_us = figure(latency, "median"),
                  .latency_p99_us = figure(latency, "p99"),
                  .memory = {.session = figure(memory, "session_bytes"),
                             .queue_pair = figure(memory, "queue_pair_bytes"),
                             .queue_pair_queues = figure(memory, "queue_pair_queue_bytes"),
                             .queue_pair_depth = figure(memory, "queue_pair_depth"),
                             .completion_entry = figure(memory, "completion_entry_bytes"),
                             .registered_gib = figure(memory, "registered_gib_bytes")}};
  for (const Json& rate : document.at("together")) {
    const Json entry = {{"together", rate}};
    figures.together.push_back(figure(entry, "together"));
  }
  if (figures.local.empty() || figures.wire.empty() || figures.together.empty())
    throw CommandError(kUsage, "a rate is missing");
  return figures;
}

}  // namespace softhca::cli
