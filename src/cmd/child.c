#include "cmd/child.h"

#include "net/listen.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 500, PORTS_MAX = 64, PORT_MIN = 20000, PORTS_SPAN_MIN = 2000, PORT_TRIES = 4000 };

/* The kernel gives ports from here on to whoever connects; below it a port stays free while a child is started anew. */
static unsigned first_of_connections(void)
{
    unsigned low = 32768, high;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");
    if (f != NULL) {
        if (fscanf(f, "%u %u", &low, &high) != 2)
            low = 32768;
        fclose(f);
    }
    return low;
}

bool child_free_ports(uint16_t *ports, size_t n)
{
    int fds[PORTS_MAX];
    size_t got = 0;
    unsigned end = first_of_connections();
    bool is_any = end < PORT_MIN + PORTS_SPAN_MIN; /* no room below: as the kernel gives them */
    unsigned span = is_any ? 1 : end - PORT_MIN, at = (unsigned)getpid() * 101 % span;
    RM_ASSERT(n <= PORTS_MAX);
    /* All are held until the last one is known: so they differ. */
    for (unsigned i = 0; got < n && i < PORT_TRIES; i++, at = (at + 1) % span) {
        struct listen_address a = {.host = "127.0.0.1", .port = (uint16_t)(is_any ? 0 : PORT_MIN + at)};
        char message[160];
        if (listen_open(&a, 1, &fds[got], message, sizeof message) == ERR_OK)
            ports[got++] = a.port;
    }
    for (size_t i = 0; i < got; i++)
        close(fds[i]);
    return got == n;
}

bool child_dir(const char *name, char dir[CHILD_DIR_BYTES])
{
    const char *tmp = getenv("TMPDIR");
    if (tmp == NULL || *tmp == '\0' || strlen(tmp) > CHILD_DIR_BYTES - sizeof "/ringmain-12345678-XXXXXX")
        tmp = "/tmp";
    snprintf(dir, CHILD_DIR_BYTES, "%s/ringmain-%.8s-XXXXXX", tmp, name);
    return mkdtemp(dir) != NULL;
}

void child_dir_remove(const char *dir)
{
    DIR *d = opendir(dir);
    if (d == NULL)
        return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(dir);
}

void child_stop_signals(sigset_t *set)
{
    struct sigaction hangup;
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(set, SIGHUP);
}

/* Between fork and exec: nothing but system calls, for other threads' locks may be held. */
static void become(const char *const argv[], int log_fd, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0); /* Ctrl-C is for the tool, and it ends its children */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && dup2(log_fd, 1) == 1 && dup2(log_fd, 2) == 2 &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
    _exit(127);
}

pid_t child_start(const char *const argv[], const char *log)
{
    pid_t parent = getpid();
    int log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        become(argv, log_fd, parent);
    close(log_fd);
    return pid;
}

bool child_is_alive(pid_t *pid)
{
    if (*pid > 0 && waitpid(*pid, NULL, WNOHANG) == 0)
        return true;
    *pid = 0;
    return false;
}

void child_nap(void)
{
    static const struct timespec step = {.tv_nsec = 10000000};
    nanosleep(&step, NULL);
}

void child_end(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(pid, SIGTERM);
    for (int i = 0; i < TRIES; i++) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return;
        child_nap();
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

bool child_wait_for_ok(struct caller *c, uint16_t port, const char *path, struct arena *a, struct caller_answer *out)
{
    const char *why;
    struct caller_ask ask = {.host = "127.0.0.1", .port = port, .method = "GET", .path = path, .timeout_us = 5000000};
    for (int i = 0; i < TRIES; i++) {
        if (caller_do(c, &ask, a, out, &why) == ERR_OK && out->status == 200)
            return true;
        child_nap();
    }
    return false;
}
