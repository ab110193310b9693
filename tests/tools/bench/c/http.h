/* What upstream.c and load.c share: the clock, growing buffers and one incremental HTTP/1.1 message reader.
 *
 * Only what loopback traffic between the two needs, proxies in between included: bodies framed by
 * Content-Length or chunks, keep-alive. Memory errors end the program. */
#ifndef BENCH_HTTP_H
#define BENCH_HTTP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EXTENSION_URI "https://arksim.arklex.ai/a2a/tool-call-capture/v1"
#define TOOL_CALLS_KEY EXTENSION_URI "/tool_calls"
#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

static inline void die(const char *what) {
    perror(what);
    exit(1);
}

/* CLOCK_MONOTONIC in nanoseconds: the same clock for every process of the machine. */
static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* ---- buffers ---- */

struct buffer {
    char *data; /* always followed by a NUL once something was added */
    size_t length, capacity;
};

static inline void buffer_reserve(struct buffer *b, size_t extra) {
    if (b->length + extra + 1 <= b->capacity) return;
    while (b->length + extra + 1 > b->capacity) b->capacity = b->capacity ? b->capacity * 2 : 2048;
    b->data = realloc(b->data, b->capacity);
    if (!b->data) die("realloc");
}

static inline void buffer_add(struct buffer *b, const char *data, size_t length) {
    buffer_reserve(b, length);
    memcpy(b->data + b->length, data, length);
    b->length += length;
    b->data[b->length] = 0;
}

static inline void buffer_drop_front(struct buffer *b, size_t count) {
    if (count == 0) return;
    b->length -= count;
    memmove(b->data, b->data + count, b->length + 1);
}

static inline void buffer_free(struct buffer *b) {
    free(b->data);
    *b = (struct buffer){0};
}

static inline const char *buffer_find(const struct buffer *b, size_t from, const char *needle) {
    if (from >= b->length) return NULL;
    return memmem(b->data + from, b->length - from, needle, strlen(needle));
}

/* ---- messages ---- */

enum message_state { IN_HEAD, IN_BODY, IN_CHUNK_SIZE, IN_CHUNK, AFTER_CHUNK, IN_TRAILER, COMPLETE, BROKEN };

struct message {
    enum message_state state;
    struct buffer head; /* start line and header lines, the empty line included */
    struct buffer body; /* decoded; a reader of a stream takes away what it has used */
    struct buffer line; /* an unfinished chunk-size or trailer line */
    size_t remaining;   /* bytes to come of the body or of the present chunk */
};

static inline void message_reset(struct message *m) {
    m->state = IN_HEAD;
    m->head.length = m->body.length = m->line.length = m->remaining = 0;
}

static inline void message_free(struct message *m) {
    buffer_free(&m->head);
    buffer_free(&m->body);
    buffer_free(&m->line);
}

/* The next header called `name` after `after` (NULL: the first one): start and length of its value, or NULL. */
static inline const char *message_header(const struct message *m, const char *name, const char *after, size_t *length) {
    size_t name_length = strlen(name);
    const char *end = m->head.data + m->head.length;
    const char *line = memchr(after ? after : m->head.data, '\n', (size_t)(end - (after ? after : m->head.data)));
    while (line && ++line < end) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        if (!next) return NULL;
        if ((size_t)(next - line) > name_length && line[name_length] == ':' && !strncasecmp(line, name, name_length)) {
            const char *value = line + name_length + 1;
            while (*value == ' ' || *value == '\t') value++;
            *length = (size_t)(next - value);
            if (*length && value[*length - 1] == '\r') --*length;
            return value;
        }
        line = next;
    }
    return NULL;
}

static inline bool message_header_contains(const struct message *m, const char *name, const char *needle) {
    const char *value = NULL;
    size_t length;
    while ((value = message_header(m, name, value, &length)))
        if (memmem(value, length, needle, strlen(needle))) return true;
    return false;
}

/* Status code of a response, 0 where the start line holds none. */
static inline int message_status(const struct message *m) {
    return m->head.length > 12 && !strncmp(m->head.data, "HTTP/1.", 7) ? atoi(m->head.data + 9) : 0;
}

static inline void message_start_body(struct message *m) {
    size_t length;
    const char *value = message_header(m, "content-length", NULL, &length);
    if (message_header_contains(m, "transfer-encoding", "chunked")) {
        m->state = IN_CHUNK_SIZE;
    } else {
        m->remaining = value ? strtoull(value, NULL, 10) : 0;
        m->state = m->remaining ? IN_BODY : COMPLETE;
    }
}

/* A chunk-size or trailer line has ended. */
static inline void message_end_line(struct message *m) {
    if (m->state == IN_CHUNK_SIZE) {
        char *end;
        m->remaining = strtoull(m->line.data, &end, 16);
        m->state = end == m->line.data ? BROKEN : m->remaining ? IN_CHUNK : IN_TRAILER;
    } else if (m->line.length <= 2) {
        m->state = m->state == AFTER_CHUNK ? IN_CHUNK_SIZE : COMPLETE;
    } else if (m->state == AFTER_CHUNK) {
        m->state = BROKEN;
    }
    m->line.length = 0;
}

/* Reads on. Returns how many bytes belong to this message: fewer than `length` only when it is COMPLETE or BROKEN. */
static inline size_t message_feed(struct message *m, const char *data, size_t length) {
    size_t used = 0;
    while (used < length && m->state != COMPLETE && m->state != BROKEN) {
        const char *rest = data + used;
        size_t left = length - used;
        if (m->state == IN_HEAD) {
            size_t before = m->head.length;
            buffer_add(&m->head, rest, left);
            const char *end = buffer_find(&m->head, before > 3 ? before - 3 : 0, "\r\n\r\n");
            if (!end) return length;
            m->head.length = (size_t)(end - m->head.data) + 4;
            used += m->head.length - before;
            message_start_body(m);
        } else if (m->state == IN_BODY || m->state == IN_CHUNK) {
            size_t take = left < m->remaining ? left : m->remaining;
            buffer_add(&m->body, rest, take);
            used += take;
            m->remaining -= take;
            if (!m->remaining) m->state = m->state == IN_BODY ? COMPLETE : AFTER_CHUNK;
        } else {
            const char *newline = memchr(rest, '\n', left);
            size_t take = newline ? (size_t)(newline - rest) + 1 : left;
            buffer_add(&m->line, rest, take);
            used += take;
            if (newline) message_end_line(m);
        }
    }
    return used;
}

/* ---- sockets ---- */

static inline struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static inline void no_delay(int fd) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

#endif
