/* The agent every target of the benchmark talks to: A2A v1.0 over JSON-RPC, made to cost next to nothing.
 *
 *   upstream            listens on a free port of 127.0.0.1 and prints {"port": N}
 *
 * SendMessage            a completed task of about 1.5 KB
 * SendStreamingMessage   SSE: a task, N artifact updates of about 370 bytes, a completed status. N and the pace come
 *                        with the request, in params.message.metadata: {"events": N, "interval_us": N}. The text of
 *                        each update starts with its number and the time it was sent (`seq=N sent_ns=N`).
 * GET                    the agent card
 *
 * Artifacts carry tool calls only where the request asks for the extension by header. One thread, one epoll. */
#include "http.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#define CARD                                                                                                        \
    "{\"name\":\"Benchmark agent\",\"description\":\"Answers at once\",\"version\":\"1.0.0\","                     \
    "\"supportedInterfaces\":[{\"url\":\"http://127.0.0.1:%d/\",\"protocolBinding\":\"JSONRPC\","                  \
    "\"protocolVersion\":\"1.0\"}],\"capabilities\":{\"streaming\":true,\"extensions\":[{\"uri\":\"" EXTENSION_URI \
    "\",\"description\":\"Tool call capture for evaluation\",\"required\":false}]},"                               \
    "\"defaultInputModes\":[\"text/plain\"],\"defaultOutputModes\":[\"text/plain\"],\"skills\":[{\"id\":\"orders\"," \
    "\"name\":\"Orders\",\"description\":\"Knows where orders are\",\"tags\":[\"orders\"]}]}"

#define TOOL_CALLS                                                                                                 \
    ",\"metadata\":{\"" TOOL_CALLS_KEY "\":["                                                                      \
    "{\"id\":\"call-1\",\"name\":\"lookup_order\",\"arguments\":{\"order_id\":\"ORD-1001\"},"                      \
    "\"result\":\"{\\\"status\\\": \\\"shipped\\\", \\\"carrier\\\": \\\"DHL\\\"}\"},"                             \
    "{\"id\":\"call-2\",\"name\":\"estimate_delivery\",\"arguments\":{\"carrier\":\"DHL\",\"zone\":2.0},"          \
    "\"result\":\"2026-11-24\"}]},\"extensions\":[\"" EXTENSION_URI "\"]"

#define ANSWER                                                                                                     \
    "Order ORD-1001 left the warehouse on Friday with DHL and is expected to arrive on Tuesday, 24 November. "     \
    "You will get a message with the tracking link as soon as the carrier has scanned the parcel. Should nobody be "  \
    "at home, the driver leaves it with a neighbour or at the nearest parcel shop, where it is kept for seven days."

#define MAX_EVENTS 512
#define GOLDEN_RATIO 0.6180339887498949

struct stream {
    bool active, tools;
    unsigned seq, total;
    uint64_t interval_ns, due_ns;
    unsigned long task;
    char id[64];
};

struct connection {
    int fd; /* -1: gone, and only the heap still knows it */
    bool wants_out;
    struct message request;
    struct buffer out;
    struct stream stream;
};

static int epoll_fd, listen_port;
static unsigned long last_task;

/* ---- open streams, the one that is due first on top (binary heap) ---- */

static struct connection **heap;
static size_t heap_length, heap_capacity;

static uint64_t due(size_t i) { return heap[i]->stream.due_ns; }

static void heap_swap(size_t a, size_t b) {
    struct connection *c = heap[a];
    heap[a] = heap[b];
    heap[b] = c;
}

static void heap_sink_top(void) {
    for (size_t i = 0, child; (child = 2 * i + 1) < heap_length; i = child) {
        if (child + 1 < heap_length && due(child + 1) < due(child)) child++;
        if (due(i) <= due(child)) return;
        heap_swap(i, child);
    }
}

static void heap_push(struct connection *c) {
    if (heap_length == heap_capacity) {
        heap_capacity = heap_capacity ? heap_capacity * 2 : 64;
        heap = realloc(heap, heap_capacity * sizeof *heap);
        if (!heap) die("realloc");
    }
    heap[heap_length] = c;
    for (size_t i = heap_length++; i && due(i) < due((i - 1) / 2); i = (i - 1) / 2) heap_swap(i, (i - 1) / 2);
}

static void heap_drop_top(void) {
    heap[0] = heap[--heap_length];
    heap_sink_top();
}

/* ---- connections ---- */

static void release(struct connection *c) {
    message_free(&c->request);
    buffer_free(&c->out);
    free(c);
}

static void hang_up(struct connection *c) {
    close(c->fd);
    c->fd = -1;
    if (!c->stream.active) release(c); /* else the heap lets go of it when it is due */
}

/* Sends what it can and has epoll report when the rest will fit. False where the peer is gone. */
static bool flush_out(struct connection *c) {
    ssize_t sent = c->out.length ? send(c->fd, c->out.data, c->out.length, MSG_NOSIGNAL) : 0;
    if (sent < 0) {
        if (errno != EAGAIN) return false;
        sent = 0;
    }
    buffer_drop_front(&c->out, (size_t)sent);
    bool wants_out = c->out.length > 0;
    if (wants_out != c->wants_out) {
        struct epoll_event change = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &change);
        c->wants_out = wants_out;
    }
    return true;
}

