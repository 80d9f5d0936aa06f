/* call.c: calling: macros, methods, filters, and the global functions. */
#include <assert.h>
#include <locale.h>
#include <string.h>
#include <time.h>

#include "jinja/object.h"

/* ---- arguments ---- */

int jinja_name_in(const char *names, struct str name)
{
    struct str rest = str_from(names), piece;

    for (int i = 0; str_next(&rest, ' ', &piece); i++)
        if (str_eq(piece, name))
            return i;
    return -1;
}

const struct jinja_builtin *jinja_builtin_find(const struct jinja_builtin *rows, struct str name)
{
    for (; rows != NULL && rows->name != NULL; rows++)
        if (str_eq(name, str_from(rows->name)))
            return rows;
    return NULL;
}

/* Binds arguments to the parameters of the builtin; missing ones become JINJA_MISSING. */
static bool bind(struct jinja_run *run, const struct jinja_builtin *builtin,
                 const struct jinja_args *args, struct jinja_value bound[JINJA_PARAMS_MAX])
{
    assert(builtin->max <= JINJA_PARAMS_MAX);
    if (args->count > builtin->max)
        return jinja_fail(run, "%s() takes at most %d argument(s)", builtin->name, builtin->max);
    for (size_t i = 0; i < JINJA_PARAMS_MAX; i++)
        bound[i] = i < args->count ? args->items[i] : (struct jinja_value){.kind = JINJA_MISSING};
    for (size_t i = 0; i < args->kwarg_count; i++) {
        int number = jinja_name_in(builtin->params, args->kwargs[i].name);
        if (number < 0)
            return jinja_fail(run, "%s() got an unexpected keyword argument '" STR_FMT "'",
                              builtin->name, STR_ARG(args->kwargs[i].name));
        if (bound[number].kind != JINJA_MISSING)
            return jinja_fail(run, "%s() got multiple values for argument '" STR_FMT "'",
                              builtin->name, STR_ARG(args->kwargs[i].name));
        bound[number] = args->kwargs[i].value;
    }
    for (int i = 0; i < builtin->min; i++)
        if (bound[i].kind == JINJA_MISSING)
            return jinja_fail(run, "%s() is missing an argument", builtin->name);
    return true;
}

const struct jinja_value *jinja_kwarg(const struct jinja_args *args, struct str name)
{
    for (size_t i = 0; i < args->kwarg_count; i++)
        if (str_eq(args->kwargs[i].name, name))
            return &args->kwargs[i].value;
    return NULL;
}

bool jinja_call_builtin(struct jinja_run *run, const struct jinja_builtin *builtin,
                        const struct jinja_value *self, const struct jinja_args *args,
                        struct jinja_value *out)
{
    struct jinja_value bound[JINJA_PARAMS_MAX], subject = *self; /* out may be self */

    if (!jinja_spend(run, 0))
        return false;
    if (builtin->raw != NULL)
        return builtin->raw(run, &subject, args, builtin->how, out);
    return bind(run, builtin, args, bound) && builtin->fn(run, &subject, bound, builtin->how, out);
}

/* ---- methods ---- */

/* The methods of str that markupsafe wraps. */
static const char wrapped_methods[] =
    "capitalize center expandtabs ljust lower lstrip partition replace rjust rpartition rstrip "
    "strip swapcase title upper zfill";

bool jinja_call_method(struct jinja_run *run, const struct jinja_builtin *method,
                       const struct jinja_value *self, const struct jinja_args *args,
                       struct jinja_value *out)
{
    struct jinja_args escaped = *args;

    if (self->kind != JINJA_STR || !(self->flags & JINJA_FLAG_MARKUP))
        return jinja_call_builtin(run, method, self, args, out);
    bool wrapped = jinja_name_in(wrapped_methods, str_from(method->name)) >= 0;
    if (wrapped && args->count > 0) {
        struct jinja_value *items = jinja_alloc(run, args->count * sizeof(*items));
        if (items == NULL)
            return false;
        for (size_t i = 0; i < args->count; i++) {
            items[i] = args->items[i];
            if (items[i].kind == JINJA_STR && !jinja_escape(run, &items[i], &items[i]))
                return false;
        }
        escaped.items = items;
    }
    if (!jinja_call_builtin(run, method, self, &escaped, out))
        return false;
    if (wrapped && out->kind == JINJA_STR)
        out->flags |= JINJA_FLAG_MARKUP;
    return true;
}

