// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace softhca {

/// Built with AddressSanitizer, for which tests that try many cases at random try fewer.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace softhca
