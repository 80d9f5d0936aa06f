/*
 * kv_valkey.c: the protocol of Valkey and Redis (RESP 2), and the slots of a cluster.
 *
 *      GET      GETEX name EX ttl      a value that is used stays
 *      PUT      SET name value EX ttl [NX]
 *      EXISTS, DELETE (UNLINK), ADD (INCRBY)
 *
 * An own client, because hiredis copies each value twice more on its way: measured with values of
 * 4 MiB it reaches 0.4 of the bandwidth for GET, and 0.4 for SET (docs/decisions).
 *
 * CLUSTER. A name belongs to slot CRC16(name) mod 16384, and a slot to a server. The map is read
 * with CLUSTER SLOTS before the first run, and again when a server failed or answered with MOVED,
 * at most once per second. MOVED corrects one slot at once. ASK sends one operation elsewhere. A
 * server without cluster mode owns all slots. Parts of an object have unrelated slots on purpose:
 * all servers deliver at once.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tier/kv_impl.h"

enum {
    SLOTS = 16384,
    SLOTS_REPLY_BYTES = 256 << 10,
    INFO_BYTES = 16 << 10,
    NESTING_MAX = 8,
    ERROR_BYTES_MAX = 512,
    FULL_PERCENT = 90,
};

struct valkey {
    /* under the lock of struct kv */
    struct kv_server *slots[SLOTS]; /* NULL: not known */
    bool known, reading;
    uint64_t read_ns;
};

/* ---- slots ---- */