/* ---- macros ---- */

/* Returns a keyword argument that is still unused, and marks it as used. */
static struct jinja_value take_kwarg(const struct jinja_args *args, bool *used, struct str name)
{
    for (size_t i = 0; i < args->kwarg_count; i++) {
        if (!used[i] && str_eq(args->kwargs[i].name, name)) {
            used[i] = true;
            return args->kwargs[i].value;
        }
    }
    return (struct jinja_value){.kind = JINJA_MISSING};
}

static bool rest_kwargs(struct jinja_run *run, const struct jinja_function *function,
                        const struct jinja_args *args, const bool *used, struct jinja_frame *frame)
{
    struct jinja_value dict;

    if (function->takes_kwargs && !jinja_new_dict(run, &dict))
        return false;
    for (size_t i = 0; i < args->kwarg_count; i++) {
        if (used[i])
            continue;
        if (!function->takes_kwargs)
            return jinja_fail(run, "macro takes no keyword argument '" STR_FMT "'",
                              STR_ARG(args->kwargs[i].name));
        if (!jinja_set(run, dict, jinja_str(args->kwargs[i].name), args->kwargs[i].value))
            return false;
    }
    if (function->takes_kwargs)
        frame->slots[function->kwargs_slot] = dict;
    return true;
}

static bool rest_args(struct jinja_run *run, const struct jinja_function *function,
                      const struct jinja_args *args, struct jinja_frame *frame)
{
    size_t named = MIN(function->param_count, args->count);

    if (!function->takes_varargs)
        return args->count <= function->param_count ||
               jinja_fail(run, "macro takes not more than %zu argument(s)", function->param_count);
    struct jinja_value list = jinja_new_list(run);
    list.kind = JINJA_TUPLE;
    frame->slots[function->varargs_slot] = list;
    return jinja_add_all(run, list, args->items + named, args->count - named);
}

/* Fills the slots of the parameters, in the order and with the quirks of Jinja's Macro.__call__. */
static bool bind_macro(struct jinja_run *run, const struct jinja_function *function,
                       const struct jinja_args *args, struct jinja_frame *frame)
{
    bool *used = jinja_alloc(run, args->kwarg_count + 1);
    bool found_caller = args->count >= function->param_count && function->explicit_caller;

    if (used == NULL)
        return false;
    for (size_t i = 0; i < function->param_count; i++) {
        struct str name = function->params[i]->ref.name;
        bool by_name = i >= args->count;
        found_caller = found_caller || (by_name && str_eq(name, STR("caller")));
        frame->slots[function->params[i]->ref.slot] =
            by_name ? take_kwarg(args, used, name) : args->items[i];
    }
    if (function->takes_caller && !found_caller) {
        struct jinja_value caller = take_kwarg(args, used, STR("caller"));
        if (caller.kind == JINJA_MISSING || caller.kind == JINJA_NONE)
            caller = jinja_undefined_hint("No caller defined");
        frame->slots[function->caller_slot] = caller;
    }
    return rest_kwargs(run, function, args, used, frame) && rest_args(run, function, args, frame);
}

static bool fill_defaults(struct jinja_run *run, const struct jinja_function *function,
                          struct jinja_frame *frame)
{
    size_t first_default = function->param_count - function->default_count;

    for (size_t i = 0; i < function->param_count; i++) {
        struct jinja_value *slot = &frame->slots[function->params[i]->ref.slot];
        if (slot->kind != JINJA_MISSING)
            continue;
        if (i < first_default)
            *slot = jinja_undefined(function->params[i]->ref.name);
        else if (!jinja_eval(run, frame, function->defaults[i - first_default], slot))
            return false;
    }
    return true;
}

static bool call_macro(struct jinja_run *run, const struct jinja_macro *macro,
                       const struct jinja_args *args, struct jinja_value *out)
{
    const struct jinja_function *function = macro->function;
    struct jinja_frame *frame = jinja_frame_new(run, function, macro->outer);
    struct jinja_builder builder = {.run = run}, *outer = run->capture;

    if (frame == NULL || !bind_macro(run, function, args, frame) || !jinja_enter(run))
        return false;
    jinja_enter_scope(run, frame, &function->scope);
    run->capture = &builder;
    bool ok =
        fill_defaults(run, function, frame) && jinja_exec(run, frame, &function->body) != FLOW_FAIL;
    run->capture = outer;
    jinja_leave(run);
    return ok && jinja_build_finish(&builder, out);
}

