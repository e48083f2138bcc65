/* May a second attempt be started beside a slow one? The caps of a route's `hedge`. Pure but for the registry's words.
 */
#ifndef RM_PLAN_HEDGE_H
#define RM_PLAN_HEDGE_H

#include "model/record.h"
#include "plan/registry.h"

/* What the routes of one core spent, and how much of it was for attempts that lost to their hedge or to the attempt
 * beside them. Each core keeps the share by itself, so nothing is written together. Kept by route name, over reloads;
 * halved every hour, so that yesterday does not pay for today. */
struct hedge_book;

struct hedge_book *hedge_book_new(void);
void hedge_book_free(struct hedge_book *b);

/* True when one may start now beside an attempt at `slow`; it is then counted among this minute's, and as out until the
 * record of its request is settled. False too while the route has not yet spent so much that another lost attempt of
 * the usual cost, beside those that the ones out may lose, fits the share. */
bool hedge_may(struct hedge_book *b, struct registry *r, const struct route_conf *route, const struct link_conf *slow,
               uint64_t now_us);
/* A request of such a route is over. Where a cost is unknown, attempts are counted instead of dollars. */
void hedge_settle(struct hedge_book *b, const struct route_conf *route, const struct request_record *rec,
                  uint64_t now_us);

#endif
