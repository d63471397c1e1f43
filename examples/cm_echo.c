/* SPDX-License-Identifier: Apache-2.0 */

/* A client sends a text, and a server sends it back. rdma_cm connects their queue pairs.
 *
 *   cm_echo PORT                   the server, which waits for one client
 *   cm_echo PORT ADDRESS TEXT      the client; ADDRESS is one of the server's device
 */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
  char out[4096], in[4096];
} message;

static int fail(const char* what) {
  fprintf(stderr, "cm_echo: %s: %s\n", what, strerror(errno));
  return -1;
}

/* Waits until a send or receive completes. Returns the length of a received message. */
static int wait_for(int (*get)(struct rdma_cm_id*, struct ibv_wc*), struct rdma_cm_id* id) {
  struct ibv_wc wc;
  if (get(id, &wc) < 0) return fail("waiting for a completion");
  if (wc.status == IBV_WC_SUCCESS) return wc.byte_len;
  fprintf(stderr, "cm_echo: %s, vendor error 0x%x\n", ibv_wc_status_str(wc.status), wc.vendor_err);
  return -1;
}

static int post_receive(struct rdma_cm_id* id, struct ibv_mr* mr) {
  const int result = rdma_post_recv(id, NULL, message.in, sizeof message.in, mr);
  return result ? fail("rdma_post_recv") : 0;
}

static int send_message(struct rdma_cm_id* id, struct ibv_mr* mr, size_t length) {
  if (rdma_post_send(id, NULL, message.out, length, mr, IBV_SEND_SIGNALED) != 0)
    return fail("rdma_post_send");
  return wait_for(rdma_get_send_comp, id) < 0 ? -1 : 0;
}

static int answer(struct rdma_cm_id* id, struct ibv_mr* mr) {
  const int length = wait_for(rdma_get_recv_comp, id);
  if (length < 0) return -1;
  printf("received: %.*s\n", length, message.in);
  memcpy(message.out, message.in, length);
  return send_message(id, mr, length);
}

static int ask(struct rdma_cm_id* id, struct ibv_mr* mr, const char* text) {
  const size_t sent = strlen(text);
  memcpy(message.out, text, sent);
  if (send_message(id, mr, sent) != 0) return -1;
  const int length = wait_for(rdma_get_recv_comp, id);
  if (length < 0) return -1;
  printf("came back: %.*s\n", length, message.in);
  return 0;
}

/* On a queue pair that is not connected yet. A receive is posted before the other side may send. */
static int talk(struct rdma_cm_id* id, const char* text) {
  struct ibv_mr* mr = rdma_reg_msgs(id, &message, sizeof message);
  if (!mr) return fail("rdma_reg_msgs");
  int result = post_receive(id, mr);
  if (result == 0 && (text ? rdma_connect(id, NULL) : rdma_accept(id, NULL)) != 0)
    result = errno == ECONNREFUSED ? -2 : fail(text ? "rdma_connect" : "rdma_accept");
  if (result == 0) {
    result = text ? ask(id, mr, text) : answer(id, mr);
    rdma_disconnect(id);
  }
  const int error = errno;
  rdma_dereg_mr(mr);
  errno = error;
  return result;
}

/* The server's endpoint listens; each request brings an endpoint of its own. */
static int serve(struct rdma_cm_id* listener) {
  struct rdma_cm_id* id;
  if (rdma_listen(listener, 1) != 0) return fail("rdma_listen");
  if (rdma_get_request(listener, &id) != 0) return fail("rdma_get_request");
  const int result = talk(id, NULL);
  rdma_destroy_ep(id);
  return result;
}

static int run(const char* port, const char* address, const char* text) {
  struct rdma_addrinfo hints = {.ai_flags = address ? 0 : RAI_PASSIVE,
                                .ai_port_space = RDMA_PS_TCP};
  struct rdma_addrinfo* at;
  if (rdma_getaddrinfo(address, port, &hints, &at) != 0) return fail("rdma_getaddrinfo");
  int result = -2;
  /* The client tries for some seconds: a script may start both sides at once. */
  for (int i = 0; i < 25 && result == -2; ++i) {
    struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}, .sq_sig_all = 1};
    struct rdma_cm_id* id;
    if (i > 0) usleep(100000);
    if (rdma_create_ep(&id, at, NULL, &init) != 0) {
      result = fail("rdma_create_ep");
      break;
    }
    result = address ? talk(id, text) : serve(id);
    rdma_destroy_ep(id);
  }
  rdma_freeaddrinfo(at);
  if (result == -2) fprintf(stderr, "cm_echo: %s, port %s: no server listens\n", address, port);
  return result;
}

int main(int argc, char** argv) {
  if ((argc != 2 && argc != 4) || (argc == 4 && strlen(argv[3]) > sizeof message.out)) {
    fprintf(stderr, "usage: cm_echo PORT [ADDRESS TEXT]; TEXT has at most %zu bytes\n",
            sizeof message.out);
    return 2;
  }
  return run(argv[1], argc == 4 ? argv[2] : NULL, argc == 4 ? argv[3] : NULL) == 0 ? 0 : 1;
}
