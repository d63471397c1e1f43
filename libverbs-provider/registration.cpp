// SPDX-License-Identifier: Apache-2.0

// Compiled once for each number of the private interface (SOFTHCA_INTERFACE): the part in which the
// plugins differ.
#include <dlfcn.h>

#include "libverbs-provider/device.hpp"
#include "libverbs-provider/private_interfaces.hpp"

#define WITH_NUMBER(name, number) name##number
#define NUMBERED(name, number) WITH_NUMBER(name, number)
#define REGISTER_DRIVER NUMBERED(verbs_register_driver_, SOFTHCA_INTERFACE)

extern "C" void REGISTER_DRIVER(const softhca::provider::abi34::DeviceOps* ops);

namespace softhca::provider {
namespace {

/// True if the libibverbs of this process has a function that one of its versions added.
bool library_has(const char* function) {
  void* library = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  const bool found = ::dlsym(library, function) != nullptr;
  ::dlclose(library);
  return found;
}

[[gnu::constructor]] void register_provider() { REGISTER_DRIVER(&kDeviceOps); }

}  // namespace

int library_version() {
  switch (SOFTHCA_INTERFACE) {
    case 34:
    case 57:
      return kFirstVersion;
    case 59:
      return library_has("ibv_query_port_speed") ? kVersion62 : kVersion59;
    default:
      return SOFTHCA_INTERFACE;
  }
}

}  // namespace softhca::provider
