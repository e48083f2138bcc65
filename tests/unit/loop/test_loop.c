/* The real loop: timers, tasks, the reaper, mail from other threads, descriptors. */
#include "unit.h"

#include "base/mem.h"
#include "loop/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TURNS_MAX = 10000 };

static struct loop *l;
static char story[1024];

static void tell(const char *word)
{
    size_t n = strlen(story);
    snprintf(story + n, sizeof story - n, "%s%s", n ? " " : "", word);
}

static int open_loop(void **state)
{
    story[0] = '\0';
    l = loop_new();
    return 0;
}

static int close_loop(void **state)
{
    loop_free(l);
    return 0;
}

struct named_timer {
    struct timer timer;
    const char *name;
    struct timer *victim;
    bool again;
};

static void on_timer(struct timer *t)
{
    struct named_timer *nt = RM_CONTAINER(t, struct named_timer, timer);
    assert_false(timer_is_armed(t));
    tell(nt->name);
    if (nt->victim)
        timer_cancel(l, nt->victim);
    if (nt->again) {
        nt->again = false;
        timer_arm(l, t, 1);
        tell("armed");
    }
}

static void timers_fire_in_order(void **state)
{
    uint64_t now = loop_now_us(l);
    struct named_timer a = {{on_timer, 0, 0, 0}, "a", NULL, false}, b = {{on_timer, 0, 0, 0}, "b", NULL, false};
    struct named_timer c = {{on_timer, 0, 0, 0}, "c", NULL, false}, d = {{on_timer, 0, 0, 0}, "d", NULL, false};
    timer_arm(l, &c.timer, now + 2000);
    timer_arm(l, &a.timer, now + 1000);
    timer_arm(l, &d.timer, now + 2000);
    timer_arm(l, &b.timer, now + 1500);
    for (int i = 0; i < TURNS_MAX && timer_is_armed(&d.timer); i++)
        loop_turn(l, UINT64_MAX);
    assert_string_equal(story, "a b c d");
    assert_true(loop_now_us(l) >= now + 2000);
}

static void cancel_in_a_handler(void **state)
{
    struct named_timer b = {{on_timer, 0, 0, 0}, "b", NULL, false};
    struct named_timer a = {{on_timer, 0, 0, 0}, "a", &b.timer, false};
    timer_arm(l, &a.timer, 1);
    timer_arm(l, &b.timer, 1);
    loop_turn(l, 0);
    loop_turn(l, 0);
    assert_string_equal(story, "a");
}

static void past_time_fires_in_the_next_turn(void **state)
{
    struct named_timer a = {{on_timer, 0, 0, 0}, "a", NULL, true};
    timer_arm(l, &a.timer, 1);
    loop_turn(l, 0);
    assert_string_equal(story, "a armed");
    loop_turn(l, UINT64_MAX);
    assert_string_equal(story, "a armed a");
}

struct named_task {
    struct task task;
    const char *name;
    struct task *posts, *cancels;
};

static void on_task(struct task *t)
{
    struct named_task *nt = RM_CONTAINER(t, struct named_task, task);
    tell(nt->name);
    if (nt->posts)
        loop_post(l, nt->posts);
    if (nt->cancels)
        task_cancel(nt->cancels);
}

static void post_during_post(void **state)
{
    struct named_task c = {{.fn = on_task}, "c", NULL, NULL}, b = {{.fn = on_task}, "b", NULL, NULL};
    struct named_task a = {{.fn = on_task}, "a", &c.task, &b.task};
    list_init(&a.task.node);
    list_init(&b.task.node);
    list_init(&c.task.node);
    loop_post(l, &a.task);
    loop_post(l, &a.task); /* once */
    loop_post(l, &b.task);
    loop_turn(l, UINT64_MAX); /* does not wait: something is queued */
    assert_string_equal(story, "a c");
}

struct corpse {
    struct reap reap;
    struct task *posts;
};

static void on_reap(struct reap *r)
{
    struct corpse *c = RM_CONTAINER(r, struct corpse, reap);
    tell("reaped");
    if (c->posts)
        loop_post(l, c->posts);
    mem_free(c);
}

static void reaper_comes_last(void **state)
{
    struct named_task a = {{.fn = on_task}, "a", NULL, NULL}, b = {{.fn = on_task}, "b", NULL, NULL};
    struct corpse *c = mem_zalloc(sizeof *c);
    list_init(&a.task.node);
    list_init(&b.task.node);
    c->reap.fn = on_reap;
    c->posts = &b.task;
    loop_reap(l, &c->reap);
    loop_post(l, &a.task);
    loop_turn(l, 0);
    assert_string_equal(story, "a reaped b");
}

enum { LETTERS = 500, SENDERS = 4 };
struct letter {
    struct mail mail;
    int from, number;
};
static int next_number[SENDERS], n_letters;

static void on_letter(struct mail *m)
{
    struct letter *x = RM_CONTAINER(m, struct letter, mail);
    assert_int_equal(x->number, next_number[x->from]++);
    mem_free(x);
    if (++n_letters == LETTERS * SENDERS)
        loop_stop(l);
}

