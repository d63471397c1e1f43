// Points an imported function of an already loaded library somewhere else.
#pragma once

#include <span>

namespace softhca::provider {

/// In the loaded object that contains the code at `inside`, makes the import `name` call
/// `replacement`. False when the object or the import is not found, or its memory cannot be
/// changed; nothing is changed then.
bool redirect_import(const void* inside, const char* name, void* replacement);

struct Redirection {
  const char* name;
  void* replacement;
};
/// The same for every loaded library whose file name begins with `file`, in the order given; ends
/// where memory cannot be changed. Imports that a library does not have are skipped. Safe while
/// other threads load and unload libraries.
void redirect_imports_of(const char* file, std::span<const Redirection> redirections);

}  // namespace softhca::provider
