// SPDX-License-Identifier: Apache-2.0

#include "cli/ctl/engine_processor.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "cli/ctl_text.hpp"

namespace softhca::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostProcesses = 256, kMostThreads = 64;
constexpr unsigned kLooks = 20, kTellingLooks = 5;
constexpr double kBusy = 0.02;  // share of a processor that a thread takes at least

std::vector<fs::path> threads_of(std::uint32_t process) {
  std::vector<fs::path> threads;
  std::error_code gone;
  for (fs::directory_iterator at("/proc/" + std::to_string(process) + "/task", gone), end;
       !gone && at != end && threads.size() < kMostThreads; at.increment(gone))
    threads.push_back(at->path());
  return threads;
}

/// Returns the processor on which a thread runs, or ran last: proc(5) stat, field 39. The name in
/// brackets is field 2.
std::optional<int> processor_of(const fs::path& thread) {
  std::string text;
  std::getline(std::ifstream(thread / "stat"), text);
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  const std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
  if (words.size() < 37) return std::nullopt;
  return std::atoi(words[36].c_str());
}

std::optional<fs::path> engine_of(std::uint32_t adapter) {
  for (const fs::path& thread : threads_of(adapter)) {
    std::string name;
    std::getline(std::ifstream(thread / "comm"), name);
    if (name == "softhca-engine") return thread;
  }
  return std::nullopt;
}

/// Returns the nanoseconds that a thread has run: Documentation/scheduler/sched-stats.rst.
std::int64_t time_of(const fs::path& thread) {
  std::int64_t time = 0;
  std::ifstream(thread / "schedstat") >> time;
  return time;
}

/// The threads of a process, as they were last seen.
class Threads {
 public:
  explicit Threads(std::uint32_t process) : process_(process) {}
  /// True if a thread has run on the processor for so many nanoseconds since the last call.
  bool have_run(int processor, std::int64_t least) {
    bool have = false;
    for (const fs::path& thread : threads_of(process_)) {
      const std::int64_t time = time_of(thread);
      const auto [before, is_new] = times_.try_emplace(thread, time);
      if (time - std::exchange(before->second, time) < least) continue;
      have |= processor_of(thread) == processor;
    }
    return have;
  }

 private:
  std::uint32_t process_;
  std::map<fs::path, std::int64_t> times_;
};

}  // namespace

Json processes_of(AdminClient& daemon, const std::string& tenant) {
  const Json shown = daemon.read("tenant.show", {{"name", tenant}});
  Json all = Json::array();
  for (const Json& process : shown.at("processes"))
    if (all.size() < kMostProcesses)
      all.push_back({{"pid", process.at("pid")}, {"comm", process.at("comm")}});
  return all;
}

Json look_at_engine_processor(std::uint32_t adapter, const Json& processes,
                              std::chrono::duration<double> time) {
  const auto engine = engine_of(adapter);
  if (!engine) return {};
  std::vector<Threads> threads;
  for (const Json& process : processes)
    threads.emplace_back(process.at("pid").get<std::uint32_t>());
  std::vector<unsigned> seen(threads.size());
  const auto interval = time / kLooks;
  const auto least = static_cast<std::int64_t>(kBusy * interval / std::chrono::nanoseconds(1));
  // The tenant decides how long a look takes.
  const auto end = std::chrono::steady_clock::now() + time;
  std::int64_t before = time_of(*engine);
  std::optional<int> processor;
  for (unsigned look = 0; look < kLooks && std::chrono::steady_clock::now() < end; ++look) {
    processor = processor_of(*engine);
    if (!processor) return {};
    const std::int64_t now = time_of(*engine);
    const bool is_busy = now - std::exchange(before, now) >= least;
    for (std::size_t i = 0; i < threads.size(); ++i)
      if (threads[i].have_run(*processor, least) && is_busy) ++seen[i];
    std::this_thread::sleep_for(interval);
  }
  if (!processor) return {};
  Json sharers = Json::array();
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] < kTellingLooks) continue;
    Json sharer = processes[i];
    sharer["share"] = static_cast<double>(seen[i]) / kLooks;
    sharers.push_back(std::move(sharer));
  }
  return {{"processor", *processor}, {"shared_by", std::move(sharers)}};
}

void print_sharers(const Json& engine_processor, const Output& out) {
  if (engine_processor.is_null()) return;
  for (const Json& sharer : engine_processor.at("shared_by"))
    out.print("process " + cell(sharer, "pid") + " (" + cell(sharer, "comm") +
              ") shares processor " + cell(engine_processor, "processor") + " with the engine\n");
}

}  // namespace softhca::cli
