// SPDX-License-Identifier: Apache-2.0

// The form of the tables of counters. Each counter has one row, in the table of the structure that
// holds it (tenant_counters.hpp, ...): its place, its names and the text that explains it.
//
// The following read the tables: the Prometheus endpoint (operate/metrics), `counters` and `status`
// of the admin socket (operate/admin), the files in `hw_counters` of the device tree
// (frontend/unix). Those in `counters` come from roce/performance/pma_counters.hpp. The HELP lines
// of a scrape are the reference for operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>

#include "daemon/base/counter.hpp"

namespace softhca::counters {

/// Reads the values of a row from a structure: one value, or one for each index from `first`.
template <class S>
struct Values {
  std::uint64_t (*read)(const S& from, std::size_t index) = nullptr;
  std::size_t first = 0, end = 1;
  /// Returns the label value of an index. Null: the index is not shown.
  const char* (*name)(std::size_t index) = nullptr;
};

/// A label of a metric.
struct Label {
  const char* name = nullptr;
  const char* value = nullptr;
};

/// The other properties of a row.
struct Also {
  const char* label = nullptr;  ///< a label besides those of the structure
  const char* value = nullptr;  ///< its value; null: Values::name
  double unit = 1;              ///< what a count of 1 means in the metric and in the JSON member
  const char* json = nullptr;   ///< member of the admin socket's answer, the sum of the values
  const char* file = nullptr;   ///< in the folder `hw_counters` of the device tree
};

/// The following set one of them. Example: label("way", "vcb", json("commands_vcb"))
constexpr Also label(const char* name, const char* value = nullptr, Also also = {}) {
  also.label = name;
  also.value = value;
  return also;
}
constexpr Also unit(double of_one, Also also = {}) {
  also.unit = of_one;
  return also;
}
constexpr Also json(const char* member, Also also = {}) {
  also.json = member;
  return also;
}
constexpr Also file(const char* name, Also also = {}) {
  also.file = name;
  return also;
}

/// A counter. A metric that ends in "_total" is a counter to Prometheus, any other a gauge.
template <class S>
struct Row {
  const char* metric;  ///< null: none
  const char* help;    ///< empty: an earlier row has the same metric
  Values<S> values;
  Also also = {};

  bool is_counter() const { return std::string_view(metric).ends_with("_total"); }
};

inline constexpr const char* kSame = "";  ///< the help text of an earlier row
inline constexpr double kNanoseconds = 1e-9;

/// Returns the member `path...` of `from`. A step is a data member or a const function; pointers on
/// the way are followed.
template <auto step, auto... rest, class S>
decltype(auto) member_of(const S& from) {
  if constexpr (sizeof...(rest) == 0)
    return std::invoke(step, from);
  else
    return member_of<rest...>(std::invoke(step, from));
}

inline std::uint64_t value_of(std::uint64_t plain) { return plain; }
template <class Rep>
std::uint64_t value_of(const BasicCounter<Rep>& counter) {
  return counter.value();
}

template <class S, class T>
std::type_identity<S> structure_of(T S::*);
template <auto step>
using StructureOf = typename decltype(structure_of(step))::type;

/// One value of a structure that inherits what the path begins with.
template <class S, auto... path>
inline constexpr Values<S> at_in{
    [](const S& from, std::size_t) -> std::uint64_t { return value_of(member_of<path...>(from)); }};
/// One value. Example: at<&TenantCounters::collect, &CollectCounters::in_pieces>
template <auto step, auto... rest>
inline constexpr Values<StructureOf<step>> at = at_in<StructureOf<step>, step, rest...>;

template <class Enum>
const char* name_at(std::size_t index) {
  return name_of(static_cast<Enum>(index));
}

/// The elements of an array from `first` on; the elements are named by the values of its type.
template <auto first, auto step, auto... rest>
inline constexpr Values<StructureOf<step>> each_from{
    [](const StructureOf<step>& from, std::size_t index) {
      return value_of(member_of<step, rest...>(from)[index]);
    },
    static_cast<std::size_t>(first), static_cast<std::size_t>(decltype(first)::kCount),
    name_at<decltype(first)>};
template <class Enum, auto step, auto... rest>
inline constexpr Values<StructureOf<step>> each = each_from<Enum{}, step, rest...>;

/// One element of such an array.
template <auto element, auto array>
inline constexpr Values<StructureOf<array>> element_of{
    [](const StructureOf<array>& from, std::size_t) {
      return value_of((from.*array)[static_cast<std::size_t>(element)]);
    }};

/// Calls f(value, label value) for each value that a row shows.
template <class S, class F>
void for_each_value(const Row<S>& row, const S& from, F&& f) {
  const Values<S>& values = row.values;
  for (std::size_t i = values.first; i < values.end; ++i) {
    const char* const name = values.name == nullptr ? row.also.value : values.name(i);
    if (values.name == nullptr || name != nullptr) f(values.read(from, i), name);
  }
}

/// Returns the sum of all values of a row.
template <class S>
std::uint64_t sum_of(const Row<S>& row, const S& from) {
  std::uint64_t sum = 0;
  for_each_value(row, from, [&](std::uint64_t value, const char*) { sum += value; });
  return sum;
}

}  // namespace softhca::counters
