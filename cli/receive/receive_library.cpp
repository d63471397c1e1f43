// SPDX-License-Identifier: Apache-2.0

// The C library by which the owner of shared receive queues sees and limits their users. See
// softhca/receive.h.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/admin_client.hpp"
#include "cli/receive/softhca/receive.h"

using softhca::cli::AdminClient;
using softhca::cli::CommandError;
using softhca::cli::Json;

struct softhca_receive {
  explicit softhca_receive(const std::string& socket) : daemon(socket) {}
  std::mutex mutex;
  AdminClient daemon;
  std::uint64_t last_event = 0;
};

namespace {

/// Codes of the daemon's refusals (docs/admin-socket.md).
int errno_of_refusal(int code) {
  switch (code) {
    case 1:
      return EAGAIN;
    case 2:
      return ENOENT;
    case 6:
      return EPERM;
    case -32602:
      return EINVAL;
    default:
      return EPROTO;
  }
}

/// Calls f(daemon), and returns its result or a negative errno value.
template <class F>
int guarded(F&& f) {
  try {
    return f();
  } catch (const CommandError& error) {
    if (error.code() == softhca::cli::kRefused) return -errno_of_refusal(error.reason());
    return error.reason() == EACCES ? -EACCES : -ENOTCONN;
  } catch (const Json::exception&) {
    return -EPROTO;
  } catch (const std::exception&) {
    return -ENOMEM;
  }
}

template <class F>
int with_daemon(softhca_receive* receive, F&& f) {
  if (receive == nullptr) return -EINVAL;
  return guarded([&] {
    const std::lock_guard lock(receive->mutex);
    return f(receive->daemon);
  });
}

template <std::size_t N>
void copy_text(const Json& from, const char* key, char (&to)[N]) {
  std::snprintf(to, N, "%s", from.value(key, std::string()).c_str());
}

softhca_receive_user user_of(const Json& entry, const char* held, const char* limit,
                             const char* quarantined, const char* peer) {
  softhca_receive_user user{};
  user.qpn = entry.at("qpn").get<std::uint32_t>();
  user.held = entry.value(held, 0u);
  user.limit = entry.value(limit, 0u);
  user.quarantined = entry.value(quarantined, false) ? 1 : 0;
  user.draws = entry.value("draws", std::uint64_t{0});
  copy_text(entry, peer, user.peer);
  return user;
}

/// Returns the first entry of a list from `number` on, if it has this number.
std::optional<Json> entry_of(AdminClient& daemon, const char* list, const char* key,
                             std::uint32_t number) {
  const Json page = daemon.read(list, {{"after", std::int64_t{number} - 1}, {"limit", 1}}).at(list);
  if (page.empty() || page.front().at(key) != number) return std::nullopt;
  return page.front();
}

/// Returns the value of a key of the policy: a number, true, false or a word.
Json value_of(const std::string& text) {
  const Json value = Json::parse(text, nullptr, false);
  return value.is_number() || value.is_boolean() ? value : Json(text);
}

Json term_of(std::int64_t value) { return value == SOFTHCA_RECEIVE_DEFAULT ? Json() : Json(value); }

}  // namespace

