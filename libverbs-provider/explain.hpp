// SPDX-License-Identifier: Apache-2.0

// Why verbs fail. With SOFTHCA_DEBUG=1 in the environment, each verb that fails prints one line on
// standard error: its name and the reason. A check that fails records the reason by refuse(), and
// the entry of the verb prints it by failed(). Verbs that succeed do neither.
#pragma once

#include <cstddef>
#include <span>

namespace softhca::provider {

/// Reads the environment. Call it when the device is found and opened.
void read_debug_setting();
/// True if reasons are printed.
bool is_explaining();

/// Records why the current verb of this thread fails: the attribute, its value, and what is
/// allowed. A later record replaces it. Returns `error`, an errno value.
[[gnu::cold, gnu::format(printf, 2, 3)]] int refuse(int error, const char* format, ...);
/// As refuse(), for a connection to the daemon that has ended. Returns EIO.
[[gnu::cold]] int refuse_lost();
/// As refuse(), by the body of the daemon's answer (abi::kMaxRefusalText). It may lie in two parts.
[[gnu::cold]] int refuse_as_answered(int error, std::span<const std::byte> begin,
                                     std::span<const std::byte> rest = {});
/// Drops what was recorded, as the verb has succeeded.
void forget_reason();

/// Ends a verb that fails: prints its line, and sets errno. Returns `error`.
[[gnu::cold]] int failed(const char* verb, int error);
/// Ends a verb that returns 0 or an errno value: as failed(), unless `error` is 0.
inline int report(const char* verb, int error) { return error == 0 ? 0 : failed(verb, error); }

}  // namespace softhca::provider
