/* The picture: three panels over one logarithmic axis of budgets, and the marks through all of them. */
#include "cmd/price_budget.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 760, LEFT = 84, RIGHT = 20, TOP = 64, PANEL = 150, GAP = 34, N_PANELS = 3, TICKS = 4 };

struct panel {
    const char *title, *unit;
    double (*value)(const struct tradeoff_point *p);
    unsigned decimals;
};

static double false_percent(const struct tradeoff_point *p)
{
    return p->false_share * 100;
}
static double outage_seconds(const struct tradeoff_point *p)
{
    return (double)p->budget_us / 1e6;
}
static double dollars(const struct tradeoff_point *p)
{
    return p->total_usd * 1000;
}

static const struct panel panels[N_PANELS] = {
    {"Calls cut that would have answered", "%", false_percent, 1},
    {"Wait before the next link, in an outage", "s", outage_seconds, 1},
    {"Waste and waits per 1,000 calls", "USD", dollars, 2},
};

static double x_of(const struct budget_report *r, uint64_t us)
{
    double from = log((double)r->ask.from_us), to = log((double)r->ask.to_us);
    double at = (log((double)us) - from) / (to - from);
    return LEFT + (at < 0 ? 0 : at > 1 ? 1 : at) * (WIDTH - LEFT - RIGHT);
}

static double top_of(int panel)
{
    return TOP + panel * (PANEL + GAP);
}

static void put_escaped(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<' || c == '>' || c == '&' || c == '"' || c < 0x20)
            buf_printf(out, "&#%u;", c < 0x20 ? ' ' : c);
        else
            buf_putc(out, *text);
    }
}

static void put_text(struct buf *out, double x, double y, const char *anchor, const char *kind, const char *text)
{
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, kind);
    put_escaped(out, text);
    buf_puts(out, "</text>\n");
}

static double largest(const struct budget_report *r, const struct panel *p)
{
    double max = 0;
    for (unsigned i = 0; i < TRADEOFF_POINTS; i++)
        max = p->value(&r->curve.points[i]) > max ? p->value(&r->curve.points[i]) : max;
    return max > 0 ? max : 1;
}

static void put_scale(struct buf *out, int at, const struct panel *p, double max)
{
    char label[48];
    for (int i = 0; i <= TICKS; i++) {
        double y = top_of(at) + PANEL - (double)i / TICKS * PANEL;
        buf_printf(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"grid\"/>\n", LEFT, y, WIDTH - RIGHT,
                   y);
        snprintf(label, sizeof label, "%.*f %s", (int)p->decimals + (max < 1), max * i / TICKS, p->unit);
        put_text(out, LEFT - 8, y + 4, "end", "tick", label);
    }
    put_text(out, LEFT, top_of(at) - 8, "start", "title", p->title);
}

static void put_panel(struct buf *out, const struct budget_report *r, int at)
{
    const struct panel *p = &panels[at];
    double max = largest(r, p);
    put_scale(out, at, p, max);
    buf_puts(out, "<polyline class=\"curve\" points=\"");
    for (unsigned i = 0; i < TRADEOFF_POINTS; i++) {
        const struct tradeoff_point *point = &r->curve.points[i];
        buf_printf(out, "%.1f,%.1f ", x_of(r, point->budget_us), top_of(at) + PANEL - p->value(point) / max * PANEL);
    }
    buf_puts(out, "\"/>\n");
}

static void put_marks(struct buf *out, const struct budget_report *r)
{
    double bottom = top_of(N_PANELS - 1) + PANEL;
    char label[64];
    for (int m = 0; m < MARKS; m++) {
        uint64_t us = r->marks_us[m];
        if (us == 0)
            continue;
        double x = x_of(r, us);
        snprintf(label, sizeof label, "%s %llu ms", budget_mark_word((enum budget_mark)m),
                 (unsigned long long)((us + 500) / 1000));
        buf_printf(out, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\" class=\"mark m%d\"/>\n", x, TOP, x, bottom,
                   m);
        bool is_right = x > WIDTH - RIGHT - 130;
        put_text(out, is_right ? x - 4 : x + 4, TOP + 14 + 15 * m, is_right ? "end" : "start", "label", label);
    }
}

static void put_budgets(struct buf *out, const struct budget_report *r)
{
    char label[32];
    double bottom = top_of(N_PANELS - 1) + PANEL;
    for (unsigned i = 0; i < TRADEOFF_POINTS; i += (TRADEOFF_POINTS - 1) / 5) {
        uint64_t us = r->curve.points[i].budget_us;
        snprintf(label, sizeof label, "%.3g s", (double)us / 1e6);
        put_text(out, x_of(r, us), bottom + 18, "middle", "tick", label);
    }
    put_text(out, (LEFT + WIDTH - RIGHT) / 2.0, bottom + 38, "middle", "tick", "first-token budget");
}

void budget_svg(const struct budget_report *r, struct buf *out)
{
    int height = (int)top_of(N_PANELS - 1) + PANEL + 56;
    buf_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n"
        "<style>text{font:12px sans-serif;fill:#222}.head{font-size:15px;font-weight:bold}.title{font-weight:bold}"
        ".tick{fill:#555;font-size:11px}.label{font-size:11px;paint-order:stroke;stroke:#fff;stroke-width:3px}.grid{"
        "stroke:#ddd}.curve{fill:none;stroke:#1f5fa8;"
        "stroke-width:2}.mark{stroke-width:1.5;stroke-dasharray:5 3}.m0{stroke:#888}.m1{stroke:#c2410c}"
        ".m2{stroke:#15803d}</style>\n<title>First-token budget of ",
        WIDTH, height, WIDTH, height);
    put_escaped(out, r->provider);
    buf_putc(out, '/');
    put_escaped(out, r->model);
    buf_printf(out,
               "</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"28\" class=\"head\">",
               WIDTH, height, LEFT);
    put_escaped(out, r->provider);
    buf_putc(out, '/');
    put_escaped(out, r->model);
    buf_printf(out, ", %.0f answers</text>\n", r->n_answered);
    for (int i = 0; i < N_PANELS; i++)
        put_panel(out, r, i);
    put_marks(out, r);
    put_budgets(out, r);
    buf_puts(out, "</svg>\n");
}