extern "C" {

int softhca_receive_open(const char* socket, softhca_receive** receive) {
  if (receive == nullptr) return -EINVAL;
  return guarded([&] {
    std::string path = socket != nullptr ? socket : "";
    if (socket == nullptr) {
      const char* const folder = ::secure_getenv("SOFTHCA_RUNTIME_DIR");
      const char* const tenant = ::secure_getenv("SOFTHCA_TENANT");
      if (folder == nullptr || tenant == nullptr) return -ENODEV;
      path = std::string(folder) + '/' + tenant + "/control.sock";
    }
    *receive = std::make_unique<softhca_receive>(path).release();
    return 0;
  });
}

void softhca_receive_close(softhca_receive* receive) { delete receive; }

int softhca_receive_queues(softhca_receive* receive, std::uint32_t pid,
                           softhca_receive_queue* queues, std::size_t most) {
  return with_daemon(receive, [&](AdminClient& daemon) {
    const Json list = daemon.whole_list("srqs", "");
    std::size_t found = 0;
    for (const Json& srq : list.at("srqs")) {
      const auto owner = srq.at("pid").get<std::uint32_t>();
      if ((pid != 0 && owner != pid) || found++ >= most) continue;
      const Json limits = srq.value("provisioning", Json::object());
      queues[found - 1] = {.number = srq.at("srq").get<std::uint32_t>(),
                           .pid = owner,
                           .size = srq.at("max_wr").get<std::uint32_t>(),
                           .available = srq.value("available", 0u),
                           .queue_pairs = srq.at("queue_pairs").get<std::uint32_t>(),
                           .quarantined = limits.value("quarantined", 0u),
                           .refused = limits.value("refused", std::uint64_t{0})};
    }
    return static_cast<int>(found);
  });
}

int softhca_receive_ranking(softhca_receive* receive, std::uint32_t queue,
                            softhca_receive_user* users, std::size_t most) {
  return with_daemon(receive, [&](AdminClient& daemon) {
    const auto srq = entry_of(daemon, "srqs", "srq", queue);
    if (!srq) return -ENOENT;
    const Json& board = srq->at("score_board");
    const std::size_t count = std::min(most, board.size());
    for (std::size_t i = 0; i < count; ++i)
      users[i] = user_of(board[i], "held", "limit", "quarantined", "peer");
    return static_cast<int>(count);
  });
}

int softhca_receive_find(softhca_receive* receive, std::uint32_t qpn, softhca_receive_user* user) {
  return with_daemon(receive, [&](AdminClient& daemon) {
    const auto qp = entry_of(daemon, "qps", "qpn", qpn);
    if (!qp || !qp->contains("srq")) return -ENOENT;
    *user = user_of(*qp, "srq_held", "srq_limit", "srq_quarantined", "destination");
    return 0;
  });
}

int softhca_receive_set(softhca_receive* receive, std::uint32_t qpn, std::int64_t limit,
                        int importance) {
  return with_daemon(receive, [&](AdminClient& daemon) {
    Json terms = {{"qpn", qpn}};
    if (limit != SOFTHCA_RECEIVE_KEEP) terms["srq_limit"] = term_of(limit);
    if (importance != SOFTHCA_RECEIVE_KEEP) terms["importance"] = term_of(importance);
    daemon.read("qp.set", terms);  // again, where the daemon has just been replaced
    return 0;
  });
}

int softhca_receive_policy(softhca_receive* receive, const char* key, const char* value) {
  if (key == nullptr || value == nullptr || !std::string_view(key).starts_with("srq."))
    return -EINVAL;
  return with_daemon(receive, [&](AdminClient& daemon) {
    const Json change = {{"resource", key}, {"amount", value_of(value)}};
    daemon.read("set", {{"changes", Json::array({change})}});
    return 0;
  });
}

int softhca_receive_events(softhca_receive* receive, softhca_receive_event* events,
                           std::size_t most) {
  return with_daemon(receive, [&](AdminClient& daemon) {
    if (most == 0) return 0;
    for (;;) {
      const Json page = daemon.read("events", {{"after", receive->last_event}, {"limit", most}});
      const Json& found = page.at("events");
      const auto last = page.at("last").get<std::uint64_t>();
      const bool is_end = last == std::exchange(receive->last_event, last);
      for (std::size_t i = 0; i < found.size(); ++i) {
        softhca_receive_event& event = events[i];
        event = {};
        event.number = found[i].at("number").get<std::uint64_t>();
        event.time = found[i].at("time").get<double>();
        event.qpn = found[i].value("qpn", 0u);
        event.pid = found[i].value("pid", 0u);
        copy_text(found[i], "kind", event.name);
        copy_text(found[i], "text", event.text);
      }
      if (!found.empty() || is_end) return static_cast<int>(found.size());
    }
  });
}

}  // extern "C"
