// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/schema/key_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "daemon/base/small_file.hpp"

namespace softhca::configuration {
namespace {

constexpr std::size_t kLongestFile = 16384;

std::optional<unsigned> digit_of(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return std::nullopt;
}

std::optional<PeerSecret> parse_secret(std::string_view digits) {
  PeerSecret secret;
  if (digits.size() != 2 * secret.size()) return std::nullopt;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const auto high = digit_of(digits[2 * i]), low = digit_of(digits[2 * i + 1]);
    if (!high || !low) return std::nullopt;
    secret[i] = static_cast<std::byte>(*high << 4 | *low);
  }
  return secret;
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) - begin + 1);
}

Error error_at(unsigned line, const std::string& text) {
  return {"line " + std::to_string(line) + ": " + text, EINVAL};
}

/// Checks the permissions: only the owner of the file and root may read or write it.
Outcome check_rights(int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return Error{std::strerror(errno), errno};
  if (!S_ISREG(info.st_mode)) return Error{"is not a regular file", EINVAL};
  if (info.st_uid != 0 && info.st_uid != ::geteuid())
    return Error{"its owner is neither root nor the daemon's user; change it with chown", EPERM};
  if ((info.st_mode & 077) != 0)
    return Error{"its group or other users may access it; restrict it with chmod 600", EPERM};
  return {};
}

}  // namespace

Expected<std::vector<PeerSecret>> parse_keys(std::string_view text) {
  std::vector<PeerSecret> secrets;
  for (unsigned number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const auto secret = parse_secret(line);
    if (!secret)
      return error_at(
          number,
          "not a key: expected 64 hexadecimal digits (make one with `openssl rand -hex 32`)");
    // An attacker would try such a key first.
    if (std::ranges::count(*secret, secret->front()) == std::ssize(*secret))
      return error_at(number, "the key repeats one byte (make one with `openssl rand -hex 32`)");
    if (std::ranges::find(secrets, *secret) != secrets.end())
      return error_at(number, "the key is in an earlier line, too; delete one of them");
    if (secrets.size() == kMostPeerKeys)
      return error_at(number, "one key too many; a file may hold " + std::to_string(kMostPeerKeys));
    secrets.push_back(*secret);
  }
  if (secrets.empty()) return Error{"holds no key (make one with `openssl rand -hex 32`)", EINVAL};
  return secrets;
}

Expected<std::vector<PeerSecret>> read_key_file(const std::string& path) {
  const auto at = [&](const Error& error) {
    return Error{path + ": " + error.message, error.code};
  };
  auto text = read_small_file(path, kLongestFile + 1, check_rights);
  if (!text) return at(text.error());
  if (text->size() > kLongestFile)
    return at({"longer than " + std::to_string(kLongestFile) + " bytes", EFBIG});
  auto secrets = parse_keys(*text);
  ::explicit_bzero(text->data(), text->size());
  if (!secrets) return at(secrets.error());
  return secrets;
}

}  // namespace softhca::configuration
