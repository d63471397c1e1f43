// SPDX-License-Identifier: Apache-2.0

// The counters of tables as members of answers.
#pragma once

#include "daemon/counters/counter_table.hpp"
#include "daemon/operate/admin/admin_methods.hpp"

namespace softhca::control {

/// Adds the counters of a table to the members of `out` that their rows name.
template <class S, std::size_t size>
void add_counters(Json& out, const counters::Row<S> (&rows)[size], const S& from) {
  for (const counters::Row<S>& row : rows) {
    if (row.also.json == nullptr) continue;
    const std::uint64_t sum = counters::sum_of(row, from);
    Json& member = out[row.also.json];
    if (row.also.unit != 1)
      member = static_cast<double>(sum) * row.also.unit;
    else
      member = sum + (member.is_null() ? 0 : member.get<std::uint64_t>());
  }
}
template <class S, std::size_t size>
Json counters_in(const counters::Row<S> (&rows)[size], const S& from) {
  Json out = Json::object();
  add_counters(out, rows, from);
  return out;
}

}  // namespace softhca::control
