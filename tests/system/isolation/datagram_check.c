/* SPDX-License-Identifier: Apache-2.0 */

/* Programs of a tenant that use the C library as it is meant to be used, and as it is not.
 *
 * usage: datagram-check refusals CLIENTS    what may not be, and which limit says so; so many numbers
 *                                           of queue pair 2 are left
 *        datagram-check performance ADDRESS asks the performance agent of an address
 *        datagram-check deaf                registers class 0x33 with 4 buffers and reads nothing
 *                                           until SIGTERM; then there are no more than those
 *        datagram-check slow                class 0x34 with 2 buffers: ends when it is given more
 *        datagram-check flood ADDRESS CLASS COUNT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <softhca/datagrams.h>

enum { kPatience = 30 }; /* seconds */

static void expect(int holds, const char* what, int error) {
  if (holds) return;
  fprintf(stderr, "datagram-check: %s: %d, %s\n", what, error, softhca_client_error(error));
  exit(1);
}

static void expect_error(int error, int wanted, const char* what) {
  expect(error == -wanted, what, error);
}

static struct softhca_client* open_class(unsigned management_class, enum softhca_messages messages,
                                         uint32_t buffers) {
  struct softhca_client* client = NULL;
  const int error = softhca_client_open_class(NULL, management_class, messages, buffers, &client);
  expect(error == 0, "opening a class", error);
  return client;
}

static int refusal_of(unsigned management_class, enum softhca_messages messages, uint32_t buffers) {
  struct softhca_client* client = NULL;
  const int error = softhca_client_open_class(NULL, management_class, messages, buffers, &client);
  softhca_client_close(client);
  return error;
}

static struct softhca_datagram mad(const char* address, unsigned management_class) {
  struct softhca_datagram d = {.qpn = SOFTHCA_QPN_MANAGEMENT,
                               .qkey = SOFTHCA_QKEY_MANAGEMENT,
                               .bytes = SOFTHCA_DATAGRAM_BYTES};
  if (inet_pton(AF_INET6, address, d.peer) != 1) {
    d.peer[10] = d.peer[11] = 0xff;
    expect(inet_pton(AF_INET, address, d.peer + 12) == 1, address, -EINVAL);
  }
  d.payload[0] = 1;
  d.payload[1] = (uint8_t)management_class;
  d.payload[2] = 1;
  d.payload[3] = 1; /* Get */
  return d;
}

/* --- refusals -------------------------------------------------------------------------------- */

static void refused_registrations(unsigned clients_left) {
  expect_error(refusal_of(0, SOFTHCA_REQUESTS, 0), EINVAL, "class 0");
  expect_error(refusal_of(256, SOFTHCA_REQUESTS, 0), EINVAL, "class 256");
  expect_error(refusal_of(0x01, SOFTHCA_REQUESTS, 0), EACCES, "subnet management");
  expect_error(refusal_of(0x81, SOFTHCA_RESPONSES, 0), EACCES, "directed subnet management");
  expect_error(refusal_of(0x07, SOFTHCA_REQUESTS, 0), EACCES, "connection management");
  expect_error(refusal_of(0x07, SOFTHCA_RESPONSES, 0), EACCES, "its responses");
  expect_error(refusal_of(0x04, SOFTHCA_REQUESTS, 0), EADDRINUSE, "the performance agent");
  expect_error(refusal_of(0x35, SOFTHCA_REQUESTS, 100000), ENOBUFS, "100000 buffers");
  struct softhca_client* one = open_class(0x35, SOFTHCA_REQUESTS, 1);
  expect_error(refusal_of(0x35, SOFTHCA_REQUESTS, 1), EADDRINUSE, "a class that is taken");
  struct softhca_client* other = open_class(0x35, SOFTHCA_RESPONSES, 1);
  softhca_client_close(other);
  softhca_client_close(one);

  struct softhca_client* clients[64] = {0};
  int error = 0;
  unsigned n = 0;
  while (n < 64 && error == 0)
    if ((error = softhca_client_open_number(NULL, 1000 + n, 1, &clients[n])) == 0) ++n;
  expect_error(error, EDQUOT, "too many clients");
  expect(n == clients_left, "as many clients as a tenant may have", (int)n);
  while (n-- > 0) softhca_client_close(clients[n]);
}

static void refused_sends(void) {
  struct softhca_client* client = open_class(0x35, SOFTHCA_RESPONSES, 4);
  expect(softhca_client_quota(client) == 4, "four buffers", (int)softhca_client_quota(client));
  expect_error(softhca_client_set_buffers(client, 100000), ENOBUFS, "too many buffers");
  expect(softhca_client_quota(client) == 4, "four buffers still", 0);
  expect(softhca_client_set_buffers(client, 32) == 0 && softhca_client_quota(client) == 32, "more",
         0);
  expect(softhca_client_set_buffers(client, 2) == 0 && softhca_client_quota(client) == 2, "fewer",
         0);
  expect(softhca_client_set_buffers(client, 0) == 0 && softhca_client_quota(client) == 16,
         "the operator's number", 0);

  struct softhca_datagram d = mad("203.0.113.9", 0x35);
  expect_error(softhca_client_send(client, &d), ENETUNREACH, "no way");
  d.local[10] = d.local[11] = 0xff;
  d.local[12] = 203;
  expect_error(softhca_client_send(client, &d), EADDRNOTAVAIL, "another's address");
  d = mad("203.0.113.9", 0x07);
  expect_error(softhca_client_send(client, &d), EACCES, "another class");
  d = mad("203.0.113.9", 0x35);
  d.bytes = 100;
  expect_error(softhca_client_send(client, &d), EINVAL, "too short");
  d.bytes = 300;
  expect_error(softhca_client_send(client, &d), EINVAL, "too long");
  d = mad("203.0.113.9", 0x35);
  d.qpn = 0;
  expect_error(softhca_client_send(client, &d), EINVAL, "queue pair 0");
  d = mad("239.1.2.3", 0x35);
  expect_error(softhca_client_send(client, &d), EINVAL, "a group");
  expect(softhca_client_receive(client, &d) == SOFTHCA_NOTHING, "nothing came", 0);
  softhca_client_close(client);
}

