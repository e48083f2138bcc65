#include "cmd/child.h"

#include "net/listen.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { TRIES = 500, PORTS_MAX = 64 };

bool child_free_ports(uint16_t *ports, size_t n)
{
    int fds[PORTS_MAX];
    size_t got = 0;
    RM_ASSERT(n <= PORTS_MAX);
    /* All are held until the last one is known: so they differ. */
    for (; got < n; got++) {
        struct listen_address a = {.host = "127.0.0.1"};
        char message[160];
        if (listen_open(&a, 1, &fds[got], message, sizeof message) != ERR_OK)
            break;
        ports[got] = a.port;
    }
    for (size_t i = 0; i < got; i++)
        close(fds[i]);
    return got == n;
}

bool child_dir(const char *name, char dir[64])
{
    const char *tmp = getenv("TMPDIR");
    if (tmp == NULL || *tmp == '\0' || strlen(tmp) > 64 - sizeof "/ringmain-12345678-XXXXXX")
        tmp = "/tmp";
    snprintf(dir, 64, "%s/ringmain-%.8s-XXXXXX", tmp, name);
    return mkdtemp(dir) != NULL;
}

pid_t child_start(const char *const argv[], const char *log)
{
    pid_t pid;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    /* A group of its own and no blocked signals: Ctrl-C is for us, and we end it. */
    posix_spawnattr_t attr;
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attr, &none);
    int e = posix_spawn(&pid, "/proc/self/exe", &files, &attr, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return e == 0 ? pid : -1;
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
