/* SPDX-License-Identifier: Apache-2.0 */

/* Two programs send a message to and fro over a reliable connection (RC).
 *
 *   rc_pingpong [OPTION]...            the server, which waits for a client
 *   rc_pingpong [OPTION]... SERVER     the client; SERVER is a host name or an address for TCP
 *     -d DEVICE    default: the first
 *     -g INDEX     of the GID (0)
 *     -p PORT      TCP port (18600)
 *     -n COUNT     messages to and fro (1000)
 *     -s BYTES     of a message (1024)
 *
 * The queue pairs are connected by hand. Over TCP each side sends its queue pair number, its first
 * packet sequence number (PSN), its path MTU and its GID. pingpong.py speaks the same protocol.
 */
#define _GNU_SOURCE /* POLLRDHUP */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kPort = 1, kReceive = 1, kSend = 2 }; /* the device's port; wr_id of a work request */

static const char *device_name, *server, *tcp_port = "18600";
static int gid_index, count = 1000, size = 1024;

static struct ibv_context* context;
static struct ibv_comp_channel* channel;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static struct ibv_mr* mr;
static struct ibv_qp* qp;
static uint8_t* buffer; /* the message to send, then room for one to receive */
static int tcp = -1;

struct side {
  uint32_t qpn, psn, mtu;
  union ibv_gid gid;
};

/* Prints what failed, and why if `error` is an errno. Returns -1. */
__attribute__((format(printf, 2, 3))) static int fail(int error, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("rc_pingpong: ", stderr);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  if (error) fprintf(stderr, ": %s", strerror(error));
  fputc('\n', stderr);
  return -1;
}

static int open_device(void) {
  int devices = 0;
  struct ibv_device** list = ibv_get_device_list(&devices);
  if (!list && errno != ENOSYS) return fail(errno, "ibv_get_device_list");
  int i = 0;
  while (i < devices && device_name && strcmp(ibv_get_device_name(list[i]), device_name) != 0) ++i;
  const int found = i < devices;
  if (found) context = ibv_open_device(list[i]);
  const int error = errno;
  if (list) ibv_free_device_list(list);
  if (!found) return fail(0, "no RDMA device %s", device_name ? device_name : "at all");
  return context ? 0 : fail(error, "ibv_open_device");
}

static int make_queue_pair(void) {
  if (!(channel = ibv_create_comp_channel(context))) return fail(errno, "ibv_create_comp_channel");
  if (!(pd = ibv_alloc_pd(context))) return fail(errno, "ibv_alloc_pd");
  /* A send and a receive complete at most. */
  if (!(cq = ibv_create_cq(context, 2, NULL, channel, 0))) return fail(errno, "ibv_create_cq");

  const size_t page = sysconf(_SC_PAGESIZE);
  const size_t length = (2 * (size_t)size + page - 1) / page * page;
  if (!(buffer = aligned_alloc(page, length))) return fail(errno, "%zu bytes of memory", length);
  memset(buffer, 0, length);
  mr = ibv_reg_mr(pd, buffer, length, IBV_ACCESS_LOCAL_WRITE);
  if (!mr) return fail(errno, "ibv_reg_mr of %zu bytes", length);

  struct ibv_qp_init_attr init = {
      .send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  if (!(qp = ibv_create_qp(pd, &init))) return fail(errno, "ibv_create_qp");
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = kPort};
  const int error = ibv_modify_qp(
      qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return error ? fail(error, "ibv_modify_qp to INIT") : 0;
}

static int describe(struct side* local) {
  struct ibv_port_attr port;
  int error = ibv_query_port(context, kPort, &port);
  if (error) return fail(error, "ibv_query_port");
  if (port.state != IBV_PORT_ACTIVE)
    return fail(0, "port %d is %s", kPort, ibv_port_state_str(port.state));
  if (ibv_query_gid(context, kPort, gid_index, &local->gid) != 0)
    return fail(errno, "ibv_query_gid of index %d", gid_index);
  local->qpn = qp->qp_num;
  local->mtu = port.active_mtu;
  if (getrandom(&local->psn, sizeof local->psn, 0) < 0) return fail(errno, "getrandom");
  local->psn &= 0xffffff;
  return 0;
}

/* In RTR the queue pair accepts the other side's packets, in RTS it may send. */
static int connect_queue_pair(const struct side* local, const struct side* remote) {
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = local->mtu < remote->mtu ? local->mtu : remote->mtu,
      .dest_qp_num = remote->qpn,
      .rq_psn = remote->psn,
      .min_rnr_timer = 12, /* 0.64 ms */
      .ah_attr = {.port_num = kPort,
                  .is_global = 1, /* RoCE addresses by GID */
                  .grh = {.dgid = remote->gid, .sgid_index = gid_index, .hop_limit = 64}}};
  int error = ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error) return fail(error, "ibv_modify_qp to RTR");
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                              .sq_psn = local->psn,
                              .timeout = 14,   /* 67 ms until a packet is repeated */
                              .retry_cnt = 7,  /* so often without an answer */
                              .rnr_retry = 7}; /* no limit while the other side has no receive */
  error = ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                            IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  return error ? fail(error, "ibv_modify_qp to RTS") : 0;
}

