/* ringmain keys: client keys. What stands in the configuration is a key's SHA-256; the key itself is shown once and
 * kept by nobody here. 256 bits of chance need no slow hash. */
#include "base/buf.h"
#include "base/sha256.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "codec/json_write.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

enum { RANDOM_BYTES = 32, KEY_BYTES_MAX = 4096, NAME_MAX_BYTES = 64 };

struct keys_options {
    const char *name;
    bool is_json;
};

static void usage(FILE *to)
{
    fputs("usage: ringmain keys new [--name NAME] [--json]\n"
          "       ringmain keys hash [--name NAME] [--json] < KEY\n"
          "\n"
          "new    makes a client key and the line for `client_keys` that admits it\n"
          "hash   reads a key, or an admin secret, from standard input and prints its line\n"
          "\n"
          "  --name NAME    how the key is called in the ledger (default client)\n"
          "  --json         the same as one JSON object\n"
          "  -h, --help     this text\n",
          to);
}

static bool fill_random(unsigned char *out, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = getrandom(out + at, n - at, 0);
        if (got < 0 && errno != EINTR)
            return false;
        at += got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* RFC 4648, section 5, without padding. */
static void put_base64url(struct buf *out, const unsigned char *in, size_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t bits = 0;
    unsigned n_bits = 0;
    for (size_t i = 0; i < n; i++) {
        bits = (bits << 8) | in[i];
        for (n_bits += 8; n_bits >= 6; n_bits -= 6)
            buf_putc(out, letters[(bits >> (n_bits - 6)) & 63]);
    }
    if (n_bits > 0)
        buf_putc(out, letters[(bits << (6 - n_bits)) & 63]);
}

static bool is_name(const char *name)
{
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");
    return n > 0 && n <= NAME_MAX_BYTES && name[n] == '\0';
}

static void hash_hex(struct bytes key, char out[2 * SHA256_BYTES + 1])
{
    unsigned char digest[SHA256_BYTES];
    sha256(key, digest);
    text_hex(digest, sizeof digest, out);
}

static void put_json(struct buf *out, const struct keys_options *o, struct bytes key, const char *hex)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "name");
    jw_cstr(&w, o->name);
    if (key.n > 0) {
        jw_key(&w, "key");
        jw_string(&w, key);
    }
    jw_key(&w, "sha256");
    jw_cstr(&w, hex);
    jw_end(&w);
    buf_putc(out, '\n');
}

static void print_and_scrub(struct buf *out)
{
    fwrite(out->p, 1, out->n, stdout);
    fflush(stdout);
    explicit_bzero(out->p, out->cap);
    buf_fini(out);
}

static int make_key(const struct keys_options *o)
{
    unsigned char random[RANDOM_BYTES];
    char hex[2 * SHA256_BYTES + 1];
    struct buf key = {.max = 64}, out = {.max = 4096};
    buf_reserve(&key, 64);
    buf_reserve(&out, 2048); /* neither moves, so that no copy is left behind */
    bool is_made = fill_random(random, sizeof random);
    buf_puts(&key, "rk-");
    put_base64url(&key, random, sizeof random);
    explicit_bzero(random, sizeof random);
    hash_hex(buf_bytes(&key), hex);
    if (!is_made) {
        fputs("ringmain: no random key could be made\n", stderr);
    } else if (o->is_json) {
        put_json(&out, o, buf_bytes(&key), hex);
    } else {
        buf_printf(&out,
                   "%s\n\nFor `client_keys` in the configuration:\n\n  - { name: %s, sha256: %s }\n\n"
                   "The key is not stored anywhere: keep it now. Clients send it as `Authorization: Bearer KEY`\n"
                   "or as `x-api-key`.\n",
                   buf_cstr(&key), o->name, hex);
    }
    explicit_bzero(key.p, key.cap);
    buf_fini(&key);
    print_and_scrub(&out);
    return is_made ? 0 : 1;
}

static int hash_key(const struct keys_options *o)
{
    char typed[KEY_BYTES_MAX + 1];
    char hex[2 * SHA256_BYTES + 1];
    size_t n = fread(typed, 1, sizeof typed, stdin);
    struct bytes key = bytes_trim(bytes_from(typed, n));
    struct buf out = {.max = 4096};
    const char *why = NULL;
    if (n > KEY_BYTES_MAX)
        why = "the key is longer than 4096 bytes";
    else if (key.n == 0)
        why = "no key on standard input";
    else
        hash_hex(key, hex);
    explicit_bzero(typed, sizeof typed);
    if (why != NULL) {
        fprintf(stderr, "ringmain: %s\n", why);
        return 1;
    }
    if (o->is_json)
        put_json(&out, o, (struct bytes){0}, hex);
    else
        buf_printf(&out, "- { name: %s, sha256: %s }\n", o->name, hex);
    print_and_scrub(&out);
    return 0;
}

int cmd_keys(int argc, char **argv)
{
    static const struct option options[] = {{"name", required_argument, NULL, 'n'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct keys_options o = {.name = "client"};
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'n' && is_name(optarg)) {
            o.name = optarg;
        } else if (option == 'j') {
            o.is_json = true;
        } else {
            if (option == 'n')
                fputs("ringmain: a name is 1 to 64 of A-Z a-z 0-9 _ . -\n", stderr);
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    if (optind + 1 == argc && strcmp(argv[optind], "new") == 0)
        return make_key(&o);
    if (optind + 1 == argc && strcmp(argv[optind], "hash") == 0)
        return hash_key(&o);
    usage(stderr);
    return 2;
}
