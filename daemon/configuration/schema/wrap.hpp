// SPDX-License-Identifier: Apache-2.0

// Formats text for documents and messages: quotes it, or wraps it to a greatest line length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace softhca::configuration {

inline std::string quoted(const std::string& text) { return '"' + text + '"'; }

/// Wraps a text. Each line begins with `prefix` and ends with a newline. An empty text has no line.
/// Lines break at blanks only.
inline std::string wrapped(const std::string& text, const std::string& prefix, std::size_t width) {
  std::string out, line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && prefix.size() + line.size() + 1 + word.size() > width) {
      out += prefix + line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return line.empty() ? out : out + prefix + line + '\n';
}

}  // namespace softhca::configuration
