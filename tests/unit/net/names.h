/* A name server on a loopback port, turned by hand: answers A questions from a small table, AAAA with nothing. */
#ifndef RM_TESTS_UNIT_NET_NAMES_H
#define RM_TESTS_UNIT_NET_NAMES_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum names_mood { NAMES_ANSWER, NAMES_NXDOMAIN, NAMES_SILENT };
struct names {
    int fd;
    char servers[32]; /* for resolver_set_servers */
    enum names_mood mood;
    uint32_t ttl_s;
    unsigned char v4[2][4];
    int n_v4;
    int n_questions; /* for A records */
};

static inline bool names_open(struct names *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *s = (struct names){.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), .ttl_s = 60};
    if (s->fd < 0 || bind(s->fd, (struct sockaddr *)&at, sizeof at) != 0)
        return false;
    if (getsockname(s->fd, (struct sockaddr *)&at, &len) != 0)
        return false;
    snprintf(s->servers, sizeof s->servers, "127.0.0.1:%u", ntohs(at.sin_port));
    return true;
}

static inline size_t names_put_answers(const struct names *s, unsigned char *out)
{
    size_t n = 0;
    for (int i = 0; i < s->n_v4; i++) {
        const unsigned char head[] = {0xc0, 0x0c, 0, 1, 0, 1};
        uint32_t ttl = htonl(s->ttl_s);
        memcpy(out + n, head, sizeof head);
        memcpy(out + n + 6, &ttl, 4);
        out[n + 10] = 0;
        out[n + 11] = 4;
        memcpy(out + n + 12, s->v4[i], 4);
        n += 16;
    }
    return n;
}

/* Serves what has come. */
static inline void names_serve(struct names *s)
{
    unsigned char q[512 + 64];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    for (int i = 0; i < 100; i++) {
        ssize_t got = recvfrom(s->fd, q, 512, 0, (struct sockaddr *)&from, &len);
        if (got < 17)
            return;
        size_t end = 12;
        while (end < (size_t)got && q[end] != 0)
            end += q[end] + 1U;
        end += 5;
        bool is_a = q[end - 3] == 1;
        s->n_questions += is_a;
        if (s->mood == NAMES_SILENT)
            continue;
        bool answers = is_a && s->mood == NAMES_ANSWER;
        q[2] = 0x85; /* an authoritative answer */
        q[3] = s->mood == NAMES_NXDOMAIN ? 0x83 : 0x80;
        memset(q + 6, 0, 6);
        q[7] = answers ? (unsigned char)s->n_v4 : 0;
        size_t n = end + (answers ? names_put_answers(s, q + end) : 0);
        sendto(s->fd, q, n, 0, (struct sockaddr *)&from, len);
    }
}

#endif
