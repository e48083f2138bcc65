/* A leak on purpose, to show that the soak sees one: loaded into the gateway before libc (soak.py --plant), it loses
 * memory or a descriptor with each connection that is accepted. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LOST_BYTES = 16384 };

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    int (*real)(int, struct sockaddr *, socklen_t *, int);
    void *found = dlsym(RTLD_NEXT, "accept4");
    memcpy(&real, &found, sizeof real);
    int got = real(fd, addr, len, flags);
    if (got < 0)
        return got;
    if (strcmp(getenv("PLANT"), "memory") == 0) {
        char *lost = malloc(LOST_BYTES);
        if (lost != NULL)
            memset(lost, 1, LOST_BYTES);
    } else {
        int lost = open("/dev/null", O_RDONLY);
        (void)lost;
    }
    return got;
}
