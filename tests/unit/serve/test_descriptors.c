/* What a limit of open files carries. */
#include "unit.h"

#include "serve/descriptors.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct config config(uint32_t workers, uint64_t connections)
{
    return (struct config){.workers = workers, .limits = {.connections = connections}};
}

static void enough(void **state)
{
    struct config c = config(4, 1000);
    struct descriptors d = descriptors_of(&c, 1 << 20, 3);
    assert_true(descriptors_can_start(&d));
    assert_false(descriptors_are_short(&d));
    assert_int_equal(d.connections, 1000);
    assert_true(d.needed > 2000);
    struct descriptors just = descriptors_of(&c, d.needed, 3);
    assert_false(descriptors_are_short(&just));
    assert_int_equal(just.connections, 1000);
}

/* Whatever the limit is: what is promised fits, more never carries less, and nothing beyond the setting is promised. */
static void what_is_promised_fits(void **state)
{
    static const uint64_t wanted[] = {1, 8, 100, 10000};
    for (uint32_t workers = 1; workers <= 8; workers++)
        for (size_t i = 0; i < RM_COUNTOF(wanted); i++) {
            struct config c = config(workers, wanted[i]);
            uint64_t before = 0;
            for (uint64_t limit = 1; limit < 25000; limit += limit < 300 ? 1 : 97) {
                struct descriptors d = descriptors_of(&c, limit, 5);
                assert_true(d.connections <= wanted[i]);
                assert_true(d.connections >= before);
                assert_true(d.connections == 0 || 5 + 5 * workers + 2 * d.connections <= limit);
                assert_int_equal(d.connections > 0, descriptors_can_start(&d));
                assert_true(descriptors_are_short(&d) || d.connections == wanted[i]);
                before = d.connections;
            }
            assert_int_equal(before, wanted[i]);
        }
}

static void few_are_no_service(void **state)
{
    struct config c = config(1, 10000);
    struct descriptors d = descriptors_of(&c, 1000, 3);
    struct descriptors least = descriptors_of(&c, d.least, 3), below = descriptors_of(&c, d.least - 1, 3);
    assert_true(descriptors_can_start(&least));
    assert_true(least.connections >= 4 && least.connections <= 8);
    assert_false(descriptors_can_start(&below));
    assert_int_equal(below.connections, 0);
    assert_int_equal(descriptors_of(&c, 1000, 13).least, d.least + 10); /* what was inherited is gone */
}

static void the_shortage_is_told_in_numbers(void **state)
{
    struct config c = config(1, 10000);
    char text[256];
    struct descriptors d = descriptors_of(&c, 1024, 3);
    descriptors_tell(&d, &c, text, sizeof text);
    assert_non_null(strstr(text, "is 1024"));
    assert_non_null(strstr(text, "limits.connections = 10000"));
    assert_null(strstr(text, "too few"));
    d = descriptors_of(&c, 20, 3);
    descriptors_tell(&d, &c, text, sizeof text);
    assert_non_null(strstr(text, "too few descriptors"));
    assert_non_null(strstr(text, "is 20,"));
    assert_true(strlen(text) + 1 < sizeof text);
}

static void open_ones_are_counted(void **state)
{
    uint64_t before = descriptors_open();
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(descriptors_open(), before + 1);
    close(fd);
    assert_int_equal(descriptors_open(), before);
}

static void the_limit_is_raised(void **state)
{
    struct rlimit was, now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    struct rlimit low = {.rlim_cur = 64, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(descriptors_raise(), was.rlim_max);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(now.rlim_cur, was.rlim_max);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(enough),
        cmocka_unit_test(what_is_promised_fits),
        cmocka_unit_test(few_are_no_service),
        cmocka_unit_test(the_shortage_is_told_in_numbers),
        cmocka_unit_test(open_ones_are_counted),
        cmocka_unit_test(the_limit_is_raised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
