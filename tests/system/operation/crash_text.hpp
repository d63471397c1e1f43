// SPDX-License-Identifier: Apache-2.0

// What crash_on_text.cpp crashes at: as long as a GID.
#pragma once

inline constexpr char kCrashText[] = "end the adapter!";
