/* SPDX-License-Identifier: Apache-2.0 */

/* A sample of the C library: asks and answers pings.
 *
 *   softhca-ping -s             answers, as a client of management class 0x32, in the format of ibping
 *   softhca-ping ADDRESS        asks queue pair 1 of an address
 *   softhca-ping -n 7 -s        the same by queue pair 2, as number 7,
 *   softhca-ping -n 7 ADDRESS   where several servers of a tenant may have numbers of their own
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <softhca/datagrams.h>

/* A MAD of a vendor (IBA 13.4.2, 16.5): OUI and data are behind 37 bytes of headers. */
enum {
  kPingClass = 0x32,
  kGet = 0x01,
  kResponse = 0x80,
  kMethodAt = 3,
  kTransactionAt = 8,
  kOuiAt = 37,
  kMadDataAt = 40
};
static const uint8_t kOpenFabricsOui[3] = {0x00, 0x14, 0x05};

/* Between programs: number of the receiver, number of the sender, kind and transaction. */
enum { kFromAt = 4, kKindAt = 8, kNumberTransactionAt = 16, kNumberDataAt = 24 };

static volatile sig_atomic_t stopping;

static void stop(int signal) {
  (void)signal;
  stopping = 1;
}

static int fail(const char* what, int error) {
  fprintf(stderr, "softhca-ping: %s: %s\n", what, softhca_client_error(error));
  return 1;
}

static void put32(uint8_t* at, uint32_t value) {
  value = htonl(value);
  memcpy(at, &value, sizeof value);
}

static uint32_t get32(const uint8_t* at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return ntohl(value);
}

/* --- pings and answers ----------------------------------------------------------------------- */

struct options {
  int server;
  int by_number; /* queue pair 2 */
  uint32_t number;
  uint32_t own_number; /* of the sender of pings */
  uint32_t buffers;
  unsigned count;
  unsigned interval_ms;
  int quiet;
  const char* address;
};

static int is_ping(const struct options* o, const struct softhca_datagram* d) {
  if (o->by_number) return d->bytes == SOFTHCA_DATAGRAM_BYTES && d->payload[kKindAt] == kGet;
  return d->bytes == SOFTHCA_DATAGRAM_BYTES && d->payload[kMethodAt] == kGet &&
         memcmp(d->payload + kOuiAt, kOpenFabricsOui, sizeof kOpenFabricsOui) == 0;
}

static void make_answer(const struct options* o, struct softhca_datagram* d) {
  char* data = (char*)d->payload + (o->by_number ? kNumberDataAt : kMadDataAt);
  gethostname(data, 64);
  data[63] = '\0';
  if (o->by_number) {
    memcpy(d->payload, d->payload + kFromAt, 4);
    put32(d->payload + kFromAt, o->number);
    d->payload[kKindAt] |= kResponse;
    d->qkey = SOFTHCA_QKEY_PROGRAMS;
  } else {
    d->payload[kMethodAt] |= kResponse;
    d->qkey = SOFTHCA_QKEY_MANAGEMENT;
  }
}

static void make_ping(const struct options* o, uint64_t transaction, struct softhca_datagram* d) {
  memset(d->payload, 0, sizeof d->payload);
  d->bytes = SOFTHCA_DATAGRAM_BYTES;
  if (o->by_number) {
    d->qpn = SOFTHCA_QPN_PROGRAMS;
    d->qkey = SOFTHCA_QKEY_PROGRAMS;
    put32(d->payload, o->number);
    put32(d->payload + kFromAt, o->own_number);
    d->payload[kKindAt] = kGet;
    put32(d->payload + kNumberTransactionAt, (uint32_t)(transaction >> 32));
    put32(d->payload + kNumberTransactionAt + 4, (uint32_t)transaction);
    return;
  }
  d->qpn = SOFTHCA_QPN_MANAGEMENT;
  d->qkey = SOFTHCA_QKEY_MANAGEMENT;
  d->payload[0] = 1; /* base version */
  d->payload[1] = kPingClass;
  d->payload[2] = 1; /* class version */
  d->payload[kMethodAt] = kGet;
  put32(d->payload + kTransactionAt, (uint32_t)(transaction >> 32));
  put32(d->payload + kTransactionAt + 4, (uint32_t)transaction);
  memcpy(d->payload + kOuiAt, kOpenFabricsOui, sizeof kOpenFabricsOui);
}

static uint64_t transaction_of(const struct options* o, const struct softhca_datagram* d) {
  const uint8_t* at = d->payload + (o->by_number ? kNumberTransactionAt : kTransactionAt);
  return (uint64_t)get32(at) << 32 | get32(at + 4);
}

/* --- server ---------------------------------------------------------------------------------- */

static int serve(struct softhca_client* client, const struct options* o) {
  struct pollfd waiting = {.fd = softhca_client_fd(client), .events = POLLIN};
  struct softhca_datagram d;
  printf("ready, %u buffers\n", softhca_client_quota(client));
  fflush(stdout);
  while (!stopping) {
    const int what = softhca_client_receive(client, &d);
    if (what < 0) return fail("receiving", what);
    if (what == SOFTHCA_NOTHING) {
      poll(&waiting, 1, -1);
    } else if (what == SOFTHCA_QUOTA) {
      printf("%u buffers\n", softhca_client_quota(client));
      fflush(stdout);
    } else if (is_ping(o, &d)) {
      make_answer(o, &d); /* back to its sender */
      const int sent = softhca_client_send(client, &d);
      if (sent == -EIO) return fail("answering", sent);
    }
  }
  return 0;
}

/* --- client ---------------------------------------------------------------------------------- */

