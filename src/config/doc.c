/* docs/settings.md from the table: a test holds the file against it, so the page cannot drift from the parser. */
#include "config/settings.h"

struct chapter {
    enum section section;
    const char *title, *text;
};

static const struct chapter chapters[] = {
    {SECTION_FILE, "The file", "The outermost map."},
    {SECTION_ADMIN, "admin", "Where `admin` is a map."},
    {SECTION_KEY, "client_keys[]", "Each item of `client_keys`."},
    {SECTION_RATES, "prices",
     "Each value of `prices`, or each item of it where it is a list: one for each class of service and each span of "
     "days. "
     "The key is `provider/model` (goes first) or `model`, with the provider's name of the model. What the members do "
     "is "
     "told in [prices.md](prices.md)."},
    {SECTION_TIER, "prices.tiers[]", "Each item of `tiers`."},
    {SECTION_LIMITS, "limits", "Reaching one is an answer or an event, never an accident."},
    {SECTION_PROVIDER, "providers.NAME", "Each value of `providers`."},
    {SECTION_ROUTE, "routes[] and defaults", "Each item of `routes`; in `defaults` all but `model`."},
    {SECTION_BREAKER, "breaker", "Where `breaker` is a map."},
    {SECTION_AUTO, "ttft_auto", "Where `ttft_budget_ms` is `auto`, or `ttft_budget_mode` is `shadow`."},
    {SECTION_HEDGE, "hedge", "Where `hedge` is a map."},
    {SECTION_CACHE, "cache", "What it is about: [cache.md](cache.md)."},
    {SECTION_LINK, "chain[]", "Each item of `chain`. What is left out is taken from the route."},
    {SECTION_SUPPORTS, "chain[].supports", "What is left out is not known, and then a link is tried."},
};

static const char head[] =
    "# Settings\n\n"
    "One YAML file; JSON is YAML, so JSON works. This page is generated from `src/config/settings.def`.\n\n"
    "- What is not written has the default below. A link's own value goes before its route's, a route's before\n"
    "  `defaults`, and those before the built-in ones.\n"
    "- `${NAME}` in a value is replaced from the environment, once; `$$` is a dollar. A variable that is not set is "
    "an\n"
    "  error; `${NAME:-text}` gives the text instead. A provider whose credential is left empty by `${NAME:-}` is "
    "off.\n"
    "- Types come from this table and not from how a value looks: `model: 1.10` is the text 1.10.\n"
    "- Anchors, aliases and tags are not read. A key that stands twice, or that is not listed here, is an error.\n"
    "- `ringmain check` tells all faults of a file at once.\n"
    "- Settings marked *restart* keep their old value on a reload, and the log says so.\n";

/* A table's cell: the bar is its border. */
static void put_cell(struct buf *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '|')
            buf_putc(out, '\\');
        buf_putc(out, *p);
    }
}

static void put_row(struct buf *out, const struct setting *s)
{
    buf_printf(out, "| `%s` | ", s->name);
    if (s->kind == SETTING_UNBUILT) {
        buf_printf(out, "not built yet | | %s Refused until then. |\n", s->text);
        return;
    }
    struct buf form = {0};
    settings_expected(s, &form);
    put_cell(out, buf_cstr(&form));
    buf_fini(&form);
    buf_puts(out, " | ");
    if (s->standard[0] != '\0')
        buf_printf(out, "`%s`", s->standard);
    buf_puts(out, " | ");
    put_cell(out, s->text);
    if (s->refused[0] != '\0')
        buf_printf(out, " (`%s` is not built yet.)", s->refused);
    if (s->flags & SETTING_RESTART)
        buf_puts(out, " *restart*");
    buf_puts(out, " |\n");
}

void config_settings_doc(struct buf *out)
{
    size_t n;
    const struct setting *rows = settings_rows(&n);
    buf_puts(out, head);
    for (size_t c = 0; c < RM_COUNTOF(chapters); c++) {
        buf_printf(out, "\n## %s\n\n%s\n\n| setting | value | default | meaning |\n| --- | --- | --- | --- |\n",
                   chapters[c].title, chapters[c].text);
        for (size_t i = 0; i < n; i++)
            if (rows[i].section == chapters[c].section)
                put_row(out, &rows[i]);
    }
}
