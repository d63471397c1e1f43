// SPDX-License-Identifier: Apache-2.0

// A client of softhcad's admin socket. It sends one line of JSON-RPC 2.0 and reads one line back.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace softhca::cli {

using Json = nlohmann::json;

/// Exit codes of softhcactl.
inline constexpr int kRefused = 1;      ///< the daemon refused the request
inline constexpr int kUsage = 2;        ///< the command line has an error
inline constexpr int kUnreachable = 3;  ///< no daemon, no permission, or the daemon ended
inline constexpr int kUnwritten = 4;    ///< the output cannot be written

/// Ends the program with a message and an exit code.
class CommandError : public std::runtime_error {
 public:
  CommandError(int code, const std::string& message, Json data = {}, int reason = 0)
      : std::runtime_error(message), code_(code), data_(std::move(data)), reason_(reason) {}
  int code() const { return code_; }
  /// Returns the code of the daemon's error (kRefused) or an errno value (kUnreachable); 0:
  /// unknown.
  int reason() const { return reason_; }
  /// Returns details that the daemon sent with its message; null: none.
  const Json& data() const { return data_; }

 private:
  int code_;
  Json data_;
  int reason_;
};

/// The daemon has closed the connection.
class Disconnected : public CommandError {
 public:
  explicit Disconnected(const std::string& path)
      : CommandError(kUnreachable, path + ": the daemon closed the connection") {}
};

class AdminClient {
 public:
  /// Connects. Throws CommandError if no daemon listens there, or this user has no permission. A
  /// call fails if the daemon has not replied within `timeout_seconds`.
  explicit AdminClient(const std::string& path, int timeout_seconds = 30);
  ~AdminClient();
  /// Connects anew, as the daemon has ended the connection. Throws as the constructor.
  void reconnect();
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

  /// Calls a method and returns the result. Throws CommandError: kRefused with the daemon's
  /// message, kUnreachable, or Disconnected.
  Json call(const std::string& method, const Json& params = Json::object());
  /// Does the same with a method that changes nothing. If the daemon ends the connection, as it
  /// does at an upgrade, the method is called once more.
  Json read(const std::string& method, const Json& params = Json::object());
  /// Returns the descriptors that came with answers. They are closed with the client.
  const std::vector<int>& descriptors() const { return descriptors_; }
  /// Returns the whole list of `method`, which the daemon sends in pages, as one document. `tenant`
  /// empty: all tenants.
  Json whole_list(const std::string& method, const std::string& tenant);

 private:
  void connect();
  void send(const std::string& text);
  std::string receive_line();
  ssize_t receive(std::span<char> bytes);

  std::string path_;
  int timeout_seconds_;
  int socket_ = -1;
  unsigned next_id_ = 1;
  std::string input_;
  std::vector<int> descriptors_;
};

}  // namespace softhca::cli