static double milliseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Parses an IPv4 or IPv6 address. */
static int read_address(const char* text, uint8_t gid[16]) {
  static const uint8_t kMapped[12] = {[10] = 0xff, [11] = 0xff};
  if (inet_pton(AF_INET6, text, gid) == 1) return 1;
  memcpy(gid, kMapped, sizeof kMapped);
  return inet_pton(AF_INET, text, gid + 12) == 1;
}

/* Waits for the answer to one ping. Returns 1: received; 0: not within a second; else an error. */
static int wait_for(struct softhca_client* client, const struct options* o, uint64_t transaction,
                    struct softhca_datagram* answer) {
  struct pollfd waiting = {.fd = softhca_client_fd(client), .events = POLLIN};
  const double until = milliseconds() + 1000;
  while (!stopping) {
    const int what = softhca_client_receive(client, answer);
    if (what < 0) return what;
    if (what == SOFTHCA_RECEIVED && transaction_of(o, answer) == transaction) return 1;
    const double left = until - milliseconds();
    if (left <= 0) return 0;
    if (what == SOFTHCA_NOTHING) poll(&waiting, 1, (int)left + 1);
  }
  return 0;
}

static int ask(struct softhca_client* client, const struct options* o) {
  struct softhca_datagram to = {0}, answer;
  const uint64_t first = (uint64_t)getpid() << 32;
  unsigned sent = 0, answered = 0;
  if (!read_address(o->address, to.peer)) return fail(o->address, EINVAL);
  for (; !stopping && (o->count == 0 || sent < o->count); ++sent) {
    if (sent != 0 && o->interval_ms != 0) usleep(o->interval_ms * 1000);
    make_ping(o, first + sent, &to);
    const double start = milliseconds();
    int error;
    while ((error = softhca_client_send(client, &to)) == -EBUSY || error == -EAGAIN)
      usleep(1000); /* keeps to the tenant's rate */
    const int came = error == 0 ? wait_for(client, o, first + sent, &answer) : error;
    if (came < 0) return fail(o->address, came);
    if (came == 0) continue;
    ++answered;
    answer.payload[SOFTHCA_DATAGRAM_BYTES - 1] = '\0';
    if (!o->quiet)
      printf("pong from %s: %.3f ms\n",
             (const char*)answer.payload + (o->by_number ? kNumberDataAt : kMadDataAt),
             milliseconds() - start);
  }
  printf("%u sent, %u answered\n", sent, answered);
  return answered != 0 || sent == 0 ? 0 : 1;
}

/* --------------------------------------------------------------------------------------------- */

static const char kUsage[] =
    "Usage: softhca-ping [-n NUMBER] [-b BUFFERS] -s\n"
    "       softhca-ping [-n NUMBER] [-b BUFFERS] [-c COUNT] [-i MS] [-q] ADDRESS\n";
static const char kHelp[] =
    "\nAsks and answers pings by management datagrams; run by softhca-run.\n\n"
    "  -s                answer pings that come to the tenant's addresses\n"
    "  -n NUMBER         by queue pair 2, to and from the client with this number\n"
    "  -b BUFFERS        receive buffers to ask for; default: set by the operator\n"
    "  -c COUNT          end after this many pings\n"
    "  -i MS             ms from an answer, or none, to the next ping; default: 1000\n"
    "  -q                print only the summary\n"
    "  -h, --help        this text\n\n"
    "ADDRESS is IPv4 or IPv6.\n"
    "Exit code: 0; 1 if no ping was answered, or on failure; 2 for wrong arguments.\n\n"
    "Example: softhca-run --tenant a softhca-ping -s &\n"
    "         softhca-run --tenant b softhca-ping -c 3 198.18.0.1\n";

static int usage(void) {
  fputs(kUsage, stderr);
  return 2;
}

static int help(void) { return printf("%s%s", kUsage, kHelp) < 0; }

static int read_options(int argc, char** argv, struct options* o) {
  static const struct option kLong[] = {{"help", no_argument, NULL, 'h'}, {0}};
  int option;
  while ((option = getopt_long(argc, argv, "sn:b:c:i:qh", kLong, NULL)) != -1) switch (option) {
      case 's':
        o->server = 1;
        break;
      case 'n':
        o->by_number = 1;
        o->number = (uint32_t)strtoul(optarg, NULL, 0);
        break;
      case 'b':
        o->buffers = (uint32_t)strtoul(optarg, NULL, 0);
        break;
      case 'c':
        o->count = (unsigned)strtoul(optarg, NULL, 0);
        break;
      case 'i':
        o->interval_ms = (unsigned)strtoul(optarg, NULL, 0);
        break;
      case 'q':
        o->quiet = 1;
        break;
      case 'h':
        exit(help());
      default:
        return 0;
    }
  if (optind < argc) o->address = argv[optind];
  return o->server == (o->address == NULL) && optind + (o->server ? 0 : 1) == argc;
}

int main(int argc, char** argv) {
  struct options o = {.interval_ms = 1000};
  struct softhca_client* client = NULL;
  struct sigaction on_stop = {.sa_handler = stop};
  if (!read_options(argc, argv, &o)) return usage();
  sigaction(SIGINT, &on_stop, NULL);
  sigaction(SIGTERM, &on_stop, NULL);
  o.own_number = 0x80000000u | (uint32_t)getpid();
  const int error =
      o.by_number
          ? softhca_client_open_number(NULL, o.server ? o.number : o.own_number, o.buffers, &client)
          : softhca_client_open_class(NULL, kPingClass,
                                      o.server ? SOFTHCA_REQUESTS : SOFTHCA_RESPONSES, o.buffers,
                                      &client);
  if (error != 0) return fail("opening", error);
  const int code = o.server ? serve(client, &o) : ask(client, &o);
  softhca_client_close(client);
  return code;
}
