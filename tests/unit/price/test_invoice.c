#include "unit.h"

#include "base/mem.h"
#include "price/invoice.h"

struct read {
    struct arena arena;
    struct invoice in;
    struct buf why;
    enum err err;
};

static struct read read_text(const char *text)
{
    struct read r = {0};
    r.err = invoice_read(bytes_of(text), NULL, &r.arena, &r.in, &r.why);
    return r;
}

static void release(struct read *r)
{
    arena_fini(&r->arena);
    buf_fini(&r->why);
    assert_int_equal(mem_live(MEM_ARENA), 0);
}

static void columns_by_name(void **state)
{
    struct read r =
        read_text("\xef\xbb\xbf"
                  "Model,Usage Date,project,Input Tokens,Input Cached Tokens,Output Tokens,Requests,Cost (USD)\r\n"
                  "\"gpt-x, \"\"large\"\"\",2026-07-18,a,\"1,200\",200,30,4,$0.0125\r\n"
                  "\r\n"
                  "gpt-y,2026-07-19T23:59:59Z,\"two\nlines\",1e3,,7,,\n"
                  "gpt-z,1784419200,c,5,0,6,1,-2.5");
    assert_int_equal(r.err, ERR_OK);
    assert_int_equal(r.in.n, 3);
    const struct invoice_row *v = r.in.rows;
    assert_true(bytes_is(v[0].model, "gpt-x, \"large\""));
    assert_int_equal(v[0].day, 20652); /* 2026-07-18 */
    assert_int_equal(v[0].usage.input, 1200);
    assert_int_equal(v[0].usage.cache_read, 200);
    assert_int_equal(v[0].usage.output, 30);
    assert_int_equal(v[0].usage.cache_write_5m, -1); /* no such column */
    assert_int_equal(v[0].requests, 4);
    assert_int_equal(v[1].day, 20653);
    assert_int_equal(v[1].usage.input, 1000);
    assert_int_equal(v[1].usage.cache_read, 0); /* empty */
    assert_int_equal(v[2].line, 6);
    assert_int_equal(v[2].day, 20653);
    assert_int_equal(v[0].cost_nusd, 12500000); /* "Cost (USD)" is cost_usd */
    assert_int_equal(v[2].cost_nusd, INT64_C(-2500000000));
    release(&r);
    r = read_text("date;model;uncached_input_tokens;cost_usd\n2026-07-18;m;5;0.0125\n");
    assert_int_equal(r.err, ERR_OK);
    assert_int_equal(r.in.rows[0].cost_nusd, 12500000);
    assert_true(r.in.is_input_named);
    release(&r);
    r = read_text("date\tmodel\tinput_tokens\tcost\n2026-07-18\tm\t5\t-$2.50\n");
    assert_int_equal(r.in.rows[0].cost_nusd, INT64_C(-2500000000));
    assert_false(r.in.is_input_named);
    release(&r);
}

static void columns_as_told(void **state)
{
    const char *columns[INVOICE_N_COLUMNS] = {[INVOICE_COST] = "Cost (USD)", [INVOICE_DAY] = "when"};
    struct read r = {0};
    struct bytes text = BYTES("when,date,model,Cost (USD)\n2026-07-18,2020-01-01,m,3\n");
    assert_int_equal(invoice_read(text, columns, &r.arena, &r.in, &r.why), ERR_OK);
    assert_int_equal(r.in.rows[0].day, 20652);
    assert_int_equal(r.in.rows[0].cost_nusd, INT64_C(3000000000));
    columns[INVOICE_MODEL] = "sku";
    assert_int_equal(invoice_read(text, columns, &r.arena, &r.in, &r.why), ERR_MISSING);
    assert_non_null(strstr(buf_cstr(&r.why), "no column for sku; there are: when, date, model, Cost (USD)"));
    release(&r);
}

static void bad_files(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "no column for the day"},
        {"model,cost\nm,1\n", "line 1: no column for the day; there are: model, cost"},
        {"date,cost\n", "no column for the model"},
        {"date,model\n", "no column for a cost or tokens"},
        {"date,model,cost\n2026-07-18,m\n", "line 2: the row is shorter"},
        {"date,model,cost\n2026-07-18,m,x\n", "line 2: cost is not a number"},
        {"date,model,cost\n\n2026-07-18,m,\"1,5\"\n", "line 3: cost has a comma that does not part thousands"},
        {"date,model,cost\n18.7.2026,m,1\n", "line 2: its day is neither"},
        {"date,model,cost\nTotal,m,1\n", "line 2: its day is neither"},
        {"date,model,cost\n2026-7-18,m,1\n", "line 2: its day is neither"},
        {"date,model,cost\n2026-07-18 noon,m,1\n", "line 2: its day is neither"},
        {"date,model,cost\n2026071,m,1\n", "line 2: its day is neither"},
        {"date,model,input_tokens\n2026-07-18,m,-1\n", "line 2: input is negative"},
        {"date,model,cost\n2026-07-18,\"m,1\n", "line 2: a quote is not closed"},
        {"date,model,cost\n2026-07-18,\"m\"x,1\n", "line 2: text after a closing quote"},
        {"date,model,cost\n2026-07-18,m,1e30\n", "line 2: cost is too large"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read r = read_text(cases[i].text);
        assert_int_not_equal(r.err, ERR_OK);
        if (strstr(buf_cstr(&r.why), cases[i].why) == NULL)
            fail_msg("case %zu: \"%s\", not \"%s\"", i, buf_cstr(&r.why), cases[i].why);
        release(&r);
    }
}

static void days(void **state)
{
    static const struct {
        const char *text;
        int64_t day;
    } cases[] = {
        {"2026-07-18", 20652},
        {"2026/07/18", 20652},
        {"20260718", 20652},
        {"2026-07-18T23:59:59", 20652},
        {"2026-07-18 23:59:59", 20652},
        {"2026-07-18 23:59:59.999", 20652},
        {"2026-07-18 23:59:59 UTC", 20652},
        {"2026-07-18T23:59:59Z", 20652},
        {"2026-07-18T23:30:00-01:00", 20653},
        {"2026-07-18 00:30:00+01:00", 20651},
        {"1784332800", 20652},
        {"1784419199", 20652},
        {"1784332800000", 20652},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf text = {0};
        buf_printf(&text, "date,model,cost\n%s,m,1\n", cases[i].text);
        struct read r = read_text(buf_cstr(&text));
        if (r.err != ERR_OK || r.in.n != 1 || r.in.rows[0].day != cases[i].day)
            fail_msg("%s: %s", cases[i].text, r.err != ERR_OK ? buf_cstr(&r.why) : "another day");
        release(&r);
        buf_fini(&text);
    }
}

static void sums_are_left_out(void **state)
{
    struct read r = read_text("date,model,cost\n2026-07-18,m,1\nTotal,,1\n,Total,1\n,,1\n2026-07-18,,2\n");
    assert_int_equal(r.err, ERR_OK);
    assert_int_equal(r.in.n_sums, 3);
    assert_int_equal(r.in.n, 2); /* a day's cost of no model is a cost */
    assert_int_equal(r.in.rows[1].cost_nusd, INT64_C(2000000000));
    release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_by_name),   cmocka_unit_test(columns_as_told),
        cmocka_unit_test(bad_files),         cmocka_unit_test(days),
        cmocka_unit_test(sums_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