static void *send_letters(void *arg)
{
    for (int i = 0; i < LETTERS; i++) {
        struct letter *x = mem_zalloc(sizeof *x);
        x->mail.fn = on_letter;
        x->from = *(int *)arg;
        x->number = i;
        loop_mail(l, &x->mail);
    }
    return NULL;
}

static void mail_from_threads_keeps_its_order(void **state)
{
    pthread_t threads[SENDERS];
    int ids[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        ids[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, send_letters, &ids[i]), 0);
    }
    loop_run(l);
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(next_number[i], LETTERS);
    }
}

static void *stop_the_loop(void *arg)
{
    loop_stop(l);
    return NULL;
}

static void stop_from_a_thread(void **state)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_the_loop, NULL), 0);
    loop_run(l);
    pthread_join(thread, NULL);
    loop_stop(l); /* before the run: the run ends at once */
    loop_run(l);
}

struct end {
    struct watch watch;
    unsigned ready;
    int n_calls;
    struct watch *deletes;
};

static void on_end(struct watch *w, unsigned ready)
{
    struct end *e = RM_CONTAINER(w, struct end, watch);
    e->ready |= ready;
    e->n_calls++;
    if (e->deletes)
        watch_del(l, e->deletes);
}

static void descriptors_are_edge_triggered(void **state)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    struct end a = {.watch = {.fn = on_end, .fd = fds[0]}};
    assert_int_equal(watch_add(l, &a.watch), ERR_OK);
    loop_turn(l, 0);
    assert_int_equal(a.ready, LOOP_WRITE);
    a.ready = 0;
    loop_turn(l, 0);
    assert_int_equal(a.ready, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    loop_turn(l, 0);
    assert_true(a.ready & LOOP_READ);
    assert_false(a.ready & LOOP_HANGUP);
    a.ready = 0;
    loop_turn(l, 0);
    assert_int_equal(a.ready, 0); /* unread, but no new edge */
    close(fds[1]);
    loop_turn(l, 0);
    assert_int_equal(a.ready, LOOP_READ | LOOP_WRITE | LOOP_HANGUP);
    watch_del(l, &a.watch);
    assert_int_equal(a.watch.fd, -1);
    watch_del(l, &a.watch);
    close(fds[0]);
}

static void deleted_watch_is_not_called_in_this_turn(void **state)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    struct end a = {.watch = {.fn = on_end, .fd = fds[0]}}, b = {.watch = {.fn = on_end, .fd = fds[1]}};
    a.deletes = &b.watch;
    b.deletes = &a.watch;
    assert_int_equal(watch_add(l, &a.watch), ERR_OK);
    assert_int_equal(watch_add(l, &b.watch), ERR_OK);
    loop_turn(l, 0);
    assert_int_equal(a.n_calls + b.n_calls, 1);
    watch_del(l, &a.watch);
    watch_del(l, &b.watch);
    close(fds[0]);
    close(fds[1]);
}

struct reader {
    struct watch watch;
    int peer;
    const char *name;
    bool reads;
    struct reader *victim;
};

static void read_dry(struct reader *r)
{
    char b[16];
    ssize_t n = read(r->watch.fd, b, sizeof b);
    assert_true(n >= 0);
}

static void on_reader(struct watch *w, unsigned ready)
{
    struct reader *r = RM_CONTAINER(w, struct reader, watch);
    char word[16];
    if (ready == LOOP_ASK && r->reads)
        read_dry(r);
    w->has_read = ready == LOOP_ASK && r->reads;
    snprintf(word, sizeof word, "%s%s%s%s%s", r->name, ready == LOOP_ASK ? "?" : "", ready & LOOP_READ ? "-read" : "",
             ready & LOOP_AHEAD ? "-ahead" : "", ready & LOOP_HANGUP ? "-hangup" : "");
    if (ready != LOOP_WRITE)
        tell(word);
    if (ready & LOOP_READ)
        read_dry(r);
    if (r->victim != NULL && ready != LOOP_ASK && ready != LOOP_WRITE)
        watch_del(l, &r->victim->watch);
}

static void readers_open(struct reader *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int v[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, v), 0);
        r[i].watch.fn = on_reader;
        r[i].watch.fd = v[0];
        r[i].peer = v[1];
        assert_int_equal(watch_add(l, &r[i].watch), ERR_OK);
    }
    loop_turn(l, 0); /* they can be written to */
}

static void readers_get(struct reader *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(write(r[i].peer, "x", 1), 1);
    story[0] = '\0';
    loop_turn(l, 0);
}

static void readers_close(struct reader *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int fd = r[i].watch.fd;
        watch_del(l, &r[i].watch);
        close(r[i].peer);
        if (fd >= 0)
            close(fd);
    }
}

