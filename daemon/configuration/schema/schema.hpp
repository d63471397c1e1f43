// SPDX-License-Identifier: Apache-2.0

// The schema of the configuration. Each key is described once, in a table (sections_*.cpp): its
// name, the place of its value, its range or words, and the sentence that explains it. The table
// also says whether a reload or `softhcactl set` can change the key while the daemon runs. The
// default is the value in a default-constructed structure.
//
// The following use the tables: parsing and its messages (schema_read.hpp), the differences that a
// reload makes (reload_plan.hpp), changes by `set` (live_settings.hpp), the sample configuration
// (schema_print.hpp).
#pragma once

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "daemon/base/net.hpp"
#include "daemon/configuration/address.hpp"
#include "daemon/configuration/config.hpp"
#include "daemon/configuration/live_settings.hpp"
#include "daemon/configuration/tenant_share.hpp"

namespace softhca::configuration {

class Reader;
struct Schema;
struct Key;

using Importances = decltype(SrqPolicy::limits);

/// The form of a value.
enum class Type : std::uint8_t {
  kBoolean,
  kInteger,  ///< of Access::bytes bytes
  kFactor,   ///< a number with a fraction
  kShare,    ///< a percentage, as text
  kWord,     ///< one of Key::words: an enumeration, in their order
  kText,
  kSeconds,
  kAddress,          ///< of a host, IPv4 or IPv6
  kAddresses,        ///< a list of addresses of hosts
  kSubnets,          ///< a list of addresses with prefix lengths
  kPrefixes,         ///< a list of prefixes with which addresses are compared
  kNames,            ///< a list of users or groups
  kNumbers,          ///< a list of small numbers
  kImportances,      ///< a number for each importance
  kEveryImportance,  ///< one number for all importances
  kTvls,             ///< their number; the keys of each are those of TvlConfig
  kTable,            ///< Key::table
};

/// The place of a value in the structure of its section, and type-erased functions on it.
struct Access {
  Type type = Type::kInteger;
  std::size_t bytes = 0;                                ///< size of the member
  std::uint64_t greatest = 0;                           ///< kInteger: of the type
  const void* (*place)(const void* section) = nullptr;  ///< returns the member
  const void* (*look)(const void* section) = nullptr;   ///< returns the value; null: not given
  void* (*reach)(void* section) = nullptr;              ///< the same; creates the value
  void (*copy)(void* to, const void* from) = nullptr;   ///< copies the member between sections
  bool (*same)(const void* one, const void* other) = nullptr;
  std::uint64_t (*amount)(const void* value) = nullptr;  ///< see amount_in()
  void (*set)(void* value, std::uint64_t amount) = nullptr;
};

template <class T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return Type::kBoolean;
  else if constexpr (std::is_unsigned_v<T>)
    return Type::kInteger;
  else if constexpr (std::is_same_v<T, double>)
    return Type::kFactor;
  else if constexpr (std::is_same_v<T, Share>)
    return Type::kShare;
  else if constexpr (std::is_enum_v<T>)
    return Type::kWord;
  else if constexpr (std::is_same_v<T, std::string>)
    return Type::kText;
  else if constexpr (std::is_same_v<T, std::chrono::seconds>)
    return Type::kSeconds;
  else if constexpr (std::is_same_v<T, Gid>)
    return Type::kAddress;
  else if constexpr (std::is_same_v<T, std::vector<Gid>>)
    return Type::kAddresses;
  else if constexpr (std::is_same_v<T, std::vector<InterfaceAddress>>)
    return Type::kSubnets;
  else if constexpr (std::is_same_v<T, std::vector<AddressPrefix>>)
    return Type::kPrefixes;
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return Type::kNames;
  else if constexpr (std::is_same_v<T, std::vector<std::uint8_t>>)
    return Type::kNumbers;
  else if constexpr (std::is_same_v<T, std::vector<TvlConfig>>)
    return Type::kTvls;
  else if constexpr (std::is_same_v<T, Importances>)
    return Type::kImportances;
  else
    return Type::kTable;
}

/// A member that may be absent is an optional.
template <class T>
struct Given {
  using Value = T;
  static const void* look(const T& member) { return &member; }
  static void* reach(T& member) { return &member; }
};
template <class T>
struct Given<std::optional<T>> {
  using Value = T;
  static const void* look(const std::optional<T>& member) { return member ? &*member : nullptr; }
  static void* reach(std::optional<T>& member) { return member ? &*member : &member.emplace(); }
};

