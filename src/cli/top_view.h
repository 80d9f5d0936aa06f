/*
 * top_view.h: one picture of a server for `hearth top`: JSON in, lines out. Does not use a terminal
 * or a server.
 *
 *      hearth 0.1.0 at http://127.0.0.1:4327, up 2 h 05 min
 *      reused  [########################......]  80.2 %   ...
 *
 * Pure: the same answers give the same bytes.
 */
#pragma once

#include <stdbool.h>
#include <yyjson.h>

struct buf;

struct top_view {
    const char *url;
    const char *trouble;          /* why there is no newer data; NULL = no problem */
    yyjson_val *stats, *requests; /* answers of /admin/stats and /admin/requests; NULL = none yet */
    int columns, rows;            /* of the terminal; 0 = as many as there are */
    bool color;
    bool screen; /* for a terminal: begins at its top, and clears what was there */
};

/* Appends the picture; lines are cut at `columns`, the last ones left out beyond `rows`. */
void top_view_draw(const struct top_view *view, struct buf *out);
