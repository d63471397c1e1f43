// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/fault_request.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

namespace softhca::control {
namespace {

using engine::FaultDirection;
using engine::FaultKind;
using engine::FaultTerms;

// Bounds of the parameters. A fault without `for_s` ends after kForSeconds, even if the operator
// forgets it.
constexpr double kForSeconds = 300;
constexpr double kLeastForSeconds = 0.1;
constexpr double kMostForSeconds = 86400;
constexpr double kLeastDelaySeconds = 1e-6;
constexpr double kMostDelaySeconds = 10;
constexpr double kReorderSeconds = 0.01;
constexpr std::uint64_t kReorderBy = 3;
constexpr std::uint64_t kMostReorderBy = 64;
constexpr std::uint64_t kMostCount = 1'000'000'000;
constexpr std::uint64_t kMostQpn = (1u << 24) - 1;

constexpr std::array<std::pair<const char*, FaultDirection>, 3> kDirections = {
    {{"both", FaultDirection::kBoth},
     {"sent", FaultDirection::kSent},
     {"received", FaultDirection::kReceived}}};

Duration duration_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}
double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string decimal(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

/// Reads members of the parameters. Keeps the first error.
class Reader {
 public:
  explicit Reader(const Json& params) : params_(params) {}

  bool has(const char* key) const { return params_.contains(key) && !params_.at(key).is_null(); }
  std::uint64_t whole(const char* key, std::uint64_t least, std::uint64_t most,
                      std::uint64_t otherwise) {
    if (!has(key)) return otherwise;
    const Json& value = params_.at(key);
    if (value.is_number_unsigned() && value.get<std::uint64_t>() >= least &&
        value.get<std::uint64_t>() <= most)
      return value.get<std::uint64_t>();
    fail(std::string(key) + " must be a whole number, " + std::to_string(least) + " to " +
         std::to_string(most));
    return otherwise;
  }
  double number(const char* key, double least, double most, double otherwise) {
    if (!has(key)) return otherwise;
    const Json& value = params_.at(key);
    if (value.is_number() && value.get<double>() >= least && value.get<double>() <= most)
      return value.get<double>();
    fail(std::string(key) + " must be a number, " + decimal(least) + " to " + decimal(most));
    return otherwise;
  }
  void forbid(const char* key, const char* why) {
    if (has(key)) fail(std::string(key) + " is only " + why);
  }
  void fail(std::string why) {
    if (problem_.empty()) problem_ = std::move(why);
  }
  const std::string& problem() const { return problem_; }

 private:
  const Json& params_;
  std::string problem_;
};

void read_kind(Reader& reader, const Json& params, FaultTerms& terms) {
  const auto name = params.at("kind").get<std::string>();
  if (const auto kind = fault_kind(name)) {
    terms.kind = *kind;
    return;
  }
  std::string known;
  for (std::size_t i = 0; i < engine::kFaultKinds; ++i)
    known += (i == 0 ? "" : ", ") + std::string(name_of(static_cast<FaultKind>(i)));
  reader.fail("no such fault: " + name + "; known: " + known);
}

void read_direction(Reader& reader, const Json& params, FaultTerms& terms) {
  if (!reader.has("direction")) return;
  const auto name = params.at("direction").get<std::string>();
  bool known = false;
  for (const auto& [text, direction] : kDirections) {
    if (name != text) continue;
    terms.direction = direction;
    known = true;
  }
  if (!known) reader.fail("direction must be both, sent or received, not " + name);
  if (terms.kind == FaultKind::kRnr && terms.direction == FaultDirection::kSent)
    reader.fail("rnr affects only what the target receives; leave out direction");
}

void read_chance(Reader& reader, FaultTerms& terms) {
  if (reader.has("probability") == reader.has("every"))
    reader.fail(reader.has("every") ? "give only one of probability and every"
                                    : "give probability or every");
  terms.every = reader.whole("every", 1, kMostCount, 0);
  terms.probability = reader.number("probability", 0, 1, 0);
  if (reader.has("probability") && terms.probability == 0)
    reader.fail("probability must be above 0");
  terms.count = reader.whole("count", 1, kMostCount, 0);
  terms.seed = reader.whole("seed", 0, UINT64_MAX, 1);
}

void read_time(Reader& reader, Time now, FaultTerms& terms) {
  const bool delays = terms.kind == FaultKind::kDelay;
  const bool reorders = terms.kind == FaultKind::kReorder;
  if (delays && !reader.has("delay_s")) reader.fail("delay needs delay_s");
  if (!delays && !reorders) reader.forbid("delay_s", "for delay and reorder");
  if (!delays) reader.forbid("jitter_s", "for delay");
  if (!reorders) reader.forbid("by", "for reorder");
  if (delays || reorders)
    terms.delay = duration_of(
        reader.number("delay_s", kLeastDelaySeconds, kMostDelaySeconds, kReorderSeconds));
  terms.jitter = duration_of(reader.number("jitter_s", 0, kMostDelaySeconds, 0));
  if (reorders)
    terms.by = static_cast<std::uint32_t>(reader.whole("by", 1, kMostReorderBy, kReorderBy));
  terms.until =
      now + duration_of(reader.number("for_s", kLeastForSeconds, kMostForSeconds, kForSeconds));
}

}  // namespace

std::optional<FaultKind> fault_kind(std::string_view name) {
  for (std::size_t i = 0; i < engine::kFaultKinds; ++i)
    if (const auto kind = static_cast<FaultKind>(i); name == name_of(kind)) return kind;
  return std::nullopt;
}

Expected<FaultTerms> fault_terms(const Json& params, Time now) {
  if (!params.is_object()) return Error{"the parameters of a fault must be an object", EINVAL};
  Reader reader(params);
  FaultTerms terms;
  read_kind(reader, params, terms);
  read_direction(reader, params, terms);
  read_chance(reader, terms);
  read_time(reader, now, terms);
  if (reader.has("qpn"))
    terms.qpn = Qpn(static_cast<std::uint32_t>(reader.whole("qpn", 1, kMostQpn, 0)));
  if (!reader.problem().empty()) return Error{reader.problem(), EINVAL};
  return terms;
}

Json to_json(const engine::Fault& fault, Time now) {
  const FaultTerms& terms = fault.terms();
  Json out = {{"number", fault.number()},
              {"kind", name_of(terms.kind)},
              {"left_s", seconds_of(std::max(terms.until - now, Duration(0)))},
              {"met", fault.met().value()},
              {"injected", fault.injected().value()}};
  if (terms.qpn) out["qpn"] = terms.qpn->value;
  for (const auto& [text, direction] : kDirections)
    if (terms.direction == direction) out["direction"] = text;
  if (terms.every != 0) {
    out["every"] = terms.every;
  } else {
    out["probability"] = terms.probability;
    out["seed"] = terms.seed;
  }
  if (terms.count != 0) out["count"] = terms.count;
  if (terms.delay != Duration::zero()) out["delay_s"] = seconds_of(terms.delay);
  if (terms.jitter != Duration::zero()) out["jitter_s"] = seconds_of(terms.jitter);
  if (terms.by != 0) out["by"] = terms.by;
  return out;
}

std::string chance_text(const FaultTerms& terms) {
  std::string text = terms.every != 0
                         ? "each n-th packet or message, n = " + std::to_string(terms.every)
                         : "each packet or message with probability " + decimal(terms.probability);
  if (terms.count != 0) text += ", at most " + std::to_string(terms.count) + " of them";
  return text;
}

}  // namespace softhca::control