template <class T>
std::uint64_t amount_at(const void* value) {
  const T& given = *static_cast<const T*>(value);
  if constexpr (std::is_same_v<T, std::chrono::seconds>)
    return static_cast<std::uint64_t>(given.count());
  else if constexpr (std::is_same_v<T, double>)
    return static_cast<std::uint64_t>(std::llround(given * 1000));
  else if constexpr (std::is_same_v<T, Share>)
    return given.tenths;
  else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
    return static_cast<std::uint64_t>(given);
  else
    return 0;
}

template <class T>
void set_amount_at(void* value, std::uint64_t amount) {
  T& target = *static_cast<T*>(value);
  if constexpr (std::is_same_v<T, std::chrono::seconds>)
    target = std::chrono::seconds(amount);
  else if constexpr (std::is_same_v<T, double>)
    target = static_cast<double>(amount) / 1000;
  else if constexpr (std::is_same_v<T, Share>)
    target.tenths = static_cast<std::uint32_t>(amount);
  else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
    target = static_cast<T>(amount);
}

template <class T>
constexpr std::uint64_t greatest_of() {
  if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::max();
  return std::numeric_limits<std::uint64_t>::max();
}

template <class S, class T>
S section_of(T S::*);  // for its type

/// Returns section.*first.*second...
template <auto first, auto... rest, class S>
auto& member_of(S& section) {
  if constexpr (sizeof...(rest) == 0)
    return section.*first;
  else
    return member_of<rest...>(section.*first);
}

/// The member `first` of a section, or a member of that member.
template <auto first, auto... rest>
struct At {
  using Section = decltype(section_of(first));
  using Member = std::remove_cvref_t<decltype(member_of<first, rest...>(std::declval<Section&>()))>;
  using Value = typename Given<Member>::Value;
  static const Member& of(const void* section) {
    return member_of<first, rest...>(*static_cast<const Section*>(section));
  }
  static Member& of(void* section) {
    return member_of<first, rest...>(*static_cast<Section*>(section));
  }
  static constexpr Access access{
      .type = type_of<Value>(),
      .bytes = sizeof(Member),
      .greatest = greatest_of<Value>(),
      .place = [](const void* section) -> const void* { return &of(section); },
      .look = [](const void* section) { return Given<Member>::look(of(section)); },
      .reach = [](void* section) { return Given<Member>::reach(of(section)); },
      .copy = [](void* to, const void* from) { of(to) = of(from); },
      .same = [](const void* one, const void* other) { return of(one) == of(other); },
      .amount = amount_at<Value>,
      .set = set_amount_at<Value>};
};
/// Example: at<&PoolsConfig::vcbs>
template <auto... path>
inline constexpr const Access& at = At<path...>::access;

/// The range of a number with a fraction.
struct Factors {
  double least = 0;
  double most = 1;
};

/// A rule for text that is not one of a list of words.
struct TextRule {
  bool (*accepts)(std::string_view text) = nullptr;
  const char* complaint = "";
};

// The reasons why a key cannot change while the daemon runs; "": it can.
inline constexpr const char* kLive = "";
inline constexpr const char* kTables = "the daemon lays out its tables only when it starts";
inline constexpr const char* kAdmin = "the daemon opens this socket only when it starts";
inline constexpr const char* kSockets = "running programs use paths below it";
inline constexpr const char* kState = "the daemon reads saved requests only when it starts";
inline constexpr const char* kThread = "the engine's thread gets its core only when it starts";
inline constexpr const char* kDevice = "running programs have read the device's attributes";
inline constexpr const char* kTenantDevice = "running programs have found the device by it";
inline constexpr const char* kPort = "the daemon opens ports only when it starts";

/// How the sample configuration shows a key.
enum class Shown : std::uint8_t {
  kOn,           ///< with its default
  kOff,          ///< "#key = sample": the default cannot be written in a file
  kAlternative,  ///< "# key = sample": excludes the keys beside it
};

struct Key {
  const char* name;
  Access at;
  Range range = {};                              ///< of a whole number, or of each number in a list
  Factors factors = {};                          ///< kFactor
  std::span<const std::string_view> words = {};  ///< kWord
  TextRule text = {};                            ///< kText
  const char* missing = nullptr;                 ///< error message if it is not given
  const Schema& (*table)() = nullptr;            ///< kTable
  bool whole = false;                            ///< kTable: a reload shows it as one value
  bool octal = false;                            ///< written in octal
  bool is_alias = false;                         ///< another key has the same value
  bool apart = false;                            ///< a special reader reads it, see read_key()
  // Bounds that are other keys of the section. The greatest value is `most_key` less `below`.
  const char* most_key = nullptr;
  std::uint64_t below = 0;
  const char* least_key = nullptr;
  bool in_pool = false;   ///< at most the key of [pools] with the same name
  const char* hint = "";  ///< follows the message that a value is out of range
  const char* refusal = kLive;
  std::optional<LiveSetting> set = {};  ///< softhcactl set
  const char* unit = "";
  const char* doc = "";   ///< description in the sample
  const char* lead = "";  ///< a paragraph before this key and the following ones
  Shown shown = Shown::kOn;
  const char* sample = "";  ///< its value in the sample; empty: the default
};

