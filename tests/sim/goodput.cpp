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
};

constexpr double kLosses[] = {0, 0.1, 0.5, 1, 2, 5};
// A timeout or two decide the time of a short run: several are taken together.
constexpr std::uint64_t kRuns = 8;

RcOutcome run_loss(double loss) {
  RcSettings s;
  s.faults.drop = loss;
  s.attributes.timeout = 10;
  s.attributes.retry_count = 255;
  s.attributes.max_rd_atomic = s.attributes.max_dest_rd_atomic = 4;
  s.limits.operations = 400;
  s.limits.max_packets = 64;
  s.depth = 32;
  s.port_buffers = 32;
  Counts ignored{};
  RcOutcome sum;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    const RcOutcome one = run_rc(s, seed, ignored);
    sum.frames += one.frames;
    sum.elapsed += one.elapsed;
  }
  return sum;
}

Row measure(double percent, const RcOutcome& clean) {
  const RcOutcome bad = run_loss(percent / 100);
  return {percent, static_cast<double>(bad.frames) / static_cast<double>(clean.frames),
          static_cast<double>(bad.elapsed.count()) / 1e6};
}

// Whether the last packet of a run is lost, and a timeout of 4.2 ms is due, is luck: two are.
constexpr double kLuckyMilliseconds = 9;

bool is_close(double got, double approved, double slack) {
  const double third = approved / 3;
  return got <= approved + third + slack && got >= approved - third - slack;
}

}  // namespace

std::string goodput_table() {
  const RcOutcome clean = run_loss(0);
  std::string text = "loss%  frames-per-needed  virtual-ms\n";
  for (const double loss : kLosses) {
    const Row row = measure(loss, clean);
    char line[80];
    std::snprintf(line, sizeof line, "%5.1f  %17.3f  %10.2f\n", row.loss, row.frames,
                  row.milliseconds);
    text += line;
  }
  return text;
}

bool check_goodput(const std::string& approved_path) {
  std::ifstream file(approved_path);
  std::stringstream approved;
  approved << file.rdbuf();
  const std::string now = goodput_table();
  std::istringstream got(now);
  std::string header;
  std::string approved_header;
  std::getline(got, header);
  std::getline(approved, approved_header);
  bool good = header == approved_header;
  Row a;
  Row b;
  while (got >> a.loss >> a.frames >> a.milliseconds) {
    good = good && approved >> b.loss >> b.frames >> b.milliseconds && a.loss == b.loss &&
           is_close(a.frames, b.frames, 0) &&
           is_close(a.milliseconds, b.milliseconds, kLuckyMilliseconds);
  }
  std::printf("goodput against loss:\n%s", now.c_str());
  if (!good) std::printf("differs from %s:\n%s", approved_path.c_str(), approved.str().c_str());
  return good;
}

}  // namespace softhca::sim