/* CRC-16/XMODEM, which the protocol of the cluster prescribes. */
static uint16_t crc16(const char *text, size_t len)
{
    uint16_t crc = 0;

    for (size_t i = 0; i < len; i++) {
        crc ^= (uint16_t)((uint8_t)text[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

static struct kv_server *route(struct kv *kv, const char *name)
{
    const struct valkey *valkey = kv->own;
    struct kv_server *server = valkey->slots[crc16(name, strlen(name)) % SLOTS];

    for (size_t i = 0; server == NULL && i < kv->servers_count; i++)
        if (kv->servers[i]->breaker == KV_CLOSED)
            server = kv->servers[i];
    return server != NULL ? server : kv->servers[0];
}

/* ---- reading replies ---- */

/* The line at `at`, without its end; false: it is not complete. */
static bool read_line(const char *bytes, size_t len, size_t at, struct str *line, size_t *next)
{
    const char *end = at < len ? memchr(bytes + at, '\r', len - at) : NULL;

    if (end == NULL || (size_t)(end - bytes) + 1 >= len)
        return false;
    *line = (struct str){bytes + at, (size_t)(end - bytes) - at};
    *next = (size_t)(end - bytes) + 2;
    return true;
}

/* The end of the value at `at`; 0: not complete; SIZE_MAX: not a value. */
static size_t value_end(const char *bytes, size_t len, size_t at, int depth)
{
    struct str line;
    int64_t count = 0;
    size_t next;

    if (!read_line(bytes, len, at, &line, &next))
        return 0;
    char type = line.len > 0 ? line.ptr[0] : '\0';
    if (type == '+' || type == '-' || type == ':')
        return next;
    struct str digits = {line.ptr + 1, line.len - (line.len > 0)};
    if ((type != '$' && type != '*') || depth == 0 || !str_to_i64(digits, &count) || count < -1 ||
        count > SLOTS_REPLY_BYTES)
        return SIZE_MAX;
    if (type == '$') {
        size_t end = next + (count < 0 ? 0 : (size_t)count + 2);
        return end <= len ? end : 0;
    }
    for (int64_t i = 0; i < count; i++) {
        next = value_end(bytes, len, next, depth - 1);
        if (next == 0 || next == SIZE_MAX)
            return next;
    }
    return next;
}

/* The next string, number or array length, for a reply that value_end has accepted. */
static bool read_item(struct str *rest, char type, struct str *text, int64_t *number)
{
    struct str line;
    size_t next;

    if (!read_line(rest->ptr, rest->len, 0, &line, &next) || line.len == 0 || line.ptr[0] != type ||
        !str_to_i64(str_skip(line, 1), number))
        return false;
    *text = (struct str){rest->ptr + next, 0};
    if (type == '$' && *number >= 0) { /* less: null, read as empty */
        if (next + (size_t)*number + 2 > rest->len)
            return false;
        text->len = (size_t)*number;
        next += text->len + 2;
    }
    *rest = str_skip(*rest, next);
    return true;
}

static bool skip_item(struct str *rest)
{
    size_t end = value_end(rest->ptr, rest->len, 0, NESTING_MAX);

    if (end == 0 || end == SIZE_MAX)
        return false;
    *rest = str_skip(*rest, end);
    return true;
}

/* "first, last, [host, port, ...], [replica ...], ...": one range of CLUSTER SLOTS. A host that is
 * empty or null is that of the server which answered. */
static bool read_range(struct kv *kv, struct str *rest, const struct kv_server *from)
{
    struct valkey *valkey = kv->own;
    int64_t items, first, last, fields, len, port;
    struct str host, none;
    char digits[8];

    if (!read_item(rest, '*', &none, &items) || items < 3 || !read_item(rest, ':', &none, &first) ||
        !read_item(rest, ':', &none, &last) || !read_item(rest, '*', &none, &fields) ||
        fields < 2 || !read_item(rest, '$', &host, &len) || !read_item(rest, ':', &none, &port))
        return false;
    for (int64_t i = 2; i < fields; i++)
        if (!skip_item(rest))
            return false;
    for (int64_t i = 3; i < items; i++)
        if (!skip_item(rest))
            return false;
    if (first < 0 || last >= SLOTS || port <= 0 || port > UINT16_MAX)
        return false;
    snprintf(digits, sizeof(digits), "%d", (int)port);
    host = host.len > 0 ? host : str_from(from->host);
    struct kv_server *server = kv_add_server_locked(kv, host, str_from(digits));
    for (int64_t slot = first; server != NULL && slot <= last; slot++)
        valkey->slots[slot] = server;
    return server != NULL;
}

static bool read_slots(struct kv *kv, struct str reply, const struct kv_server *from)
{
    struct str none;
    int64_t ranges;

    if (!read_item(&reply, '*', &none, &ranges))
        return false;
    for (int64_t i = 0; i < ranges; i++)
        if (!read_range(kv, &reply, from))
            return false;
    return ranges > 0;
}

static struct kv_op ask(struct kv *kv, struct kv_server *server, struct str command, char *reply,
                        size_t capacity, uint64_t deadline_ns)
{
    struct kv_op op = {.verb = KV_ASK,
                       .data = command.ptr,
                       .bytes = command.len,
                       .dst = reply,
                       .capacity = capacity};

    kv_run_at(kv, server, &op, 1, deadline_ns);
    return op;
}

/* Asks one server. False: it did not answer. */
static bool ask_slots(struct kv *kv, struct kv_server *server, char *reply, uint64_t deadline_ns)
{
    static const struct str command = STR("*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n");
    struct valkey *valkey = kv->own;
    struct kv_op op = ask(kv, server, command, reply, SLOTS_REPLY_BYTES, deadline_ns);

    lock_enter(&kv->lock);
    bool read = op.result == KV_OK && read_slots(kv, (struct str){reply, op.got}, server);
    for (size_t i = 0; i < SLOTS && op.result == KV_MISSING; i++) /* no cluster: all are its own */
        valkey->slots[i] = server;
    read |= op.result == KV_MISSING;
    valkey->known |= read;
    lock_leave(&kv->lock);
    return read;
}

/* Reads the map from the first server that answers. One thread does it; others use the old one. A
 * server that hangs takes half of the time that is left, so that another one can be asked. */
static void prepare(struct kv *kv, uint64_t deadline_ns)
{
    struct valkey *valkey = kv->own;
    struct kv_server *servers[KV_SERVERS_MAX];
    uint64_t now = clock_mono_ns(clock_real());

    lock_enter(&kv->lock);
    bool due = (!valkey->known || kv->stale) && !valkey->reading &&
               (valkey->read_ns == 0 || now >= valkey->read_ns + NS_PER_S);
    size_t count = due ? kv->servers_count : 0;
    memcpy(servers, kv->servers, count * sizeof(servers[0]));
    if (due) {
        valkey->reading = true;
        kv->stale = false;
        valkey->read_ns = now;
    }
    lock_leave(&kv->lock);
    if (!due)
        return;
    char *reply = mem_alloc(SLOTS_REPLY_BYTES);
    for (size_t i = 0; i < count && now < deadline_ns; i++) {
        if (ask_slots(kv, servers[i], reply, now + (deadline_ns - now) / 2))
            break;
        now = clock_mono_ns(clock_real());
    }
    mem_free(reply);
    lock_enter(&kv->lock);
    valkey->reading = false;
    lock_leave(&kv->lock);
}

/* ---- operations ---- */

static void add_text(struct buf *out, const char *text)
{
    buf_appendf(out, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void add_ttl(const struct kv *kv, struct buf *out)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%llu", (unsigned long long)kv->options.ttl_s);
    add_text(out, "EX");
    add_text(out, digits);
}

static void encode(const struct kv *kv, const struct kv_op *op, struct buf *head, struct buf *tail)
{
    bool ttl = kv->options.ttl_s > 0;
    char digits[24];

    switch (op->verb) {
    case KV_GET:
        buf_append_str(head, ttl ? "*4\r\n$5\r\nGETEX\r\n" : "*2\r\n$3\r\nGET\r\n");
        add_text(head, op->name);
        if (ttl)
            add_ttl(kv, head);
        break;
    case KV_PUT:
        buf_appendf(head, "*%d\r\n$3\r\nSET\r\n", 3 + 2 * ttl + op->once);
        add_text(head, op->name);
        buf_appendf(head, "$%llu\r\n", (unsigned long long)op->bytes);
        buf_append_str(tail, "\r\n");
        if (ttl)
            add_ttl(kv, tail);
        if (op->once)
            add_text(tail, "NX");
        break;
    case KV_EXISTS:
        buf_append_str(head, "*2\r\n$6\r\nEXISTS\r\n");
        add_text(head, op->name);
        break;
    case KV_ADD:
        buf_append_str(head, "*3\r\n$6\r\nINCRBY\r\n");
        add_text(head, op->name);
        snprintf(digits, sizeof(digits), "%lld", (long long)op->amount);
        add_text(head, digits);
        break;
    default:
        buf_append_str(head, "*2\r\n$6\r\nUNLINK\r\n");
        add_text(head, op->name);
        break;
    }
}

/* "MOVED 3999 host:port", "ASK 3999 host:port". */
static void redirect(struct kv *kv, const struct kv_op *op, struct str text, struct kv_reply *reply)
{
    struct valkey *valkey = kv->own;
    struct str rest = text, word, slot, address;
    uint64_t number;

    if (!str_next(&rest, ' ', &word) || !str_next(&rest, ' ', &slot) ||
        !str_next(&rest, ' ', &address) || !str_to_u64(slot, &number) || number >= SLOTS)
        return;
    size_t colon = address.len;
    while (colon > 0 && address.ptr[colon - 1] != ':')
        colon--;
    if (colon == 0)
        return;
    struct str host = {address.ptr, colon - 1}, port = str_skip(address, colon);
    lock_enter(&kv->lock);
    if (host.len == 0 && op->server != NULL)
        host = str_from(op->server->host);
    struct kv_server *server = kv_add_server_locked(kv, host, port);
    reply->again = server;
    reply->asking = str_eq(word, STR("ASK"));
    if (server != NULL && !reply->asking) {
        valkey->slots[number] = server;
        kv->stale = true;
    }
    lock_leave(&kv->lock);
}

static void read_error(struct kv *kv, const struct kv_op *op, struct str text,
                       struct kv_reply *reply)
{
    reply->result = KV_ERROR;
    snprintf(reply->why, sizeof(reply->why), STR_FMT, STR_ARG(text));
    if (str_starts(text, STR("MOVED ")) || str_starts(text, STR("ASK "))) {
        redirect(kv, op, text, reply);
    } else if (str_starts(text, STR("OOM "))) {
        reply->result = KV_FULL;
    } else if (op->verb == KV_ASK) {
        if (str_find(text, STR("cluster support disabled")) != SIZE_MAX)
            reply->result = KV_MISSING;
    } else {
        /* LOADING, READONLY, CLUSTERDOWN, NOAUTH, NOPERM ...: nothing works there */
        reply->failure = true;
    }
}

static enum kv_parse parse_bulk(const struct kv_op *op, struct str digits, struct kv_reply *reply)
{
    int64_t number;

    if (!str_to_i64(digits, &number) || number < -1)
        return KV_PARSE_BAD;
    if (number < 0) { /* GET: no such key; SET NX: it exists */
        reply->result = op->verb == KV_GET ? KV_MISSING : KV_OK;
        reply->existed = op->verb == KV_PUT;
        return op->verb == KV_GET || (op->verb == KV_PUT && op->once) ? KV_PARSE_DONE
                                                                      : KV_PARSE_BAD;
    }
    reply->body = (uint64_t)number;
    reply->trailer = 2;
    reply->value = true;
    return op->verb == KV_GET || op->verb == KV_ASK ? KV_PARSE_DONE : KV_PARSE_BAD;
}

static enum kv_parse parse_array(const struct kv_op *op, const char *bytes, size_t len,
                                 struct kv_reply *reply)
{
    size_t end = op->verb == KV_ASK ? value_end(bytes, len, 0, NESTING_MAX) : SIZE_MAX;

    if (end == 0)
        return KV_PARSE_MORE;
    reply->head = 0;
    reply->body = end;
    reply->value = true;
    return end == SIZE_MAX ? KV_PARSE_BAD : KV_PARSE_DONE;
}

static enum kv_parse parse(struct kv *kv, struct kv_op *op, const char *bytes, size_t len,
                           struct kv_reply *reply)
{
    struct str line;
    uint64_t number;

    if (bytes[0] == '*')
        return parse_array(op, bytes, len, reply);
    if (!read_line(bytes, len, 0, &line, &reply->head))
        return len > ERROR_BYTES_MAX ? KV_PARSE_BAD : KV_PARSE_MORE;
    struct str text = {line.ptr + 1, line.len - (line.len > 0)};
    switch (bytes[0]) {
    case '+':
        reply->result = KV_OK;
        return op->verb == KV_PUT || op->verb == KV_ASK ? KV_PARSE_DONE : KV_PARSE_BAD;
    case '-':
        read_error(kv, op, text, reply);
        return KV_PARSE_DONE;
    case ':':
        if (op->verb == KV_ADD)
            return KV_PARSE_DONE; /* it may be negative */
        if (!str_to_u64(text, &number) || (op->verb != KV_EXISTS && op->verb != KV_DELETE))
            return KV_PARSE_BAD;
        reply->result = number > 0 ? KV_OK : KV_MISSING;
        return KV_PARSE_DONE;
    case '$':
        return parse_bulk(op, text, reply);
    default:
        return KV_PARSE_BAD;
    }
}

static void greet(const struct kv *kv, struct buf *out)
{
    if (kv->password[0] == '\0')
        return;
    buf_appendf(out, "*%d\r\n$4\r\nAUTH\r\n", kv->user[0] != '\0' ? 3 : 2);
    if (kv->user[0] != '\0')
        add_text(out, kv->user);
    add_text(out, kv->password);
}

/* ---- room ---- */

/* The number after "name:" in the answer to INFO; 0: none. */
static uint64_t info_number(struct str info, struct str name)
{
    size_t at = str_find(info, name);
    uint64_t number = 0;

    for (at += at == SIZE_MAX ? 0 : name.len; at < info.len && str_is_digit(info.ptr[at]); at++)
        number = number * 10 + (uint64_t)(info.ptr[at] - '0');
    return number;
}

struct room {
    uint64_t most; /* 0: no limit */
    bool full;
};

/* False: it does not say. A server that evicts makes room itself, and is never full. */
static bool ask_room(struct kv *kv, struct kv_server *server, uint64_t deadline_ns,
                     struct room *room)
{
    static const struct str command = STR("*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n");
    char *reply = mem_alloc(INFO_BYTES);
    struct kv_op op = ask(kv, server, command, reply, INFO_BYTES, deadline_ns);

    struct str info = {reply, op.result == KV_OK ? op.got : 0};
    uint64_t used = info_number(info, STR("\nused_memory:"));
    bool keeps = str_find(info, STR("maxmemory_policy:noeviction")) != SIZE_MAX;
    room->most = info_number(info, STR("\nmaxmemory:"));
    room->full = keeps && room->most > 0 && used / 100 >= room->most / 10000 * FULL_PERCENT;
    mem_free(reply);
    return info.len > 0;
}

/* Servers that have slots: all but replicas. */
static size_t list_owners(struct kv *kv, struct kv_server *owners[KV_SERVERS_MAX])
{
    const struct valkey *valkey = kv->own;
    struct kv_server *last = NULL;
    size_t count = 0;

    lock_enter(&kv->lock);
    for (size_t slot = 0; slot < SLOTS; slot++) {
        struct kv_server *server = valkey->slots[slot];
        size_t i = 0;
        if (server == NULL || server == last)
            continue;
        while (i < count && owners[i] != server)
            i++;
        if (i == count)
            owners[count++] = server;
        last = server;
    }
    lock_leave(&kv->lock);
    return count;
}

static bool has_room(struct kv *kv, uint64_t deadline_ns)
{
    struct kv_server *owners[KV_SERVERS_MAX];
    uint64_t capacity = 0;
    bool limited = true, full = false;

    prepare(kv, deadline_ns);
    size_t count = list_owners(kv, owners);
    for (size_t i = 0; i < count; i++) {
        struct room room;
        limited &= ask_room(kv, owners[i], deadline_ns, &room) && room.most > 0;
        full |= room.full;
        capacity += room.most;
    }
    lock_enter(&kv->lock);
    kv->capacity = limited ? capacity : 0;
    lock_leave(&kv->lock);
    return !full;
}

/* ---- the URL ---- */

static bool copy_text(char *to, size_t size, struct str text)
{
    if (text.len >= size || memchr(text.ptr, '\0', text.len) != NULL)
        return false;
    snprintf(to, size, STR_FMT, STR_ARG(text));
    return true;
}

static enum err add_hosts(struct kv *kv, struct str hosts, struct errinfo *info)
{
    struct str each;
    enum err err = ERR_OK;

    lock_enter(&kv->lock);
    while (err == ERR_OK && str_next(&hosts, ',', &each)) {
        size_t colon = str_find(each, STR(":"));
        struct str host = {each.ptr, MIN(colon, each.len)}, port = STR("6379");
        if (colon != SIZE_MAX)
            port = str_skip(each, colon + 1);
        if (kv_add_server_locked(kv, host, port) == NULL)
            err = ERR_INVALID;
    }
    if (kv->servers_count == 0)
        err = ERR_INVALID;
    lock_leave(&kv->lock);
    return err == ERR_OK ? err : err_set(info, err, "expected HOST:PORT[,HOST:PORT...]");
}

/* [user:pass@]host:port[,host:port...][/prefix] */
enum err kv_valkey_init(struct kv *kv, struct str rest, struct errinfo *info)
{
    size_t slash = MIN(str_find(rest, STR("/")), rest.len);
    struct str prefix = str_skip(rest, slash);
    size_t at = slash;

    kv->own = mem_alloc(sizeof(struct valkey));
    while (at > 0 && rest.ptr[at - 1] != '@') /* passwords may have one as well */
        at--;
    if (at > 0) {
        struct str login = {rest.ptr, at - 1};
        size_t colon = str_find(login, STR(":"));
        struct str user = {login.ptr, colon == SIZE_MAX ? 0 : colon};
        struct str password = str_skip(login, user.len + (colon != SIZE_MAX));
        if (!copy_text(kv->user, sizeof(kv->user), user) ||
            !copy_text(kv->password, sizeof(kv->password), password))
            return err_set(info, ERR_INVALID, "the user or the password is too long");
    }
    prefix = prefix.len > 0 ? str_skip(prefix, 1) : prefix;
    if (prefix.len > sizeof(kv->prefix) - 2 || memchr(prefix.ptr, '{', prefix.len) != NULL)
        return err_set(info, ERR_INVALID, "the prefix is too long, or has a brace");
    if (prefix.len > 0)
        snprintf(kv->prefix, sizeof(kv->prefix), STR_FMT ":", STR_ARG(prefix));
    return add_hosts(kv, (struct str){rest.ptr + at, slash - at}, info);
}

static void free_own(struct kv *kv)
{
    mem_free(kv->own);
}

const struct kv_protocol kv_valkey = {
    .name = "valkey",
    .depth = 64,
    .conns = 1,
    .part_bytes = UINT64_C(4) << 20,
    .encode = encode,
    .parse = parse,
    .greet = greet,
    .route = route,
    .prepare = prepare,
    .has_room = has_room,
    .free = free_own,
};
