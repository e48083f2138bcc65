/* Names: hosts file, the two sources, a name server of our own for TTL, refresh, failures. */
#include "unit.h"

#include "ends.h"
#include "names.h"
#include "net/address.h"
#include "net/resolver_impl.h"

static struct loop *l;
static struct resolver *r;
static struct names names;

struct answer {
    int n_calls;
    struct addresses addresses;
    char message[128];
};

static void on_answer(const struct addresses *a, const char *message, void *arg)
{
    struct answer *x = arg;
    x->n_calls++;
    x->addresses = a ? *a : (struct addresses){.n = 0};
    snprintf(x->message, sizeof x->message, "%s", message);
}

/* A turn in which the name server has its say too. */
static void turn(void)
{
    names_serve(&names);
    loop_turn(l, 2000);
}

static struct answer ask(const char *host)
{
    struct answer x = {0};
    assert_non_null(resolver_ask(r, host, on_answer, &x));
    assert_int_equal(x.n_calls, 0); /* never from inside */
    for (int i = 0; i < 5000 && x.n_calls == 0; i++)
        turn();
    assert_int_equal(x.n_calls, 1);
    return x;
}

static void assert_first(const struct answer *x, const char *expected)
{
    char text[64] = "";
    assert_true(x->addresses.n > 0);
    address_text(&x->addresses.v[0], text, sizeof text);
    assert_string_equal(text, expected);
}

static int open_with(enum resolver_kind kind)
{
    l = loop_new();
    r = resolver_new(l, kind);
    if (!names_open(&names))
        return -1;
    names.n_v4 = 1;
    memcpy(names.v4[0], (unsigned char[]){127, 0, 0, 9}, 4);
    if (kind == RESOLVER_CARES && resolver_set_servers(r, names.servers) != ERR_OK)
        return -1;
    return 0;
}

static int open_cares(void **state)
{
    return open_with(RESOLVER_CARES);
}

static int open_system(void **state)
{
    return open_with(RESOLVER_SYSTEM);
}

static int close_all(void **state)
{
    resolver_free(r);
    loop_free(l);
    close(names.fd);
    return 0;
}

static void hosts_file(void **state)
{
    struct answer x = ask("localhost");
    assert_true(x.addresses.n >= 1);
    assert_int_equal(address_port(&x.addresses.v[0]), 0);
    x = ask("LOCALHOST");
    assert_true(x.addresses.n >= 1);
}

static void name_server_is_asked_once(void **state)
{
    struct answer a = {0}, b = {0};
    resolver_ask(r, "a.provider.test", on_answer, &a);
    resolver_ask(r, "a.provider.test", on_answer, &b);
    for (int i = 0; i < 5000 && b.n_calls == 0; i++)
        turn();
    assert_int_equal(a.n_calls + b.n_calls, 2);
    assert_first(&a, "127.0.0.9:0");
    struct answer c = ask("a.provider.test");
    assert_first(&c, "127.0.0.9:0");
    assert_int_equal(names.n_questions, 1);
}

static void unknown_name(void **state)
{
    names.mood = NAMES_NXDOMAIN;
    struct answer x = ask("nobody.test");
    assert_int_equal(x.addresses.n, 0);
    assert_true(strlen(x.message) > 0);
    names.mood = NAMES_ANSWER; /* failures are not kept */
    x = ask("nobody.test");
    assert_first(&x, "127.0.0.9:0");
}

static void used_name_is_refreshed_before_its_end(void **state)
{
    names.ttl_s = 0; /* counts as one second */
    ask("a.test");
    ask("a.test"); /* in use */
    memcpy(names.v4[0], (unsigned char[]){127, 0, 0, 10}, 4);
    uint64_t since = loop_now_us(l);
    for (int i = 0; i < 5000 && names.n_questions < 2; i++)
        turn();
    assert_int_equal(names.n_questions, 2);
    assert_true(loop_now_us(l) - since < 1000000);
    for (int i = 0; i < 20; i++)
        turn();
    struct answer x = ask("a.test");
    assert_first(&x, "127.0.0.10:0");
    assert_int_equal(names.n_questions, 2);
}

