// SPDX-License-Identifier: Apache-2.0

// Redirects an imported function of a loaded library.
#pragma once

#include <span>

namespace softhca::provider {

/// Makes the import `name` of the loaded object with the code at `inside` call `replacement`.
/// False: the object or the import was not found, or its memory cannot be changed; then nothing
/// changes.
bool redirect_import(const void* inside, const char* name, void* replacement);

struct Redirection {
  const char* name;
  void* replacement;
};
/// As above, for each loaded library with a file name that begins with `file`, in the given order.
/// Stops where memory cannot be changed, and skips imports that a library does not have. Safe while
/// other threads load and unload libraries.
void redirect_imports_of(const char* file, std::span<const Redirection> redirections);

}  // namespace softhca::provider
