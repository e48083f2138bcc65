/* What the front answers by itself, and what it hands up. */
#include "front_world.h"

#include <stdio.h>

#define KEY_A "Authorization: Bearer team-a\r\n"
#define KEY_B "x-api-key: team-b\r\n"
#define CHAT "{\"model\":\"flagship\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
#define MESSAGES "{\"model\":\"flagship\",\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

static void test_unknown_paths_in_their_dialect(void **state)
{
    struct front_world *w = *state;
    static const char *const openai[] = {"POST /v1/responses", "POST /v1/embeddings", "GET /", "POST /v1/completions",
                                         "GET /v1/chat/completions/x"};
    for (size_t i = 0; i < RM_COUNTOF(openai); i++) {
        front_world_send(w, openai[i], "", NULL);
        assert_true(front_world_has(w, "HTTP/1.1 404 "));
        assert_true(front_world_has(w, "x-ringmain-request-id: req_"));
        assert_true(front_world_has(w, "{\"error\":{\"message\":\"There is no "));
        assert_true(front_world_has(w, "\"type\":\"invalid_request_error\",\"code\":\"not_found\",\"param\":null"));
    }
    front_world_send(w, "POST /v1/messages/count_tokens", "", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 404 "));
    assert_true(front_world_has(w, "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":"));
    front_world_send(w, "POST /v1beta/models/m:generateContent", "", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 404 "));
    assert_true(front_world_has(w, "{\"error\":{\"code\":404,\"message\":\"There is no "));
    assert_true(front_world_has(w, "\"status\":\"NOT_FOUND\"}}"));
    assert_int_equal(w->n_refused, RM_COUNTOF(openai) + 2);
    assert_int_equal(w->n_calls, 0);
}

static void test_methods(void **state)
{
    struct front_world *w = *state;
    front_world_send(w, "GET /v1/chat/completions", KEY_A, NULL);
    assert_true(front_world_has(w, "HTTP/1.1 405 "));
    assert_true(front_world_has(w, "allow: POST\r\n"));
    front_world_send(w, "DELETE /v1/models", KEY_A, NULL);
    assert_true(front_world_has(w, "allow: GET, HEAD\r\n"));
    front_world_send(w, "HEAD /v1/models", KEY_A, NULL);
    assert_true(front_world_has(w, "HTTP/1.1 200 "));
    assert_true(bytes_ends_with(buf_bytes(&w->got), BYTES("\r\n\r\n")));
}

static void test_keys(void **state)
{
    struct front_world *w = *state;
    front_world_send(w, "POST /v1/chat/completions", "Authorization: Bearer wrong\r\n", CHAT);
    assert_true(front_world_has(w, "HTTP/1.1 401 "));
    assert_true(front_world_has(w, "www-authenticate: Bearer\r\n"));
    assert_true(front_world_has(w, "\"type\":\"invalid_request_error\",\"code\":\"invalid_api_key\""));
    assert_int_equal(w->refused.status, 401);
    assert_int_equal(w->refused.outcome, OUTCOME_CLIENT_ERROR);
    front_world_send(w, "POST /v1/messages", "", MESSAGES);
    assert_true(front_world_has(w, "HTTP/1.1 401 "));
    assert_true(front_world_has(w, "\"type\":\"authentication_error\""));
    front_world_send(w, "GET /v1/models", "x-api-key: team-\r\n", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 401 "));
    front_world_send(w, "GET /v1/models", "Authorization: bearer team-b\r\n", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 200 "));
    assert_int_equal(w->n_calls, 0);
    w->config.n_keys = 0;
    front_world_send(w, "GET /v1/models", "", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 200 "));
}

static void test_models(void **state)
{
    struct front_world *w = *state;
    front_world_send(w, "GET /v1/models", KEY_A, NULL);
    assert_string_equal(front_world_body(w),
                        "{\"object\":\"list\",\"data\":["
                        "{\"id\":\"flagship\",\"object\":\"model\",\"created\":0,\"owned_by\":\"ringmain\"},"
                        "{\"id\":\"mini\",\"object\":\"model\",\"created\":0,\"owned_by\":\"ringmain\"}]}");
    front_world_send(w, "GET /v1/models?limit=5", KEY_B "anthropic-version: 2023-06-01\r\n", NULL);
    assert_true(front_world_has(w, "{\"type\":\"model\",\"id\":\"flagship\",\"display_name\":\"flagship\","));
    assert_true(front_world_has(w, "\"has_more\":false,\"first_id\":\"flagship\",\"last_id\":\"mini\"}"));
}

static void test_health(void **state)
{
    struct front_world *w = *state;
    front_world_send(w, "GET /healthz", "", NULL);
    assert_string_equal(front_world_body(w), "{\"status\":\"ok\"}");
    front_world_send(w, "GET /readyz", "", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 200 "));
    w->ready = (struct front_ready){.is_degraded = true};
    front_world_send(w, "GET /readyz", "", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 200 "));
    assert_string_equal(front_world_body(w), "{\"status\":\"degraded\"}");
    w->ready = (struct front_ready){.is_draining = true, .text = "{\"status\":\"draining\"}"};
    front_world_send(w, "GET /readyz", "", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 503 "));
    front_world_send(w, "GET /healthz", "", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 200 "));
    assert_int_equal(w->n_refused, 0);
}

static void test_bodies_that_are_no_calls(void **state)
{
    struct front_world *w = *state;
    static const char *const bad[] = {"",
                                      "not json",
                                      "[]",
                                      "{}",
                                      "{\"model\":5}",
                                      "{\"model\":\"flagship\",\"model\":\"mini\",\"messages\":[]}",
                                      "--x\r\nContent-Disposition: form-data\r\n\r\n"};
    for (size_t i = 0; i < RM_COUNTOF(bad); i++) {
        front_world_send(w, "POST /v1/chat/completions", KEY_A, bad[i]);
        assert_true(front_world_has(w, "HTTP/1.1 400 "));
        assert_true(front_world_has(w, "\"type\":\"invalid_request_error\""));
        assert_false(front_world_has(w, "\"message\":\"\""));
    }
    front_world_send(w, "POST /v1/messages", KEY_B, "{");
    assert_true(front_world_has(w, "HTTP/1.1 400 "));
    assert_true(front_world_has(w, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\""));
    assert_int_equal(w->n_calls, 0);
    assert_int_equal(w->n_refused, RM_COUNTOF(bad) + 1);
}

static void test_unknown_model(void **state)
{
    struct front_world *w = *state;
    front_world_send(w, "POST /v1/chat/completions", KEY_A, "{\"model\":\"flagshp\",\"messages\":[]}");
    assert_true(front_world_has(w, "HTTP/1.1 404 "));
    assert_true(front_world_has(w, "The model 'flagshp' does not exist here. Did you mean 'flagship'?"));
    assert_true(front_world_has(w, "\"code\":\"model_not_found\",\"param\":\"model\""));
    assert_string_equal(w->refused_route, "flagshp");
    front_world_send(w, "POST /v1/messages", KEY_A, "{\"model\":\"other\",\"max_tokens\":1,\"messages\":[]}");
    assert_true(
        front_world_has(w, "\"type\":\"not_found_error\",\"message\":\"The model 'other' does not exist here.\""));
}

static void test_too_large_body(void **state)
{
    struct front_world *w = *state;
    front_world_send(w, "POST /v1/messages", KEY_A "Content-Length: 10001\r\n", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 413 "));
    assert_true(front_world_has(w, "\"type\":\"request_too_large\""));
    front_world_send(w, "POST /v1/messages", "Content-Length: 10001\r\n", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 401 "));
}

static void test_unreadable_head(void **state)
{
    struct front_world *w = *state;
    front_world_send(w, "POST /v1/messages", "Host: again\r\n", NULL);
    assert_true(front_world_has(w, "HTTP/1.1 400 "));
    assert_true(front_world_has(w, "x-ringmain-request-id: req_"));
    assert_true(front_world_has(w, "connection: close\r\n"));
    assert_int_equal(w->n_refused, 1);
}

static void answer_teapot(struct front_world *w)
{
    struct answer_error e = {.status = 418, .openai_type = "t", .message = BYTES("m"), .retry_after_ms = -1};
    struct client_call *c = w->call;
    w->call = NULL;
    call_answer_error(c, &e, NULL, false);
    front_world_settle(w);
}

static void test_call_is_handed_up(void **state)
{
    struct front_world *w = *state;
    front_world_send(w, "POST /v1/chat/completions",
                     KEY_B "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n", CHAT);
    assert_non_null(w->call);
    assert_string_equal(w->call->key, "team-b");
    assert_string_equal(w->call->route->model, "flagship");
    assert_string_equal(w->call->dialect->name, "openai");
    assert_string_equal(w->call->trace_id, "0af7651916cd43dd8448eb211c80319c");
    assert_int_equal(call_traceparent(w->call).n, 55);
    assert_true(bytes_is(w->call->inbound->body, CHAT));
    assert_true(bytes_is(w->call->call->model, "flagship"));
    assert_int_equal(w->call->id, w->last_id);
    assert_int_equal(strncmp(w->call->id_text, "req_", 4), 0);
    assert_int_equal(atomic_load(&w->config.refs), 2);
    answer_teapot(w);
    assert_true(front_world_has(w, "HTTP/1.1 418 "));
    assert_int_equal(atomic_load(&w->config.refs), 1);
    assert_int_equal(w->n_refused, 0);
}

static void test_bad_traceparent_is_ignored(void **state)
{
    struct front_world *w = *state;
    static const char *const bad[] = {"00-00000000000000000000000000000000-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                                      "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
                                      "x"};
    char fields[256];
    for (size_t i = 0; i < RM_COUNTOF(bad); i++) {
        snprintf(fields, sizeof fields, KEY_A "traceparent: %s\r\n", bad[i]);
        front_world_send(w, "POST /v1/messages", fields, MESSAGES);
        assert_non_null(w->call);
        assert_string_equal(w->call->trace_id, "");
        assert_int_equal(call_traceparent(w->call).n, 0);
        answer_teapot(w);
    }
}

static void test_client_leaves(void **state)
{
    struct front_world *w = *state;
    front_world_send(w, "POST /v1/chat/completions", KEY_A, CHAT);
    assert_non_null(w->call);
    front_world_hang_up(w);
    assert_int_equal(w->n_gone, 1);
    assert_int_equal(atomic_load(&w->config.refs), 1);
}

static void test_client_leaves_while_sending(void **state)
{
    struct front_world *w = *state;
    front_world_send(w, "POST /v1/chat/completions", KEY_A "Content-Length: 50\r\n", NULL);
    front_world_hang_up(w);
    assert_int_equal(w->n_gone, 0);
    assert_int_equal(w->n_calls, 0);
}

#define WITH(f) cmocka_unit_test_setup_teardown(f, front_world_set_up, front_world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_unknown_paths_in_their_dialect),
        WITH(test_methods),
        WITH(test_keys),
        WITH(test_models),
        WITH(test_health),
        WITH(test_bodies_that_are_no_calls),
        WITH(test_unknown_model),
        WITH(test_too_large_body),
        WITH(test_unreadable_head),
        WITH(test_call_is_handed_up),
        WITH(test_bad_traceparent_is_ignored),
        WITH(test_client_leaves),
        WITH(test_client_leaves_while_sending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
