/* ringmain price --article: the published comparison beside ours. */
#include "base/check.h"
#include "cmd/price.h"
#include "codec/json_write.h"
#include "price/article.h"
#include "price/show.h"

#include <stdio.h>

/* ---- for people ---- */

enum { COL_NAME = 34, COL_MONEY = 18, COL_AMOUNT = 11 };

/* Fills up to the column's width, at least one space. */
static void pad(struct buf *b, size_t from, size_t width)
{
    do
        buf_putc(b, ' ');
    while (b->n - from < width);
}

static void put_change(struct buf *b, const struct article_figure *f, int64_t change)
{
    if (f->kind == CHANGE_NONE)
        return;
    buf_putc(b, ' ');
    show_fixed(b, change, f->places, f->kind == CHANGE_PERCENT);
    buf_puts(b, f->kind == CHANGE_PERCENT ? " %" : "x");
}

static void put_cell(struct buf *b, const struct article_figure *f, int64_t nusd, int64_t change)
{
    size_t from = b->n;
    if (f->is_added)
        show_change(b, nusd, 2);
    else
        show_usd(b, nusd, 2);
    put_change(b, f, change);
    pad(b, from, COL_MONEY);
}

static void put_amount(struct buf *b, int64_t nusd, unsigned places, bool is_change)
{
    size_t from = b->n;
    if (nusd == NUSD_UNKNOWN)
        buf_putc(b, '-');
    else if (is_change)
        show_change(b, nusd, places);
    else
        show_usd(b, nusd, places);
    pad(b, from, COL_AMOUNT);
}

static void put_row(struct buf *b, const struct article_figure *f)
{
    size_t from = b->n;
    buf_printf(b, "  %s", f->name);
    pad(b, from, COL_NAME);
    put_cell(b, f, f->published_cents * 10000000, f->published_change);
    put_cell(b, f, f->as_published_nusd, f->change);
    buf_puts(b, f->agrees ? "=   " : "no  ");
    put_amount(b, f->bill_nusd, 4, false);
    put_amount(b, f->gross_nusd, 4, true);
    put_amount(b, f->net_nusd, 4, true);
    buf_printf(b, "%s\n", f->accounting);
}

static void print_text(const struct article *a)
{
    struct buf b = {0};
    buf_printf(&b, "Model fallback chains, 2026-07-18, recomputed from its assumptions:\n%s.\n\n",
               article_assumptions());
    buf_printf(&b, "%-*s%-*s%-*s    %-*s%-*s%-*s%s\n", COL_NAME, "", COL_MONEY, "published", COL_MONEY, "recomputed",
               COL_AMOUNT, "bill", COL_AMOUNT, "gross", COL_AMOUNT, "net", "what the article counts");
    for (size_t i = 0; i < a->n; i++) {
        if (i == 0 || a->figures[i].section != a->figures[i - 1].section)
            buf_printf(&b, "%s\n", a->figures[i].section);
        put_row(&b, &a->figures[i]);
    }
    buf_puts(&b,
             "\ngross: what the attempts cost that no client saw. net: the bill against the primary alone (cache rows: "
             "the warm primary).\n\nwhere the article is off\n");
    for (size_t i = 0; i < ARTICLE_CORRECTIONS; i++) {
        buf_printf(&b, "  %zu. ", i + 1);
        article_correction(a, i, &b);
        buf_putc(&b, '\n');
    }
    buf_puts(&b, "Its hedged rows leave the 0.5 % of failures out; with them: ");
    show_usd(&b, a->hedged_nusd[0], 2);
    buf_puts(&b, " cancelled, ");
    show_usd(&b, a->hedged_nusd[1], 2);
    buf_puts(&b, " not cancelled.\n");
    fwrite(b.p, 1, b.n, stdout);
    buf_fini(&b);
}

/* ---- for programs ---- */

static void money(struct json_writer *w, const char *name, int64_t nusd)
{
    jw_named_known(w, name, nusd, nusd != NUSD_UNKNOWN);
}

static void change(struct json_writer *w, const char *name, const struct article_figure *f, int64_t v)
{
    struct buf b = {0};
    jw_key(w, name);
    if (f->kind == CHANGE_NONE) {
        jw_null(w);
        return;
    }
    show_fixed(&b, v, f->places, f->kind == CHANGE_PERCENT);
    buf_puts(&b, f->kind == CHANGE_PERCENT ? "%" : "x");
    jw_string(w, buf_bytes(&b));
    buf_fini(&b);
}

static void figure_json(struct json_writer *w, const struct article_figure *f)
{
    jw_object(w);
    jw_named_cstr(w, "section", f->section);
    jw_named_cstr(w, "figure", f->name);
    money(w, "published_nusd", f->published_cents * 10000000);
    change(w, "published_change", f, f->published_change);
    jw_named_cstr(w, "accounting", f->accounting);
    money(w, "as_published_nusd", f->as_published_nusd);
    change(w, "as_published_change", f, f->change);
    jw_named_bool(w, "agrees", f->agrees);
    money(w, "bill_nusd", f->bill_nusd);
    money(w, "gross_nusd", f->gross_nusd);
    money(w, "net_nusd", f->net_nusd);
    jw_end(w);
}

static void print_json(const struct article *a)
{
    struct buf b = {0}, line = {0};
    struct json_writer w;
    jw_init(&w, &b);
    jw_object(&w);
    jw_named_cstr(&w, "assumptions", article_assumptions());
    jw_named_int(&w, "per_calls", 1000);
    jw_key(&w, "figures");
    jw_array(&w);
    for (size_t i = 0; i < a->n; i++)
        figure_json(&w, &a->figures[i]);
    jw_end(&w);
    jw_key(&w, "corrections");
    jw_array(&w);
    for (size_t i = 0; i < ARTICLE_CORRECTIONS; i++) {
        buf_clear(&line);
        article_correction(a, i, &line);
        jw_string(&w, buf_bytes(&line));
    }
    jw_end(&w);
    money(&w, "hedged_with_failures_nusd", a->hedged_nusd[0]);
    money(&w, "hedged_no_cancel_with_failures_nusd", a->hedged_nusd[1]);
    jw_end(&w);
    buf_putc(&b, '\n');
    fwrite(b.p, 1, b.n, stdout);
    buf_fini(&line);
    buf_fini(&b);
}

int price_article(bool is_json)
{
    struct price_book *book = price_book_builtin();
    struct article a;
    bool ok = article_compute(book, &a);
    price_book_free(book);
    if (!ok) {
        fputs("ringmain price: the price book lacks a model of the article\n", stderr);
        return 1;
    }
    if (is_json)
        print_json(&a);
    else
        print_text(&a);
    for (size_t i = 0; i < a.n; i++)
        if (!a.figures[i].agrees)
            return 1;
    return 0;
}
