/* The client every target of the benchmark is measured with: A2A v1.0 over JSON-RPC. One thread, one epoll.
 *
 *   load unary   --port N --connections K --seconds S [--requests N] [--ask]
 *       closed loop: K keep-alive connections, each with one SendMessage under way, until S seconds are over or N
 *       requests were sent
 *   load streams --port N --streams S --events N --interval-ms N [--ramp-ms N] [--ask]
 *       S SendStreamingMessage streams, opened evenly over the ramp; prints {"open": N} as soon as all are open or one
 *       second after the ramp. The delay of an event is the time from the agent's write to our read.
 *
 * --ask requests the tool-call extension by header. --grace-ms bounds the wait for answers that are still missing at the
 * end (default 5000). The last line on stdout is the result, a JSON object; times in microseconds, percentiles by
 * nearest rank, null where there is no sample. */
#include "http.h"

#include <getopt.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#define MAX_EVENTS 512

static struct {
    int port, connections, streams, events;
    double seconds, interval_ms, ramp_ms, grace_ms;
    unsigned long requests;
    bool ask;
} options = {.connections = 1, .streams = 1, .events = 10, .seconds = 1, .interval_ms = 20, .ramp_ms = 500, .grace_ms = 5000};

struct client {
    int fd; /* -1: no connection */
    struct message response;
    uint64_t sent_ns;
    bool waiting;               /* a request is under way */
    bool open, status, damaged; /* of a stream: first event seen, final status seen, an event lost or out of order */
    unsigned last_seq;
};

static int epoll_fd;
static struct client *clients;
static unsigned long sent, failed, reconnects, with_tool_calls;

/* ---- samples ---- */

static struct {
    uint64_t *ns;
    size_t count, capacity;
} samples;

static void add_sample(uint64_t ns) {
    if (samples.count == samples.capacity) {
        samples.capacity = samples.capacity ? samples.capacity * 2 : 65536;
        samples.ns = realloc(samples.ns, samples.capacity * sizeof *samples.ns);
        if (!samples.ns) die("realloc");
    }
    samples.ns[samples.count++] = ns;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_samples(const char *name) {
    if (!samples.count) {
        printf("\"%s\": {\"p50\": null, \"p99\": null, \"max\": null}", name);
        return;
    }
    qsort(samples.ns, samples.count, sizeof *samples.ns, by_value);
    size_t last = samples.count - 1;
    printf("\"%s\": {\"p50\": %.1f, \"p99\": %.1f, \"max\": %.1f}", name, (double)samples.ns[last / 2] / 1e3,
           (double)samples.ns[(size_t)((double)last * 0.99)] / 1e3, (double)samples.ns[last] / 1e3);
}

/* ---- requests ---- */

static void connect_client(struct client *c) {
    struct sockaddr_in address = loopback(options.port);
    struct timeval at_most = {.tv_sec = 2};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0) die("socket");
    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &at_most, sizeof at_most); /* bounds connect */
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address)) die("connect to the target");
    no_delay(c->fd);
    struct epoll_event add = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &add)) die("epoll_ctl");
}

static void disconnect(struct client *c) {
    close(c->fd);
    c->fd = -1;
}

