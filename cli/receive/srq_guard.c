/* SPDX-License-Identifier: Apache-2.0
 *
 * srq-guard: limits each queue pair that takes more of a shared receive queue than others can
 * spare. A server runs it beside itself, or does the same in a thread of its own:
 *
 *   softhca-run --tenant a srq-guard
 *
 * A queue pair may hold 4 times its even part of the queue, at least 8 buffers. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <softhca/receive.h>

enum { kEvents = 64, kQueues = 256, kTimesItsPart = 4, kLeast = 8, kPauseMicroseconds = 200000 };

static volatile sig_atomic_t stopping;

static void stop(int signal) {
  (void)signal;
  stopping = 1;
}

static int fail(const char* what, int error) {
  fprintf(stderr, "srq-guard: %s: %s\n", what, strerror(-error));
  return 1;
}

/* Returns the buffers that a queue pair of the process may hold. */
static int64_t fair_limit(struct softhca_receive* receive, uint32_t pid) {
  static struct softhca_receive_queue queues[kQueues];
  int64_t limit = kLeast;
  int found = softhca_receive_queues(receive, pid, queues, kQueues);
  if (found > kQueues) found = kQueues;
  for (int i = 0; i < found; ++i) {
    if (queues[i].queue_pairs == 0) continue;
    const int64_t part = (int64_t)kTimesItsPart * queues[i].size / queues[i].queue_pairs;
    if (part > limit) limit = part;
  }
  return limit;
}

/* Limits the queue pair that the event names. */
static int guard(struct softhca_receive* receive, const struct softhca_receive_event* event) {
  struct softhca_receive_user user;
  if (event->qpn == 0 ||
      (strcmp(event->name, "srq_runaway") != 0 && strcmp(event->name, "srq_offender") != 0))
    return 0;
  int error = softhca_receive_find(receive, event->qpn, &user);
  const int64_t limit = fair_limit(receive, event->pid);
  if (error == 0 && user.limit == 0)
    error = softhca_receive_set(receive, event->qpn, limit, SOFTHCA_RECEIVE_KEEP);
  if (error == -ENOENT) return 0; /* it has gone */
  if (error != 0) return error;
  printf("queue pair %u of %s holds %u buffers: limited to %lld\n", user.qpn, user.peer, user.held,
         (long long)limit);
  fflush(stdout);
  return 0;
}

int main(void) {
  static struct softhca_receive_event events[kEvents];
  struct softhca_receive* receive;
  signal(SIGINT, stop);
  signal(SIGTERM, stop);
  int found = softhca_receive_open(NULL, &receive);
  if (found != 0) return fail("no control socket of the tenant", found);
  while (!stopping) {
    found = softhca_receive_events(receive, events, kEvents);
    if (found == -ENOTCONN) found = 0; /* the daemon is being replaced */
    for (int i = 0; i < found; ++i) {
      const int error = guard(receive, &events[i]);
      if (error != 0 && error != -ENOTCONN) return fail(events[i].text, error);
    }
    if (found < 0) return fail("no events", found);
    if (found == 0) usleep(kPauseMicroseconds);
  }
  softhca_receive_close(receive);
  return 0;
}