struct Schema {
  const char* comment = "";  ///< description in the sample
  std::span<const Key> keys;
  /// Checks rules between several keys of `section`. All of its keys have been read.
  void (*check)(Reader& reader, void* section) = nullptr;
};

/// Returns the keys of a structure.
template <class S>
const Schema& schema_of() = delete;
template <>
const Schema& schema_of<DaemonConfig>();
template <>
const Schema& schema_of<AdminConfig>();
template <>
const Schema& schema_of<MetricsConfig>();
template <>
const Schema& schema_of<PoolsConfig>();
template <>
const Schema& schema_of<DoorbellConfig>();
template <>
const Schema& schema_of<AdjustmentConfig>();
template <>
const Schema& schema_of<CongestionParameters>();
template <>
const Schema& schema_of<ReliabilityParameters>();
template <>
const Schema& schema_of<GeneralServicesConfig>();
template <>
const Schema& schema_of<ConnectionsConfig>();
template <>
const Schema& schema_of<DeviceConfig>();
template <>
const Schema& schema_of<PortConfig>();
template <>
const Schema& schema_of<PeerConfig>();
template <>
const Schema& schema_of<TenantConfig>();
template <>
const Schema& schema_of<TenantDevice>();
template <>
const Schema& schema_of<SocketConfig>();
template <>
const Schema& schema_of<TvlConfig>();
template <>
const Schema& schema_of<LevelConfig>();
template <>
const Schema& schema_of<SentLimits>();
template <>
const Schema& schema_of<InboundLimits>();
template <>
const Schema& schema_of<ServedLimits>();
template <>
const Schema& schema_of<SrqPolicy>();
template <>
const Schema& schema_of<SrqRule>();

/// Calls f(name, member of Config) for each section that occurs once in the file, in its order. The
/// other sections are [connections], which is copied into tenants, [[port]], [[peer]] and
/// [[tenant]].
template <class F>
void for_each_section(F&& f) {
  f("daemon", &Config::daemon);
  f("admin", &Config::admin);
  f("metrics", &Config::metrics);
  f("pools", &Config::pools);
  f("doorbells", &Config::doorbells);
  f("adjustment", &Config::adjustment);
  f("congestion", &Config::congestion);
  f("reliability", &Config::reliability);
  f("general_services", &Config::general_services);
  f("shared_datagrams", &Config::shared_datagrams);
  f("device", &Config::device);
}

/// The description of [shared_datagrams], which has the schema of [general_services].
inline constexpr const char* kSharedDatagrams =
    "Queue pair 2, which programs share: the same keys, with the same defaults.";

/// The description of [[template]], which has the schema of [[tenant]].
inline constexpr const char* kTemplates =
    "Templates of the tenants that `softhcactl tenant create` makes while the daemon runs. A "
    "template has the keys of [[tenant]], with levels and TVLs. `name` is that of the template. "
    "Each new tenant gets the first free one of `addresses`; without `addresses`, the command "
    "names them. The default limits of a template with a share are this share of [pools]. If a "
    "template has none, what the shares leave is divided by pools.tenants. docs/reload.md has the "
    "rest.";

/// Returns the key with this name; null if there is none.
const Key* find_key(const Schema& table, std::string_view name);

/// Returns the range of the key without other keys, in whole numbers.
Range range_of(const Key& key);

/// Returns a value as a whole number: yes is 1, a word is its index, a factor is in thousandths, a
/// share in tenths of a percent. 0: not given. REQUIRES: not a list, text or table.
std::uint64_t amount_in(const Key& key, const void* section);
void set_amount(const Key& key, void* section, std::uint64_t amount);

/// Returns the value as the operator would write it. A duration has its unit; an absent value is
/// "none".
std::string to_text(const Key& key, const void* section);
/// Returns, for example, "{ owner = "", group = "", mode = 0o660 }".
std::string to_text(const Schema& table, const void* section);
std::string to_text(double value);
/// Returns, for example, ["a", "b"].
std::string to_text(const std::vector<std::string>& values);
/// Returns, for example, [1, 2].
std::string to_text(const std::vector<std::uint8_t>& values);

/// Does the same for a structure.
template <class S>
std::string describe(const S& section) {
  return to_text(schema_of<S>(), &section);
}

}  // namespace softhca::configuration
