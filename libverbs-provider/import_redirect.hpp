// Points an imported function of an already loaded library somewhere else.
#pragma once

namespace softhca::provider {

/// In the loaded object that contains the code at `inside`, makes the import `name` call
/// `replacement`. False when the object or the import is not found, or its memory cannot be
/// changed; nothing is changed then.
bool redirect_import(const void* inside, const char* name, void* replacement);

}  // namespace softhca::provider
