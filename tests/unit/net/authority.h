/* A certificate authority and a TLS server made on the spot, for tests: nothing is read from disk but the CA file that
 * is written here. */
#ifndef RM_TESTS_UNIT_NET_AUTHORITY_H
#define RM_TESTS_UNIT_NET_AUTHORITY_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct authority {
    EVP_PKEY *key;
    X509 *cert;
    int n_signed;  /* serial numbers */
    char file[64]; /* PEM, removed by authority_fini */
};

static inline X509 *authority_sign(struct authority *a, EVP_PKEY *key, const char *name, const char *alt_names)
{
    X509 *x = X509_new();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), ++a->n_signed);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(a->cert ? a->cert : x));
    X509_set_pubkey(x, key);
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, a->cert ? a->cert : x, x, NULL, NULL, 0);
    const char *value = alt_names ? alt_names : "critical,CA:TRUE";
    X509_EXTENSION *e =
        X509V3_EXT_conf_nid(NULL, &ctx, alt_names ? NID_subject_alt_name : NID_basic_constraints, value);
    X509_add_ext(x, e, -1);
    X509_EXTENSION_free(e);
    X509_sign(x, a->key, EVP_sha256());
    return x;
}

static inline bool authority_init(struct authority *a)
{
    *a = (struct authority){.file = "/tmp/ringmain-test-ca-XXXXXX"};
    a->key = EVP_EC_gen("P-256");
    if (a->key == NULL)
        return false;
    a->cert = authority_sign(a, a->key, "test authority", NULL);
    int fd = mkstemp(a->file);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool ok = f != NULL && PEM_write_X509(f, a->cert) == 1;
    return f != NULL && fclose(f) == 0 && ok;
}

static inline void authority_fini(struct authority *a)
{
    unlink(a->file);
    X509_free(a->cert);
    EVP_PKEY_free(a->key);
}

/* A server's context with a certificate for alt_names ("DNS:a.test,IP:127.0.0.1"). */
static inline SSL_CTX *authority_server(struct authority *a, const char *alt_names)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = authority_sign(a, key, "server", alt_names);
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(ctx, cert);
    SSL_CTX_use_PrivateKey(ctx, key);
    X509_free(cert);
    EVP_PKEY_free(key);
    return ctx;
}

#endif