/* ---- answers ---- */

static void reply(struct connection *c, const char *status, const char *body, int length) {
    char head[160];
    int head_length = snprintf(head, sizeof head,
                               "HTTP/1.1 %s\r\nserver: bench\r\ncontent-type: application/json\r\n"
                               "content-length: %d\r\n\r\n",
                               status, length);
    buffer_add(&c->out, head, (size_t)head_length);
    buffer_add(&c->out, body, (size_t)length);
}

/* Task and context ids: UUIDs that count up, so that every request is a task and a conversation of its own. */
static void task_ids(unsigned long number, char task[37], char context[37]) {
    snprintf(task, 37, "7a5c0000-0000-4000-8000-%012lx", number);
    snprintf(context, 37, "c0472000-0000-4000-8000-%012lx", number);
}

static void reply_task(struct connection *c, const char *id, bool tools) {
    char body[4096], task[37], context[37];
    task_ids(++last_task, task, context);
    int length = snprintf(
        body, sizeof body,
        "{\"result\":{\"task\":{\"id\":\"%s\",\"contextId\":\"%s\",\"status\":{\"state\":\"TASK_STATE_COMPLETED\","
        "\"message\":{\"messageId\":\"m2-%s\",\"contextId\":\"%s\",\"taskId\":\"%s\",\"role\":\"ROLE_AGENT\","
        "\"parts\":[{\"text\":\"done\"}]},\"timestamp\":\"2026-11-21T02:55:34.179053Z\"},\"artifacts\":["
        "{\"artifactId\":\"answer\",\"name\":\"answer\",\"parts\":[{\"text\":\"" ANSWER "\"}]%s}],\"history\":["
        "{\"messageId\":\"m1-%s\",\"contextId\":\"%s\",\"taskId\":\"%s\",\"role\":\"ROLE_USER\","
        "\"parts\":[{\"text\":\"Where is order ORD-1001, and when will it arrive?\"}]}]}},\"id\":%s,\"jsonrpc\":\"2.0\"}",
        task, context, task, context, task, tools ? TOOL_CALLS : "", task, context, task, id);
    reply(c, "200 OK", body, length);
}

/* One SSE event, CRLF framed, as one chunk. `result` is the JSON-RPC result. */
static void add_event(struct connection *c, const char *result) {
    char frame[4096], event[4000];
    int length = snprintf(event, sizeof event, "data: {\"result\": %s, \"id\": %s, \"jsonrpc\": \"2.0\"}\r\n\r\n", result,
                          c->stream.id);
    int frame_length = snprintf(frame, sizeof frame, "%x\r\n%s\r\n", length, event);
    buffer_add(&c->out, frame, (size_t)frame_length);
}

static void send_update(struct connection *c) {
    struct stream *s = &c->stream;
    char result[3000], task[37], context[37];
    bool first = ++s->seq == 1, last = s->seq == s->total;
    task_ids(s->task, task, context);
    snprintf(result, sizeof result,
             "{\"artifactUpdate\": {\"taskId\": \"%s\", \"contextId\": \"%s\", \"artifact\": {\"artifactId\": \"answer\", "
             "\"parts\": [{\"text\": \"seq=%u sent_ns=%llu Your order has left the warehouse with DHL and will arrive "
             "tomorrow before noon, by parcel\"}]%s}%s%s}}",
             task, context, s->seq, (unsigned long long)now_ns(), first && s->tools ? TOOL_CALLS : "",
             first ? "" : ", \"append\": true", last ? ", \"lastChunk\": true" : "");
    add_event(c, result);
}

static void send_status(struct connection *c) {
    char result[512], task[37], context[37];
    task_ids(c->stream.task, task, context);
    snprintf(result, sizeof result,
             "{\"statusUpdate\": {\"taskId\": \"%s\", \"contextId\": \"%s\", \"status\": {\"state\": "
             "\"TASK_STATE_COMPLETED\", \"timestamp\": \"2026-11-21T02:55:34.182287Z\"}}}",
             task, context);
    add_event(c, result);
    buffer_add(&c->out, "0\r\n\r\n", 5);
}

static void start_stream(struct connection *c, const char *id, bool tools, unsigned events, unsigned interval_us) {
    static const char head[] =
        "HTTP/1.1 200 OK\r\nserver: bench\r\ncache-control: no-store\r\nx-accel-buffering: no\r\n"
        "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    char result[512], task[37], context[37];
    uint64_t interval_ns = interval_us * 1000ull;
    c->stream = (struct stream){.active = true, .tools = tools, .total = events, .interval_ns = interval_ns, .task = ++last_task};
    snprintf(c->stream.id, sizeof c->stream.id, "%s", id);
    /* First events are spread over the interval, or all streams would send in the same instant. */
    double phase = (double)c->stream.task * GOLDEN_RATIO;
    c->stream.due_ns = now_ns() + (uint64_t)((phase - (double)(uint64_t)phase) * (double)interval_ns);
    buffer_add(&c->out, head, sizeof head - 1);
    task_ids(c->stream.task, task, context);
    snprintf(result, sizeof result,
             "{\"task\": {\"id\": \"%s\", \"contextId\": \"%s\", \"status\": {\"state\": \"TASK_STATE_SUBMITTED\"}}}", task, context);
    add_event(c, result);
    heap_push(c);
}