/* ---- globals ---- */

BUILTIN(global_range)
{
    int64_t bounds[3] = {0, 0, 1};
    struct jinja_range *range;

    for (int i = 0; i < 3 && args[i].kind != JINJA_MISSING; i++)
        if (!jinja_to_int(run, &args[i], &bounds[i]))
            return false;
    if (args[1].kind == JINJA_MISSING) {
        bounds[1] = bounds[0];
        bounds[0] = 0;
    }
    if (bounds[2] == 0)
        return jinja_fail(run, "range() arg 3 must not be zero");
    /* Any distance fits in 128 bits. */
    __int128 distance =
        bounds[2] > 0 ? (__int128)bounds[1] - bounds[0] : (__int128)bounds[0] - bounds[1];
    __int128 step = bounds[2] > 0 ? bounds[2] : -(__int128)bounds[2];
    __int128 count = distance > 0 ? (distance - 1) / step + 1 : 0;
    if (count > run->options.limits.range)
        return jinja_fail(run, "Range too big. The sandbox blocks ranges larger than %u.",
                          run->options.limits.range);
    range = jinja_alloc(run, sizeof(*range));
    if (range == NULL)
        return false;
    *range = (struct jinja_range){bounds[0], bounds[1], bounds[2], (int64_t)count};
    *out = (struct jinja_value){.kind = JINJA_RANGE, .range = range};
    return true;
}

bool jinja_set_kwargs(struct jinja_run *run, struct jinja_value dict, const struct jinja_args *args)
{
    for (size_t i = 0; i < args->kwarg_count && !run->failed; i++)
        jinja_set(run, dict, jinja_str(args->kwargs[i].name), args->kwargs[i].value);
    return !run->failed;
}

/* The pairs of dict(...) and namespace(...): from a mapping or pairs, then from keywords. */
static bool fill_dict(struct jinja_run *run, const struct jinja_args *args, struct jinja_value dict)
{
    struct jinja_cursor cursor, pair;
    struct jinja_value item, key, value, end;

    if (args->count > 1)
        return jinja_fail(run, "dict expected at most 1 argument");
    if (args->count == 1) {
        if (!jinja_cursor_init(run, &cursor, jinja_items_view(args->items[0])))
            return false;
        while (jinja_cursor_more(run, &cursor, &item)) {
            if (!jinja_cursor_init(run, &pair, item) || !jinja_cursor_next(run, &pair, &key) ||
                !jinja_cursor_next(run, &pair, &value) || !jinja_cursor_next(run, &pair, &end))
                return false;
            if (value.kind == JINJA_MISSING || end.kind != JINJA_MISSING)
                return jinja_fail(run, "dictionary update sequence needs pairs");
            if (!jinja_set(run, dict, key, value))
                return false;
        }
    }
    return jinja_set_kwargs(run, dict, args);
}

/* dict, and namespace, which is one that can be changed. */
RAW_BUILTIN(global_dict)
{
    if (!jinja_new_dict(run, out) || !fill_dict(run, args, *out))
        return false;
    out->kind = (uint8_t)how;
    return true;
}

RAW_BUILTIN(global_cycler)
{
    struct jinja_cycler *cycler = jinja_alloc(run, sizeof(*cycler));

    if (cycler == NULL)
        return false;
    if (args->count == 0 || args->kwarg_count > 0)
        return jinja_fail(run, "at least one item has to be provided");
    cycler->items.items = jinja_alloc(run, args->count * sizeof(*args->items));
    if (cycler->items.items == NULL)
        return false;
    memcpy(cycler->items.items, args->items, args->count * sizeof(*args->items));
    cycler->items.count = args->count;
    *out = (struct jinja_value){.kind = JINJA_CYCLER, .object = cycler};
    return true;
}

BUILTIN(global_joiner)
{
    struct jinja_joiner *joiner = jinja_alloc(run, sizeof(*joiner));

    if (joiner == NULL)
        return false;
    joiner->separator = args[0].kind == JINJA_MISSING ? jinja_str(STR(", ")) : args[0];
    *out = (struct jinja_value){.kind = JINJA_JOINER, .object = joiner};
    return true;
}

