/* The simulated loop: the clock moves from timer to timer, nothing waits. */
#include "unit.h"

#include "loop/loop_sim.h"

static struct loop *l;
static uint64_t fired_at_us[4];
static int n_fired;

static int open_loop(void **state)
{
    n_fired = 0;
    l = loop_new();
    return 0;
}

static int close_loop(void **state)
{
    loop_free(l);
    return 0;
}

static void on_timer(struct timer *t)
{
    assert_int_equal(loop_clock_us(), loop_now_us(l));
    if (n_fired < 4)
        fired_at_us[n_fired] = loop_now_us(l);
    n_fired++;
}

static void clock_jumps_to_timers(void **state)
{
    struct timer a = {.fn = on_timer}, b = {.fn = on_timer};
    timer_arm(l, &b, LOOP_SIM_START_US + UINT64_C(3600000000));
    timer_arm(l, &a, LOOP_SIM_START_US + 5);
    assert_int_equal(loop_sim_next_us(l), LOOP_SIM_START_US + 5);
    loop_run(l);
    assert_int_equal(n_fired, 2);
    assert_int_equal(fired_at_us[0], LOOP_SIM_START_US + 5);
    assert_int_equal(fired_at_us[1], LOOP_SIM_START_US + UINT64_C(3600000000));
    assert_int_equal(loop_wall_ms(l), LOOP_SIM_WALL_MS + 3600000);
    assert_true(loop_sim_is_idle(l));
}

static void a_turn_does_not_go_past_its_bound(void **state)
{
    struct timer a = {.fn = on_timer};
    timer_arm(l, &a, LOOP_SIM_START_US + 1000);
    loop_turn(l, 400);
    assert_int_equal(loop_now_us(l), LOOP_SIM_START_US + 400);
    assert_int_equal(n_fired, 0);
    assert_true(loop_sim_run_to(l, LOOP_SIM_START_US + 1000, 10));
    assert_int_equal(n_fired, 1);
    assert_true(loop_sim_run_to(l, LOOP_SIM_START_US + 5000, 10));
    assert_int_equal(loop_now_us(l), LOOP_SIM_START_US + 5000);
}

static void rearm(struct timer *t)
{
    n_fired++;
    timer_arm(l, t, loop_now_us(l));
}

static void a_busy_loop_is_noticed(void **state)
{
    struct timer a = {.fn = rearm};
    timer_arm(l, &a, LOOP_SIM_START_US);
    assert_false(loop_sim_run_to(l, LOOP_SIM_START_US + 1000, 50));
    assert_int_equal(n_fired, 50);
    timer_cancel(l, &a);
}

static void on_task(struct task *t)
{
    n_fired++;
}

static void on_mail(struct mail *m)
{
    n_fired += 10;
}

static void tasks_and_mail_come_before_the_clock_moves(void **state)
{
    struct task t = {.fn = on_task};
    struct mail m = {.fn = on_mail};
    struct timer a = {.fn = on_timer};
    list_init(&t.node);
    loop_post(l, &t);
    loop_mail(l, &m);
    timer_arm(l, &a, LOOP_SIM_START_US + 7);
    loop_turn(l, UINT64_MAX);
    assert_int_equal(n_fired, 11);
    assert_int_equal(loop_now_us(l), LOOP_SIM_START_US);
    timer_cancel(l, &a);
}

static void on_deferring_task(struct task *t)
{
    if (++n_fired < 3)
        loop_defer(l, t);
}

static void a_deferred_task_runs_once_a_turn_and_keeps_the_clock(void **state)
{
    struct task t = {.fn = on_deferring_task};
    struct timer a = {.fn = on_timer};
    list_init(&t.node);
    timer_arm(l, &a, LOOP_SIM_START_US + 7);
    loop_defer(l, &t);
    loop_post(l, &t);              /* stays where it is */
    for (int i = 0; i <= 3; i++) { /* what is deferred outside a turn waits for one to end */
        loop_turn(l, UINT64_MAX);
        assert_int_equal(n_fired, i);
        assert_int_equal(loop_now_us(l), LOOP_SIM_START_US);
    }
    timer_cancel(l, &a);
}

/* Else work that is deferred again and again, by one event a turn, would never be done. */
static void a_queued_task_is_not_deferred_further(void **state)
{
    struct task t = {.fn = on_task};
    list_init(&t.node);
    loop_post(l, &t);
    loop_defer(l, &t);
    loop_turn(l, 0);
    assert_int_equal(n_fired, 1);
    loop_defer(l, &t);
    loop_turn(l, 0);
    loop_defer(l, &t); /* it is this turn's task by now */
    loop_turn(l, 0);
    assert_int_equal(n_fired, 2);
}

static void a_deferred_task_can_be_cancelled(void **state)
{
    struct task t = {.fn = on_task};
    list_init(&t.node);
    loop_defer(l, &t);
    task_cancel(&t);
    assert_true(loop_sim_is_idle(l));
    loop_turn(l, 0);
    assert_int_equal(n_fired, 0);
}

static void no_descriptors(void **state)
{
    struct watch w = {.fd = 0};
    assert_int_equal(watch_add(l, &w), ERR_UNSUPPORTED);
    watch_del(l, &w);
}

static void wall_clock_can_be_set(void **state)
{
    loop_sim_shift_wall(l, -5000);
    assert_int_equal(loop_wall_ms(l), LOOP_SIM_WALL_MS - 5000);
    assert_int_equal(loop_now_us(l), LOOP_SIM_START_US);
}

static void a_turn_has_one_wall_time(void **state)
{
    assert_int_equal(loop_turn_wall_ms(l), LOOP_SIM_WALL_MS);
    loop_sim_shift_wall(l, -5000);
    assert_int_equal(loop_turn_wall_ms(l), LOOP_SIM_WALL_MS);
    loop_turn(l, 1000);
    assert_int_equal(loop_turn_wall_ms(l), loop_wall_ms(l));
    assert_true(loop_turn_wall_ms(l) < LOOP_SIM_WALL_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(clock_jumps_to_timers, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_turn_does_not_go_past_its_bound, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_busy_loop_is_noticed, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(tasks_and_mail_come_before_the_clock_moves, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_deferred_task_runs_once_a_turn_and_keeps_the_clock, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_queued_task_is_not_deferred_further, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_deferred_task_can_be_cancelled, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(no_descriptors, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(wall_clock_can_be_set, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_turn_has_one_wall_time, open_loop, close_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