/* ---- requests (their only author is load.c, so members are found by name, not by parsing JSON) ---- */

static const char *member(const struct buffer *body, const char *quoted_name) {
    const char *at = body->length ? buffer_find(body, 0, quoted_name) : NULL;
    if (!at) return NULL;
    at += strlen(quoted_name);
    while (*at == ' ' || *at == ':') at++;
    return at;
}

static unsigned member_number(const struct buffer *body, const char *quoted_name, unsigned otherwise) {
    const char *value = member(body, quoted_name);
    return value ? (unsigned)strtoul(value, NULL, 10) : otherwise;
}

static void answer(struct connection *c) {
    const struct message *request = &c->request;
    if (!strncmp(request->head.data, "GET ", 4)) {
        char card[1024];
        reply(c, "200 OK", card, snprintf(card, sizeof card, CARD, listen_port));
        return;
    }
    const char *id_at = member(&request->body, "\"id\""), *method = member(&request->body, "\"method\"");
    char id[64] = "null";
    if (id_at) snprintf(id, sizeof id, "%.*s", (int)strcspn(id_at, ",} "), id_at);
    bool tools = message_header_contains(request, "a2a-extensions", EXTENSION_URI);
    if (method && !strncmp(method, "\"SendMessage\"", 13)) {
        reply_task(c, id, tools);
    } else if (method && !strncmp(method, "\"SendStreamingMessage\"", 22)) {
        start_stream(c, id, tools, member_number(&request->body, "\"events\"", 10),
                     member_number(&request->body, "\"interval_us\"", 20000));
    } else {
        char body[200];
        reply(c, "200 OK", body,
              snprintf(body, sizeof body,
                       "{\"error\":{\"code\":-32601,\"message\":\"Method not found\"},\"id\":%s,\"jsonrpc\":\"2.0\"}", id));
    }
}

static void on_readable(struct connection *c) {
    char data[65536];
    ssize_t got = recv(c->fd, data, sizeof data, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        hang_up(c);
        return;
    }
    for (size_t used = 0; used < (size_t)got;) {
        used += message_feed(&c->request, data + used, (size_t)got - used);
        if (c->request.state == BROKEN) {
            hang_up(c);
            return;
        }
        if (c->request.state == COMPLETE) {
            answer(c);
            message_reset(&c->request);
        }
    }
    if (!flush_out(c)) hang_up(c);
}

static void on_connect(int listen_fd) {
    int fd;
    while ((fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct connection *c = calloc(1, sizeof *c);
        if (!c) die("calloc");
        c->fd = fd;
        no_delay(fd);
        struct epoll_event add = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &add)) die("epoll_ctl");
    }
}

static void send_due_events(void) {
    while (heap_length && due(0) <= now_ns()) {
        struct connection *c = heap[0];
        if (c->fd < 0) {
            heap_drop_top();
            release(c);
            continue;
        }
        if (c->stream.seq < c->stream.total) {
            send_update(c);
            c->stream.due_ns += c->stream.interval_ns;
            heap_sink_top();
        } else {
            send_status(c);
            c->stream.active = false;
            heap_drop_top();
        }
        if (!flush_out(c)) hang_up(c);
    }
}

/* Waits for traffic or for the next event that is due, to the microsecond (epoll_wait counts milliseconds). */
static void wait_for_work(void) {
    uint64_t now = now_ns();
    uint64_t wait_ns = !heap_length ? NS_PER_S : due(0) > now ? due(0) - now : 0;
    struct timespec timeout = {.tv_sec = (time_t)(wait_ns / NS_PER_S), .tv_nsec = (long)(wait_ns % NS_PER_S)};
    ppoll(&(struct pollfd){.fd = epoll_fd, .events = POLLIN}, 1, &timeout, NULL);
}

int main(void) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* never outlives the benchmark */
    prctl(PR_SET_TIMERSLACK, 1ul);
    int listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (listen_fd < 0 || bind(listen_fd, (struct sockaddr *)&address, size) || listen(listen_fd, 4096)) die("listen");
    getsockname(listen_fd, (struct sockaddr *)&address, &size);
    listen_port = ntohs(address.sin_port);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event add = {.events = EPOLLIN, .data.ptr = NULL}, ready[MAX_EVENTS];
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &add)) die("epoll");
    printf("{\"port\": %d}\n", listen_port);
    fflush(stdout);
    for (;;) {
        wait_for_work();
        int count = epoll_wait(epoll_fd, ready, MAX_EVENTS, 0);
        for (int i = 0; i < count; i++) {
            struct connection *c = ready[i].data.ptr;
            if (!c)
                on_connect(listen_fd);
            else if (ready[i].events & EPOLLOUT && !flush_out(c))
                hang_up(c);
            else if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                on_readable(c);
        }
        send_due_events();
    }
}
