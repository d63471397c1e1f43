// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/goodput.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/sim/rc_world.hpp"

namespace softhca::sim {
namespace {

struct Row {
  double loss = 0;  ///< percent
  double frames = 0;
  double milliseconds = 0;
  double of_clean = 0;  ///< goodput
};

/// What the receiver does with packets that arrive after a lost one.
struct Mode {
  const char* name;
  bool keeps;
  /// Tolerance of the time. The last packet of a run may be lost by chance, which costs a timeout
  /// of 4.2 ms unless a probe finds the loss.
  double lucky_milliseconds;
};
constexpr Mode kModes[] = {{"keeps", true, 1}, {"drops", false, 9}};

constexpr double kLosses[] = {0, 0.01, 0.1, 0.5, 1, 2, 5};
// A single timeout can dominate the time of a short run, so several runs are added.
constexpr std::uint64_t kRuns = 8;

RcOutcome run_loss(const Mode& mode, double loss) {
  RcSettings s;
  s.faults.drop = loss;
  s.attributes.timeout = 10;
  s.attributes.retry_count = 255;
  s.attributes.max_rd_atomic = s.attributes.max_dest_rd_atomic = 4;
  s.attributes.selective_repeat = true;
  s.attributes.out_of_order = s.attributes.psn_window;
  s.limits.operations = 400;
  s.limits.max_packets = 64;
  s.depth = 32;
  s.port_buffers = 32;
  for (RcSettings::Keeping& keeping : s.keeping)
    if (mode.keeps) keeping = {1024, 1024};
  Counts ignored{};
  RcOutcome sum;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    const RcOutcome one = run_rc(s, seed, ignored);
    sum.frames += one.frames;
    sum.elapsed += one.elapsed;
  }
  return sum;
}

Row measure(const Mode& mode, double percent, const RcOutcome& clean) {
  const RcOutcome bad = run_loss(mode, percent / 100);
  return {percent, static_cast<double>(bad.frames) / static_cast<double>(clean.frames),
          static_cast<double>(bad.elapsed.count()) / 1e6,
          static_cast<double>(clean.elapsed.count()) / static_cast<double>(bad.elapsed.count())};
}

bool is_close(double got, double approved, double slack) {
  const double third = approved / 3;
  return got <= approved + third + slack && got >= approved - third - slack;
}

/// The rows of a table, those of one mode after the other.
bool is_close(std::istream& got, std::istream& approved) {
  std::string header;
  std::string approved_header;
  std::getline(got, header);
  std::getline(approved, approved_header);
  bool good = header == approved_header;
  for (const Mode& mode : kModes) {
    for ([[maybe_unused]] const double loss : kLosses) {
      Row a;
      Row b;
      std::string name;
      std::string approved_name;
      got >> name >> a.loss >> a.frames >> a.milliseconds >> a.of_clean;
      approved >> approved_name >> b.loss >> b.frames >> b.milliseconds >> b.of_clean;
      good = good && got && approved && name == approved_name && a.loss == b.loss &&
             is_close(a.frames, b.frames, 0) &&
             is_close(a.milliseconds, b.milliseconds, mode.lucky_milliseconds);
    }
  }
  return good;
}

}  // namespace

std::string goodput_table() {
  std::string text = "behind-a-gap  loss%  frames-per-needed  virtual-ms  of-clean\n";
  for (const Mode& mode : kModes) {
    const RcOutcome clean = run_loss(mode, 0);
    for (const double loss : kLosses) {
      const Row row = measure(mode, loss, clean);
      char line[100];
      std::snprintf(line, sizeof line, "%12s  %5.2f  %17.3f  %10.2f  %8.2f\n", mode.name, row.loss,
                    row.frames, row.milliseconds, row.of_clean);
      text += line;
    }
  }
  return text;
}

bool check_goodput(const std::string& approved_path) {
  std::ifstream file(approved_path);
  std::stringstream approved;
  approved << file.rdbuf();
  const std::string now = goodput_table();
  std::istringstream got(now);
  const bool good = is_close(got, approved);
  std::printf("goodput against loss:\n%s", now.c_str());
  if (!good) std::printf("differs from %s:\n%s", approved_path.c_str(), approved.str().c_str());
  return good;
}

}  // namespace softhca::sim
