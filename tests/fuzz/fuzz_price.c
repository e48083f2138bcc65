/* Any bytes as a catalogue, a price book and an invoice. What the import writes is a book, always; a book that is read
 * gives costs that are never negative; an invoice has no more rows than lines. */
#include "fuzz.h"

#include "price/invoice.h"
#include "price/litellm.h"
#include "price/price.h"

static void use_book(struct bytes in)
{
    struct price_book *book;
    struct buf why = {0};
    enum err e = price_book_parse(in, &book, &why);
    RM_ASSERT((e == ERR_OK) == (why.n == 0) && (e == ERR_OK) == (book != NULL));
    buf_fini(&why);
    if (book == NULL)
        return;
    static const char *const models[] = {"m", "gpt-x", "us.m-20250101"};
    for (size_t i = 0; i < RM_COUNTOF(models); i++) {
        const struct usage u = {100000, 100000, 5, 5, 1000, 10};
        const struct price *p = price_find_service(book, "a", "b", models[i], "flex", INT64_C(1784332800000));
        int64_t cost = price_cost(p, &u);
        RM_ASSERT(cost >= 0 || cost == NUSD_UNKNOWN);
    }
    price_book_free(book);
}

static void use_catalogue(struct bytes in)
{
    struct buf out = {0}, why = {0};
    struct litellm_report report;
    struct litellm_ask ask = {in, "a file", ""};
    if (litellm_import(&ask, &out, &report, &why) == ERR_OK) {
        struct price_book *book;
        enum err e = price_book_parse(buf_bytes(&out), &book, &why);
        RM_ASSERT(e == ERR_OK && report.n_written <= report.n_models);
        RM_ASSERT(price_book_n(book) == report.n_written + report.n_services);
        price_book_free(book);
    }
    litellm_report_fini(&report);
    buf_fini(&out);
    buf_fini(&why);
}

static void use_invoice(struct bytes in)
{
    struct arena arena = {0};
    struct invoice v;
    struct buf why = {0};
    size_t n_lines = 1;
    for (size_t i = 0; i < in.n; i++)
        n_lines += in.p[i] == '\n';
    enum err e = invoice_read(in, NULL, &arena, &v, &why);
    RM_ASSERT((e == ERR_OK) == (why.n == 0));
    for (size_t i = 0; e == ERR_OK && i < v.n; i++)
        RM_ASSERT(v.rows[i].line > 1 && v.rows[i].line <= n_lines && v.rows[i].usage.output >= -1);
    RM_ASSERT(e != ERR_OK || v.n < n_lines);
    buf_fini(&why);
    arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = bytes_from(data, size);
    use_book(in);
    use_catalogue(in);
    use_invoice(in);
    return 0;
}
