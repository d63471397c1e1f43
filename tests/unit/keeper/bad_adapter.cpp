// SPDX-License-Identifier: Apache-2.0

// Libraries to which an upgrade fails: one fits and does not start, one does not fit, one does not
// say.
#include <unistd.h>

#include <cstddef>
#include <cstdio>

#include "daemon/keeper/handover.hpp"

extern "C" [[gnu::visibility("default")]] int softhca_adapter(const softhca::keeper::Handover*, int,
                                                              char**) {
  return 5;
}

extern "C" [[gnu::visibility("default")]] bool softhca_adapter_fits(
    const softhca::keeper::Handover*, int, char**, char* why, std::size_t room) {
  if (FITS) return true;
  std::snprintf(why, room, "it is too old");
  return false;
}