/* Tries for five seconds: a script may start both sides at once. */
static int connect_tcp(const struct addrinfo* at) {
  for (int i = 0; i < 50; ++i) {
    if ((tcp = socket(at->ai_family, at->ai_socktype, 0)) < 0) return fail(errno, "socket");
    if (connect(tcp, at->ai_addr, at->ai_addrlen) == 0) return 0;
    if (errno != ECONNREFUSED) return fail(errno, "%s, TCP port %s", server, tcp_port);
    close(tcp);
    tcp = -1;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
  return fail(ECONNREFUSED, "%s, TCP port %s", server, tcp_port);
}

static int accept_tcp(const struct addrinfo* at) {
  const int listener = socket(at->ai_family, at->ai_socktype, 0);
  if (listener < 0) return fail(errno, "socket");
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
  if (bind(listener, at->ai_addr, at->ai_addrlen) == 0 && listen(listener, 1) == 0)
    tcp = accept(listener, NULL, NULL);
  const int error = errno;
  close(listener);
  return tcp < 0 ? fail(error, "TCP port %s", tcp_port) : 0;
}

static int meet(void) {
  const struct addrinfo hints = {
      .ai_flags = AI_PASSIVE, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
  struct addrinfo* at;
  const int error = getaddrinfo(server, tcp_port, &hints, &at);
  if (error) return fail(0, "%s: %s", server ? server : tcp_port, gai_strerror(error));
  const int result = server ? connect_tcp(at) : accept_tcp(at);
  freeaddrinfo(at);
  return result;
}

/* Each side sends a line of text, which always has the same length. */
static int exchange(const struct side* local, struct side* remote) {
  char gid[INET6_ADDRSTRLEN], line[100], answer[100] = "";
  int its_count, its_size;
  inet_ntop(AF_INET6, &local->gid, gid, sizeof gid);
  const int length = snprintf(line, sizeof line, "%06x %06x %x %10d %10d %-45s\n", local->qpn,
                              local->psn, local->mtu, count, size, gid);
  printf("local:  QPN 0x%06x, PSN 0x%06x, GID %s\n", local->qpn, local->psn, gid);
  if (send(tcp, line, length, MSG_NOSIGNAL) != length) return fail(errno, "send");
  if (recv(tcp, answer, length, MSG_WAITALL) != length) return fail(0, "the other side has ended");
  if (sscanf(answer, "%x %x %x %d %d %45s", &remote->qpn, &remote->psn, &remote->mtu, &its_count,
             &its_size, gid) != 6 ||
      inet_pton(AF_INET6, gid, &remote->gid) != 1)
    return fail(0, "not understood: %s", answer);
  if (its_count != count || its_size != size)
    return fail(0, "the other side has -n %d -s %d", its_count, its_size);
  printf("remote: QPN 0x%06x, PSN 0x%06x, GID %s\n", remote->qpn, remote->psn, gid);
  return 0;
}

static int post_receive(void) {
  struct ibv_sge sge = {(uintptr_t)(buffer + size), size, mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = kReceive, .sg_list = &sge, .num_sge = 1}, *bad;
  const int error = ibv_post_recv(qp, &wr, &bad);
  return error ? fail(error, "ibv_post_recv") : 0;
}

static int post_send(void) {
  struct ibv_sge sge = {(uintptr_t)buffer, size, mr->lkey};
  struct ibv_send_wr wr = {.wr_id = kSend,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_SEND,
                           .send_flags = IBV_SEND_SIGNALED},
                     *bad;
  const int error = ibv_post_send(qp, &wr, &bad);
  return error ? fail(error, "ibv_post_send") : 0;
}

/* Sleeps until the completion queue has an event or the other side's TCP connection ends. */
static int sleep_until_event(void) {
  struct pollfd wanted[] = {{channel->fd, POLLIN, 0}, {tcp, POLLRDHUP, 0}};
  if (poll(wanted, 2, -1) < 0) return fail(errno, "poll");
  if (!wanted[0].revents) return fail(0, "the other side has ended");
  struct ibv_cq* ready;
  void* user;
  if (ibv_get_cq_event(channel, &ready, &user) != 0) return fail(errno, "ibv_get_cq_event");
  ibv_ack_cq_events(ready, 1);
  return 0;
}

/* Waits until all kinds in `wanted` have completed. Those that come early stay in `had`. */
static int wait_for(int wanted, int* had) {
  while ((*had & wanted) != wanted) {
    struct ibv_wc wc;
    int got = ibv_poll_cq(cq, 1, &wc);
    if (got == 0) {
      /* What completes between poll and arming gives no event: poll once more. */
      const int error = ibv_req_notify_cq(cq, 0);
      if (error) return fail(error, "ibv_req_notify_cq");
      got = ibv_poll_cq(cq, 1, &wc);
      if (got == 0 && sleep_until_event() != 0) return -1;
    }
    if (got < 0) return fail(0, "ibv_poll_cq");
    if (got == 0) continue;
    if (wc.status != IBV_WC_SUCCESS)
      return fail(0, "%s: %s, vendor error 0x%x", wc.wr_id == kSend ? "send" : "receive",
                  ibv_wc_status_str(wc.status), wc.vendor_err);
    *had |= (int)wc.wr_id;
  }
  *had &= ~wanted;
  return 0;
}

/* The client fills a message and sends it, the server sends back what it received. */
static int play(void) {
  int had = 0;
  for (int i = 0; i < count; ++i) {
    if (server) {
      memset(buffer, i, size);
      if (post_send() != 0) return -1;
    }
    if (wait_for(kReceive, &had) != 0) return -1;
    if (server && memcmp(buffer, buffer + size, size) != 0)
      return fail(0, "message %d came back with other data", i);
    if (!server) memcpy(buffer, buffer + size, size);
    /* The next receive is there before the other side may send. */
    if (i + 1 < count && post_receive() != 0) return -1;
    if (!server && post_send() != 0) return -1;
    if (wait_for(kSend, &had) != 0) return -1;
  }
  return 0;
}

/* Waits until the other side has come as far. */
static int wait_for_other_side(void) {
  char byte = 0;
  if (send(tcp, &byte, 1, MSG_NOSIGNAL) != 1) return fail(errno, "send");
  return recv(tcp, &byte, 1, MSG_WAITALL) == 1 ? 0 : fail(0, "the other side has ended");
}

static int run(void) {
  struct side local, remote;
  struct timespec begin, end;
  if (open_device() != 0 || make_queue_pair() != 0 || describe(&local) != 0 || meet() != 0 ||
      exchange(&local, &remote) != 0 || post_receive() != 0 ||
      connect_queue_pair(&local, &remote) != 0 || wait_for_other_side() != 0)
    return -1;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  if (play() != 0) return -1;
  clock_gettime(CLOCK_MONOTONIC, &end);
  /* The other side's last message may still need an acknowledgement of this queue pair. */
  if (wait_for_other_side() != 0) return -1;
  const double us = (end.tv_sec - begin.tv_sec) * 1e6 + (end.tv_nsec - begin.tv_nsec) / 1e3;
  printf("%d messages of %d bytes to and fro, %.1f us each\n", count, size, us / count);
  return 0;
}

/* Destroys in the opposite order of making. */
static void clean_up(void) {
  if (qp) ibv_destroy_qp(qp);
  if (mr) ibv_dereg_mr(mr);
  free(buffer);
  if (cq) ibv_destroy_cq(cq);
  if (pd) ibv_dealloc_pd(pd);
  if (channel) ibv_destroy_comp_channel(channel);
  if (context) ibv_close_device(context);
  if (tcp >= 0) close(tcp);
}

static int number(const char* text, int least, int most) {
  char* end;
  const long value = strtol(text, &end, 10);
  if (*text && !*end && value >= least && value <= most) return (int)value;
  fail(0, "%s: expected %d to %d", text, least, most);
  exit(2);
}

int main(int argc, char** argv) {
  for (int option; (option = getopt(argc, argv, "d:g:p:n:s:")) != -1;) {
    switch (option) {
      case 'd': device_name = optarg; break;
      case 'g': gid_index = number(optarg, 0, 255); break;
      case 'p': tcp_port = optarg; break;
      case 'n': count = number(optarg, 1, 1000000000); break;
      case 's': size = number(optarg, 1, 1 << 30); break;
      default: return 2;
    }
  }
  server = argv[optind];
  const int result = run();
  clean_up();
  return result == 0 ? 0 : 1;
}