BUILTIN(global_raise)
{
    struct jinja_value text;

    if (!jinja_to_str(run, &args[0], &text))
        return false;
    jinja_fail(run, "%.*s", (int)MIN(text.len, sizeof(run->error->message) - 1), text.text);
    run->error->raised = true;
    return false;
}

/* Replaces directives that Python handles itself: %f, and %z and %Z, which are empty without a
 * time zone. */
static bool python_directives(struct str format, char *out, size_t size)
{
    size_t len = 0;

    for (size_t i = 0; i < format.len; i++) {
        if (len + 8 >= size || format.ptr[i] == '\0')
            return false;
        if (format.ptr[i] != '%' || i + 1 == format.len) {
            out[len++] = format.ptr[i];
            continue;
        }
        char c = format.ptr[++i];
        if (c == 'f') {
            memcpy(out + len, "000000", 6);
            len += 6;
        } else if (c != 'z' && c != 'Z') {
            out[len++] = '%';
            out[len++] = c;
        }
    }
    out[len] = '\0';
    return true;
}

static bool has_time_of_day(const char *format)
{
    for (const char *at = format; (at = strchr(at, '%')) != NULL && at[1] != '\0'; at += 2)
        if (strchr("HIklMSpPrRTXcs", at[1]) != NULL)
            return true;
    return false;
}

BUILTIN(global_strftime)
{
    char format[256], text[1024];
    time_t now = (time_t)run->options.now_s;
    struct jinja_builder builder = {.run = run};
    struct tm parts;

    if (args[0].kind != JINJA_STR)
        return jinja_fail(run, "strftime() argument 1 must be str");
    if (!python_directives(jinja_text(args[0]), format, sizeof(format)) || !gmtime_r(&now, &parts))
        return jinja_fail(run, "this format is not supported");
    if (run->options.time_of_day != NULL && has_time_of_day(format))
        *run->options.time_of_day = true;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return jinja_fail_memory(run);
    size_t len = strftime_l(text, sizeof(text), format, &parts, c_locale);
    freelocale(c_locale);
    jinja_build(&builder, (struct str){text, len}, JINJA_ORIGIN_NONE);
    return jinja_build_finish(&builder, out);
}

static const struct jinja_builtin globals[] = {
    ROW("range", global_range, "", 1, 3),
    {"dict", .raw = global_dict, .how = JINJA_DICT},
    {"namespace", .raw = global_dict, .how = JINJA_NAMESPACE},
    {"cycler", .raw = global_cycler},
    ROW("joiner", global_joiner, "sep", 0, 1),
    ROW("raise_exception", global_raise, "message", 1, 1),
    ROW("strftime_now", global_strftime, "format", 1, 1),
};

bool jinja_global_find(struct str name, struct jinja_value *out)
{
    for (size_t i = 0; i < COUNT_OF(globals); i++) {
        if (str_eq(name, str_from(globals[i].name))) {
            *out = (struct jinja_value){.kind = JINJA_FUNCTION, .len = i};
            return true;
        }
    }
    return false;
}

/* ---- calling anything ---- */

static bool call_joiner(struct jinja_run *run, struct jinja_joiner *joiner,
                        const struct jinja_args *args, struct jinja_value *out)
{
    if (args->count + args->kwarg_count > 0)
        return jinja_fail(run, "a joiner takes no arguments");
    *out = joiner->used ? joiner->separator : jinja_str(STR_NONE);
    joiner->used = true;
    return true;
}

bool jinja_call_value(struct jinja_run *run, const struct jinja_value *callee,
                      const struct jinja_args *args, struct jinja_value *out)
{
    switch ((enum jinja_kind)callee->kind) {
    case JINJA_MACRO:
        return call_macro(run, callee->object, args, out);
    case JINJA_METHOD: {
        const struct jinja_bound *bound = callee->object;
        return jinja_call_method(run, bound->method, &bound->self, args, out);
    }
    case JINJA_FUNCTION:
        assert(callee->len < COUNT_OF(globals));
        return jinja_call_builtin(run, &globals[callee->len], callee, args, out);
    case JINJA_LOOP:
        return jinja_loop_call(run, callee->object, args, out);
    case JINJA_JOINER:
        return call_joiner(run, callee->object, args, out);
    case JINJA_UNDEFINED:
        return jinja_fail_undefined(run, callee);
    default:
        return jinja_fail(run, "'%s' object is not callable", jinja_kind_name(callee->kind));
    }
}