static void several_are_read_ahead(void **state)
{
    struct reader r[3] = {{.name = "a", .reads = true, .watch = {.reads_ahead = true}},
                          {.name = "b", .watch = {.reads_ahead = true}},
                          {.name = "c"}};
    readers_open(r, 3);
    readers_get(r, 3);
    assert_string_equal(story, "a? b? a-ahead b-read c-read");
    readers_get(r, 1);
    assert_string_equal(story, "a-read"); /* alone there is nothing to gain */
    readers_get(r, 2);
    assert_string_equal(story, "a? b? a-ahead b-read");
    readers_close(r, 3);
}

static void what_has_hung_up_is_not_read_ahead(void **state)
{
    struct reader r[2] = {{.name = "a", .reads = true, .watch = {.reads_ahead = true}},
                          {.name = "b", .reads = true, .watch = {.reads_ahead = true}}};
    readers_open(r, 2);
    assert_int_equal(write(r[0].peer, "x", 1), 1);
    assert_int_equal(shutdown(r[0].peer, SHUT_WR), 0);
    readers_get(r + 1, 1);
    assert_string_equal(story, "b? a-read-hangup b-ahead");
    readers_close(r, 2);
}

static void deleted_after_it_was_read_ahead(void **state)
{
    struct reader r[2] = {{.name = "a", .reads = true, .watch = {.reads_ahead = true}},
                          {.name = "b", .reads = true, .watch = {.reads_ahead = true}}};
    r[0].victim = &r[1];
    readers_open(r, 2);
    int fd = r[1].watch.fd;
    readers_get(r, 2);
    assert_string_equal(story, "a? b? a-ahead");
    r[0].victim = NULL;
    r[1].watch.fd = fd; /* comes again, and nothing is left of the turn before */
    assert_int_equal(watch_add(l, &r[1].watch), ERR_OK);
    loop_turn(l, 0);
    readers_get(r + 1, 1);
    assert_string_equal(story, "b-read");
    readers_close(r, 2);
}

static void reading_ahead_is_bounded(void **state)
{
    enum { N = 40 };
    struct reader r[N] = {0};
    for (size_t i = 0; i < N; i++)
        r[i] = (struct reader){.name = "", .reads = true, .watch = {.reads_ahead = true}};
    readers_open(r, N);
    readers_get(r, N);
    unsigned n = 0, most = 0, told = 0;
    for (const char *p = story; *p; p++) {
        n = *p == '?' ? n + 1 : *p == '-' ? n - 1 : n;
        told += *p == '-';
        most = n > most ? n : most;
    }
    assert_int_equal(told, N);
    assert_int_equal(most, 16);
    readers_close(r, N);
}

static void level_watch_repeats(void **state)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    struct end a = {.watch = {.fn = on_end, .fd = fds[0], .is_level = true}};
    assert_int_equal(watch_add(l, &a.watch), ERR_OK);
    loop_turn(l, 0);
    assert_int_equal(a.n_calls, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    loop_turn(l, 0);
    loop_turn(l, 0);
    assert_int_equal(a.n_calls, 2);
    assert_int_equal(a.ready, LOOP_READ);
    watch_del(l, &a.watch);
    close(fds[0]);
    close(fds[1]);
}

static void bad_descriptor_is_refused(void **state)
{
    struct end a = {.watch = {.fn = on_end, .fd = 1 << 20}};
    assert_int_equal(watch_add(l, &a.watch), ERR_IO);
    assert_int_equal(a.watch.fd, -1);
}

static void clocks(void **state)
{
    uint64_t before = loop_now_us(l);
    assert_true(before > 0);
    loop_turn(l, 0);
    assert_true(loop_now_us(l) > before);
    assert_true(loop_clock_us() + 10 >= loop_now_us(l));
    assert_true(loop_wall_ms(l) > INT64_C(1700000000000));
}

/* With none left, and with one: the loop needs two. */
static void no_descriptor_no_loop(void **state)
{
    struct rlimit was;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    int next = dup(0);
    close(next);
    for (int n_left = 0; n_left <= 1; n_left++) {
        struct rlimit few = {.rlim_cur = (rlim_t)(next + n_left), .rlim_max = was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        errno = 0;
        struct loop *none = loop_new();
        int why = errno;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
        assert_null(none);
        assert_int_equal(why, EMFILE);
    }
    int again = dup(0);
    assert_int_equal(again, next); /* nothing was left open */
    close(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(timers_fire_in_order, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(cancel_in_a_handler, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(past_time_fires_in_the_next_turn, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(post_during_post, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(reaper_comes_last, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(mail_from_threads_keeps_its_order, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(stop_from_a_thread, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(descriptors_are_edge_triggered, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(deleted_watch_is_not_called_in_this_turn, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(several_are_read_ahead, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(what_has_hung_up_is_not_read_ahead, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(deleted_after_it_was_read_ahead, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(reading_ahead_is_bounded, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(level_watch_repeats, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(bad_descriptor_is_refused, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(clocks, open_loop, close_loop),
        cmocka_unit_test(no_descriptor_no_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