static void send_request(struct client *c, const char *method, const char *accept, const char *metadata) {
    char body[1024], request[2048];
    unsigned long number = ++sent;
    int body_length = snprintf(body, sizeof body,
                               "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"method\":\"%s\",\"params\":{\"message\":{\"messageId\":"
                               "\"0e55a9e0-0000-4000-8000-%012lx\",\"role\":\"ROLE_USER\",\"parts\":[{\"text\":"
                               "\"Where is order ORD-1001, and when will it arrive?\"}]%s},"
                               "\"configuration\":{\"acceptedOutputModes\":[\"text/plain\"]}}}",
                               number, method, number, metadata);
    int length = snprintf(request, sizeof request,
                          "POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: %s\r\nUser-Agent: bench\r\nA2A-Version: 1.0\r\n"
                          "%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                          options.port, accept, options.ask ? "A2A-Extensions: " EXTENSION_URI "\r\n" : "", body_length, body);
    message_reset(&c->response);
    c->waiting = true;
    c->sent_ns = now_ns();
    if (send(c->fd, request, (size_t)length, MSG_NOSIGNAL) != length) {
        failed++;
        c->waiting = false;
        disconnect(c);
    }
}

/* Reads what has arrived into `c->response`. Returns the time of reading, 0 where the connection has ended. */
static uint64_t receive(struct client *c) {
    char data[65536];
    ssize_t got = recv(c->fd, data, sizeof data, MSG_DONTWAIT);
    uint64_t now = now_ns();
    if (got < 0 && errno == EAGAIN) return now;
    if (got <= 0) return 0;
    message_feed(&c->response, data, (size_t)got);
    return now;
}

static bool body_contains(const struct client *c, size_t length, const char *needle) {
    return memmem(c->response.body.data, length, needle, strlen(needle));
}

/* ---- unary ---- */

static void send_unary(struct client *c) {
    if (c->fd < 0) {
        reconnects++;
        connect_client(c);
    }
    send_request(c, "SendMessage", "application/json", "");
}

static void on_unary(struct client *c) {
    struct message *m = &c->response;
    uint64_t now = receive(c);
    if (now && m->state != COMPLETE && m->state != BROKEN) return;
    if (!now || m->state == BROKEN) {
        failed += c->waiting;
        disconnect(c);
    } else {
        size_t length = m->body.length;
        if (message_status(m) == 200 && length && body_contains(c, length, "TASK_STATE_COMPLETED"))
            add_sample(now - c->sent_ns);
        else
            failed++;
        with_tool_calls += length && body_contains(c, length, TOOL_CALLS_KEY);
        if (message_header_contains(m, "connection", "close")) disconnect(c);
    }
    c->waiting = false;
}

static void run_unary(void) {
    struct epoll_event ready[MAX_EVENTS];
    for (int i = 0; i < options.connections; i++) connect_client(&clients[i]);
    uint64_t start = now_ns(), now = start;
    uint64_t end = start + (uint64_t)(options.seconds * 1e9), give_up = end + (uint64_t)(options.grace_ms * 1e6);
    int under_way = 0;
    for (int i = 0; i < options.connections && sent < options.requests; i++) send_unary(&clients[i]);
    do {
        int count = epoll_wait(epoll_fd, ready, MAX_EVENTS, 50);
        now = now_ns();
        for (int i = 0; i < count; i++) {
            struct client *c = ready[i].data.ptr;
            on_unary(c);
            if (!c->waiting && now < end && sent < options.requests) send_unary(c);
        }
        under_way = 0;
        for (int i = 0; i < options.connections; i++) under_way += clients[i].waiting;
    } while (now < give_up && under_way);
    failed += (unsigned long)under_way;
    printf("{\"requests\": %zu, \"failed\": %lu, \"reconnects\": %lu, \"with_tool_calls\": %lu, \"elapsed_s\": %.6f, ",
           samples.count, failed, reconnects, with_tool_calls, (double)(now_ns() - start) / 1e9);
    print_samples("latency_us");
    printf("}\n");
}

/* ---- streams ---- */

/* Length of the first whole SSE event in the body, its empty line included; 0 where there is none yet. */
static size_t first_event(const struct buffer *body) {
    const char *end = body->data + body->length, *at = body->data;
    while (at && (at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        if (at < end && *at == '\n') return (size_t)(at - body->data) + 1;
        if (at + 1 < end && at[0] == '\r' && at[1] == '\n') return (size_t)(at - body->data) + 2;
    }
    return 0;
}

static void on_event(struct client *c, size_t length, uint64_t now) {
    const char *update = memmem(c->response.body.data, length, "seq=", 4);
    unsigned seq;
    unsigned long long sent_ns;
    c->open = true;
    with_tool_calls += body_contains(c, length, TOOL_CALLS_KEY);
    if (update && sscanf(update, "seq=%u sent_ns=%llu", &seq, &sent_ns) == 2) {
        c->damaged |= seq != ++c->last_seq;
        add_sample(now - sent_ns);
    } else if (body_contains(c, length, "TASK_STATE_COMPLETED")) {
        c->status = true;
    }
}

static void on_stream(struct client *c) {
    struct message *m = &c->response;
    uint64_t now = receive(c);
    if (now && message_status(m) == 200) {
        for (size_t length; (length = first_event(&m->body)); buffer_drop_front(&m->body, length)) on_event(c, length, now);
    }
    if (!now || m->state == COMPLETE || m->state == BROKEN) {
        c->waiting = false;
        disconnect(c);
    }
}

static int open_streams(void) {
    int open = 0;
    for (int i = 0; i < options.streams; i++) open += clients[i].waiting && clients[i].open;
    return open;
}

static bool stream_is_complete(const struct client *c) {
    return c->status && !c->damaged && c->last_seq == (unsigned)options.events && c->response.state == COMPLETE;
}

static void run_streams(void) {
    struct epoll_event ready[MAX_EVENTS];
    char metadata[128];
    snprintf(metadata, sizeof metadata, ",\"metadata\":{\"events\":%d,\"interval_us\":%.0f}", options.events,
             options.interval_ms * 1e3);
    uint64_t start = now_ns(), now = start;
    uint64_t ramp_end = start + (uint64_t)(options.ramp_ms * 1e6);
    uint64_t give_up = ramp_end + (uint64_t)(((options.events + 1) * options.interval_ms + options.grace_ms) * 1e6);
    int opened = 0, under_way = 0, complete = 0;
    bool reported = false;
    do {
        for (; opened < options.streams && now >= start + (ramp_end - start) * (uint64_t)opened / (uint64_t)options.streams; opened++) {
            connect_client(&clients[opened]);
            send_request(&clients[opened], "SendStreamingMessage", "text/event-stream", metadata);
        }
        int count = epoll_wait(epoll_fd, ready, MAX_EVENTS, opened < options.streams ? 1 : 50);
        for (int i = 0; i < count; i++) on_stream(ready[i].data.ptr);
        now = now_ns();
        if (!reported && opened == options.streams && (open_streams() == options.streams || now > ramp_end + NS_PER_S)) {
            reported = true;
            printf("{\"open\": %d}\n", open_streams());
            fflush(stdout);
        }
        under_way = 0;
        for (int i = 0; i < opened; i++) under_way += clients[i].waiting;
    } while (now < give_up && (under_way || opened < options.streams));
    if (!reported) printf("{\"open\": 0}\n");
    for (int i = 0; i < options.streams; i++) complete += stream_is_complete(&clients[i]);
    printf("{\"streams\": %d, \"complete\": %d, \"events\": %zu, \"with_tool_calls\": %lu, \"elapsed_s\": %.6f, ", options.streams,
           complete, samples.count, with_tool_calls, (double)(now_ns() - start) / 1e9);
    print_samples("delay_us");
    printf("}\n");
}

/* ---- command line ---- */

static void read_options(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'p'},     {"connections", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'},  {"requests", required_argument, NULL, 'n'},
        {"streams", required_argument, NULL, 'S'},  {"events", required_argument, NULL, 'e'},
        {"interval-ms", required_argument, NULL, 'i'}, {"ramp-ms", required_argument, NULL, 'r'},
        {"grace-ms", required_argument, NULL, 'g'}, {"ask", no_argument, NULL, 'a'},
        {NULL, 0, NULL, 0}};
    options.requests = (unsigned long)-1;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) switch (option) {
            case 'p': options.port = atoi(optarg); break;
            case 'c': options.connections = atoi(optarg); break;
            case 's': options.seconds = atof(optarg); break;
            case 'n': options.requests = strtoul(optarg, NULL, 10); break;
            case 'S': options.streams = atoi(optarg); break;
            case 'e': options.events = atoi(optarg); break;
            case 'i': options.interval_ms = atof(optarg); break;
            case 'r': options.ramp_ms = atof(optarg); break;
            case 'g': options.grace_ms = atof(optarg); break;
            case 'a': options.ask = true; break;
            default: exit(2);
        }
}

int main(int argc, char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* never outlives the benchmark */
    read_options(argc, argv);
    const char *mode = optind < argc ? argv[optind] : "";
    bool streams = !strcmp(mode, "streams");
    int count = streams ? options.streams : options.connections;
    if ((!streams && strcmp(mode, "unary")) || options.port < 1 || count < 1 || options.events < 1) {
        fprintf(stderr, "usage: load unary|streams --port N [options], see load.c\n");
        return 2;
    }
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    clients = calloc((size_t)count, sizeof *clients);
    if (epoll_fd < 0 || !clients) die("set-up");
    for (int i = 0; i < count; i++) clients[i].fd = -1;
    if (streams)
        run_streams();
    else
        run_unary();
    return 0;
}