/* --- the performance agent ------------------------------------------------------------------- */

static void ask_performance(const char* address) {
  static const unsigned kAttributes[] = {0x01, 0x12, 0x1d}; /* ClassPortInfo, counters, extended */
  struct softhca_client* client = open_class(0x04, SOFTHCA_RESPONSES, 0);
  struct pollfd waiting = {.fd = softhca_client_fd(client), .events = POLLIN};
  for (unsigned i = 0; i < 3; ++i) {
    struct softhca_datagram d = mad(address, 0x04), answer;
    d.payload[17] = (uint8_t)kAttributes[i];
    d.payload[15] = (uint8_t)(i + 1);      /* transaction */
    d.payload[65] = i == 0 ? 0 : 1;        /* PortSelect */
    const time_t end = time(NULL) + kPatience;
    int what = SOFTHCA_NOTHING;
    while (what != SOFTHCA_RECEIVED) {
      expect(time(NULL) < end, "no answer of the performance agent", -ETIMEDOUT);
      int error = softhca_client_send(client, &d);
      expect(error == 0, "sending", error);
      poll(&waiting, 1, 1000);
      what = softhca_client_receive(client, &answer);
      expect(what >= 0, "receiving", what);
      if (what == SOFTHCA_RECEIVED && answer.payload[15] != i + 1) what = SOFTHCA_NOTHING;
    }
    expect(answer.payload[3] == 0x81 && answer.payload[4] == 0 && answer.payload[5] == 0,
           "a response without error", answer.payload[5]);
    expect(answer.payload[17] == kAttributes[i] && answer.qpn == SOFTHCA_QPN_MANAGEMENT &&
               memcmp(answer.peer, d.peer, sizeof d.peer) == 0,
           "what was asked for", 0);
  }
  softhca_client_close(client);
}

/* --- one that does not read, one that reads slowly, one that sends too much ------------------- */

static void do_nothing(int signal) { (void)signal; }

static void read_nothing(void) {
  struct softhca_datagram d;
  struct softhca_client* client = open_class(0x33, SOFTHCA_REQUESTS, 4);
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, &old);
  struct sigaction wake = {.sa_handler = do_nothing};
  sigaction(SIGTERM, &wake, NULL);
  printf("ready\n");
  fflush(stdout);
  sigsuspend(&old);
  int what, datagrams = 0;
  while ((what = softhca_client_receive(client, &d)) > 0) datagrams += what == SOFTHCA_RECEIVED;
  expect(what == SOFTHCA_NOTHING, "receiving", what);
  expect(datagrams == 3 || datagrams == 4, "as many as there were buffers for", datagrams);
  softhca_client_close(client);
}

static void read_slowly(void) {
  struct softhca_datagram d;
  struct softhca_client* client = open_class(0x34, SOFTHCA_REQUESTS, 2);
  const time_t end = time(NULL) + kPatience;
  printf("ready\n");
  fflush(stdout);
  for (int what = 0; what != SOFTHCA_QUOTA;) {
    expect(time(NULL) < end, "no more buffers", -ETIMEDOUT);
    usleep(20000);
    what = softhca_client_receive(client, &d);
    expect(what >= 0, "receiving", what);
  }
  printf("%u buffers\n", softhca_client_quota(client));
  expect(softhca_client_quota(client) > 2, "more buffers", (int)softhca_client_quota(client));
  softhca_client_close(client);
}

static void flood(const char* address, unsigned management_class, unsigned count) {
  struct softhca_client* client = open_class(management_class, SOFTHCA_RESPONSES, 1);
  struct softhca_datagram d = mad(address, management_class);
  for (unsigned sent = 0; sent < count;) {
    const int error = softhca_client_send(client, &d);
    if (error == -EBUSY || error == -EAGAIN) {
      usleep(1000);
      continue;
    }
    expect(error == 0, "sending", error);
    ++sent;
  }
  softhca_client_close(client);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "refusals") == 0 && argc == 3) {
    refused_registrations((unsigned)strtoul(argv[2], NULL, 0));
    refused_sends();
  } else if (strcmp(what, "performance") == 0 && argc == 3) {
    ask_performance(argv[2]);
  } else if (strcmp(what, "deaf") == 0 && argc == 2) {
    read_nothing();
  } else if (strcmp(what, "slow") == 0 && argc == 2) {
    read_slowly();
  } else if (strcmp(what, "flood") == 0 && argc == 5) {
    flood(argv[2], (unsigned)strtoul(argv[3], NULL, 0), (unsigned)strtoul(argv[4], NULL, 0));
  } else {
    fputs("usage: datagram-check refusals|performance|deaf|slow|flood ...\n", stderr);
    return 2;
  }
  return 0;
}
