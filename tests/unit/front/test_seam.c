/* Where a second answer meets the first: every split of the second, and every place at which the first broke off. */
#include "unit.h"

#include "front/seam.h"

#include <string.h>

static const char whole[] = "The lamps stay lit because the ring has two ways round.";

/* Feeds `second` in pieces of `step` bytes; what is shown after `told` stands in *shown. */
static enum seam_result feed(const char *told, const char *second, bool is_prefilled, size_t step, struct buf *shown)
{
    struct seam s;
    struct bytes rest, left = bytes_of(second);
    enum seam_result r = SEAM_HELD;
    seam_init(&s, bytes_of(told), is_prefilled);
    buf_clear(shown);
    while (left.n > 0 && r == SEAM_HELD) {
        size_t n = left.n < step ? left.n : step;
        r = seam_text(&s, bytes_slice(left, 0, n), &rest);
        left = bytes_slice(left, n, left.n);
        if (r == SEAM_JOINED) {
            buf_put(shown, rest);
            buf_put(shown, left);
        }
    }
    if (r == SEAM_HELD && (r = seam_end(&s, &rest)) == SEAM_JOINED)
        buf_put(shown, rest);
    seam_fini(&s);
    return r;
}

static void shows(const char *told, const char *second, bool is_prefilled, const char *expected)
{
    struct buf shown = {0};
    for (size_t step = 1; step <= strlen(second) + 1; step++) {
        enum seam_result r = feed(told, second, is_prefilled, step, &shown);
        assert_int_equal(r, expected ? SEAM_JOINED : SEAM_PARTED);
        if (expected) {
            assert_int_equal(shown.n, strlen(expected));
            assert_memory_equal(shown.n ? shown.p : "", expected, shown.n);
        }
    }
    buf_fini(&shown);
}

static void a_restart_repeats_exactly(void **state)
{
    char told[sizeof whole];
    for (size_t n = 0; n < sizeof whole; n++) {
        memcpy(told, whole, n);
        told[n] = '\0';
        shows(told, whole, false, whole + n);
    }
}

static void a_restart_that_differs_is_not_shown(void **state)
{
    char other[sizeof whole];
    for (size_t i = 0; i + 1 < sizeof whole; i++) { /* one byte is another */
        memcpy(other, whole, sizeof whole);
        other[i] ^= 1;
        shows(whole, other, false, NULL);
    }
    shows(whole, "The lamps", false, NULL); /* ends too early */
    shows(whole, "", false, NULL);
}

static void a_continuation_goes_on(void **state)
{
    char told[sizeof whole];
    for (size_t n = 1; n < sizeof whole; n++) {
        memcpy(told, whole, n);
        told[n] = '\0';
        size_t given = seam_prefill(bytes_of(told)).n;
        shows(told, whole + given, true, whole + n); /* a blank at the end was not given, and comes again */
        shows(told, whole + n, true, whole + n);     /* or it does not */
    }
    shows("Two", "", true, "");
    shows(whole, "", true, "");
    shows(whole, "The ", true, "The "); /* begins alike, and is another sentence */
}

static void a_repeated_prefill_is_seen(void **state)
{
    shows("The lamps stay lit because", whole, true, whole + 26);
    shows("The lamps stay lit because", "The lamps stay lit becausX", true, NULL); /* a restart that differs */
    shows("The lamps", whole, true, whole);                                        /* too short to tell */
}

static void blanks_at_the_end_are_not_given(void **state)
{
    assert_int_equal(seam_prefill(BYTES("a b \n\t\r ")).n, 3);
    assert_int_equal(seam_prefill(BYTES(" \n")).n, 0);
    assert_int_equal(seam_prefill(BYTES("")).n, 0);
    assert_int_equal(seam_prefill(BYTES("a\xc2\xa0")).n, 3); /* others are letters to us */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_repeats_exactly),       cmocka_unit_test(a_restart_that_differs_is_not_shown),
        cmocka_unit_test(a_continuation_goes_on),          cmocka_unit_test(a_repeated_prefill_is_seen),
        cmocka_unit_test(blanks_at_the_end_are_not_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