static void last_good_answer_is_kept(void **state)
{
    names.ttl_s = 1;
    ask("a.test");
    names.mood = NAMES_NXDOMAIN;
    uint64_t until = loop_now_us(l) + 1050000;
    for (int i = 0; i < 5000 && loop_now_us(l) < until; i++)
        turn();
    struct answer x = ask("a.test"); /* expired; asked again; refused */
    assert_int_equal(names.n_questions, 2);
    assert_first(&x, "127.0.0.9:0");
    x = ask("a.test");
    assert_first(&x, "127.0.0.9:0");
    assert_int_equal(names.n_questions, 2);
}

static void silent_server_does_not_hold_up_a_known_name(void **state)
{
    names.ttl_s = 1;
    ask("a.test");
    names.mood = NAMES_SILENT;
    uint64_t until = loop_now_us(l) + 1050000;
    for (int i = 0; i < 5000 && loop_now_us(l) < until; i++)
        turn();
    uint64_t since = loop_now_us(l);
    struct answer x = ask("a.test");
    assert_first(&x, "127.0.0.9:0");
    assert_true(loop_now_us(l) - since < 900000);
}

static void cancelled_question_is_not_answered(void **state)
{
    struct answer a = {0}, b = {0}, c = {0};
    struct resolve *q = resolver_ask(r, "a.test", on_answer, &a);
    resolver_ask(r, "a.test", on_answer, &b);
    resolve_cancel(q);
    for (int i = 0; i < 5000 && b.n_calls == 0; i++)
        turn();
    q = resolver_ask(r, "a.test", on_answer, &c); /* answered from the cache, in this turn */
    resolve_cancel(q);
    turn();
    assert_int_equal(a.n_calls, 0);
    assert_int_equal(c.n_calls, 0);
}

static void freed_with_a_question_under_way(void **state)
{
    struct answer a = {0};
    resolver_ask(r, "localhost", on_answer, &a);
    names.mood = NAMES_SILENT;
    resolver_ask(r, "b.test", on_answer, &a);
    resolver_free(r);
    r = NULL;
    loop_turn(l, 0);
    assert_int_equal(a.n_calls, 0);
}

static void many_names_stay_bounded(void **state)
{
    for (int i = 0; i < 300; i++) {
        char host[32];
        snprintf(host, sizeof host, "n%d.test", i);
        ask(host);
    }
    assert_int_equal(names.n_questions, 300);
    ask("n299.test");
    assert_int_equal(names.n_questions, 300);
    ask("n0.test"); /* the least recently asked had to go */
    assert_int_equal(names.n_questions, 301);
}

static void system_hosts_file(void **state)
{
    struct answer x = ask("localhost");
    assert_true(x.addresses.n >= 1);
    x = ask("localhost");
    assert_true(x.addresses.n >= 1);
}

static void system_freed_with_a_question_under_way(void **state)
{
    struct answer a = {0};
    resolver_ask(r, "localhost", on_answer, &a);
    resolver_free(r);
    r = NULL;
    loop_turn(l, 0);
    assert_int_equal(a.n_calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hosts_file, open_cares, close_all),
        cmocka_unit_test_setup_teardown(name_server_is_asked_once, open_cares, close_all),
        cmocka_unit_test_setup_teardown(unknown_name, open_cares, close_all),
        cmocka_unit_test_setup_teardown(used_name_is_refreshed_before_its_end, open_cares, close_all),
        cmocka_unit_test_setup_teardown(last_good_answer_is_kept, open_cares, close_all),
        cmocka_unit_test_setup_teardown(silent_server_does_not_hold_up_a_known_name, open_cares, close_all),
        cmocka_unit_test_setup_teardown(cancelled_question_is_not_answered, open_cares, close_all),
        cmocka_unit_test_setup_teardown(freed_with_a_question_under_way, open_cares, close_all),
        cmocka_unit_test_setup_teardown(many_names_stay_bounded, open_cares, close_all),
        cmocka_unit_test_setup_teardown(system_hosts_file, open_system, close_all),
        cmocka_unit_test_setup_teardown(system_freed_with_a_question_under_way, open_system, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
