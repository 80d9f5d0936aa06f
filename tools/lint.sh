#!/bin/sh
# lint.sh: what a compiler does not check about this tree. `tools/lint.sh [ROOT]`, by default the tree it lies in.
#
# Breaking a hard rule prints `path:line: rule: text` and makes the exit status 1. The rules:
#
#   include           includes point down only (the table `sees` below); llama.h, ggml*.h, gguf.h only in src/engine
#   cache-engine      src/cache and src/tier know no engine type, src/engine knows no cache
#   banned            unsafe calls anywhere; raw memory, files and threads outside src/base
#   format            clang-format would lay a line out differently (checked where clang-format 14 is installed)
#   words             a text that users read has a phrase of the list in CONTRIBUTING.md
#   width             a line of prose in a page is longer than 100 columns
#   function-length   more than 70 lines, from the first line of the signature to the closing brace
#   file-length       .c above 1200, .h above 300 lines
#   typedef           no typedef hides a struct or a union
#   todo              TODO has its issue number, as in TODO(#12)
#   white-space       none at the end of a line, no tabs outside makefiles
#   test              src/X/Y.c has tests/X/Y_test.c (or .sh)
#   uncalled          a function that is not static and that only tests call, or nothing at all
#   invariant         the list in docs/invariants.md has no gaps; tests and "keeps I<n>" comments name numbers that are in it
#   lock-rank         docs/threads.md has every rank of src/base/lock.h, with its number
#   allow             a line of tools/lint.allow that has no reason, or that nothing needs any more
#
# After that it prints what to watch (soft limits) and what the tree measures, beside the targets of the style guide. A line
# of tools/lint.allow is `function-length PATH FUNCTION reason...`, `uncalled PATH FUNCTION reason...`, `file-length PATH reason...`
# or `no-test PATH reason...`.
#
# C is read by counting braces after comments, strings and preprocessor lines are taken out: good enough to measure and to
# catch slips, not a parser. Where the count does not come out even, that is reported (rule `parse`), never passed over.
# Needs sh, find, sort and any POSIX awk. Variable-length arrays are left to the compiler (-Wvla).
set -eu
export LC_ALL=C
cd "${1:-$(dirname "$0")/..}"

# The files to read, as paths from the root. Vendored and generated files are not ours to lint.
list_files() {
    set --
    for place in src include lab tests fuzz tools docs web Makefile .ci/run ./*.md; do
        [ -e "$place" ] && set -- "$@" "${place#./}"
    done
    [ $# -gt 0 ] || return 0
    find "$@" \( -name vendor -o -name node_modules -o -name corpus \) -prune -o -type f \( -name '*.[ch]' -o -name '*.sh' \
        -o -name '*.mk' -o -name Makefile -o -path .ci/run -o -name '*.md' -o -name '*_test.py' -o -name '*.js' \
        -o -name '*.css' -o -name '*.html' -o -path tools/lint.allow \) ! -name '*.min.*' -print | sort
}

# The layout is clang-format's, of the release that .clang-format was written for: others lay a few things out differently.
check_format() {
    [ -e .clang-format ] || return 0
    clang-format --version 2>/dev/null | grep -q 'version 14\.' || return 0
    find src include lab tests examples fuzz -name '*.[ch]' 2>/dev/null | xargs -r -n 40 -P 2 clang-format --dry-run -Werror 2>&1 |
        sed -n 's/^\([^ :]*:[0-9]*\):[0-9]*: error: .*/\1: format: run make format/p' | sort -u | head -n 20
}

# Words that read like a translation, in texts that users read: pages, the dashboard, string literals. CONTRIBUTING.md has the list.
check_words() {
    odd='(who waits|who asks|nobody|somebody|whoever|what is held|nothing is held|of ours|of yours|so long as|asked wrongly|hangs on|(is|are) told|gives way|lets go)([^A-Za-z]|$)'
    for place in README.md ARCHITECTURE.md docs/*.md docs/*/*.md debian/control contrib/*/*.in web/*.html; do
        [ ! -e "$place" ] || grep -nEi "(^|[^A-Za-z])$odd" "$place" /dev/null || true # none found is no failure
    done | sed -n 's/^\([^:]*:[0-9]*\):.*/\1: words: say it in plain English (CONTRIBUTING.md)/p'
    {
        grep -rnEi --include='*.[ch]' "\"([^\"]*[^A-Za-z\"])?$odd" src include lab 2>/dev/null || true
        grep -rnEi --include='*.js' "'([^']*[^A-Za-z'])?$odd" web 2>/dev/null || true
    } | sed -n 's/^\([^:]*:[0-9]*\):.*/\1: words: say it in plain English (CONTRIBUTING.md)/p'
}

# Prose of the pages. Tables, fenced and indented examples, and what has no blank to break at are left alone.
check_width() {
    for place in ./*.md docs/*.md docs/*/*.md examples/*.md; do
        [ ! -e "$place" ] || awk -v place="${place#./}" '
            /^ *```/ { fenced = !fenced; next }
            { begins = blank; blank = $0 ~ /^ *$/ }
            begins && /^    / { example = 1 }
            !/^    / { example = 0 }
            !fenced && !example && length($0) > 100 && /[^ ] [^ ]/ && !/^(\||#|!\[)/ {
                print place ":" NR ": width: prose has 100 columns at most"
            }' "$place"
    done
}

status=0
list_files | awk '
BEGIN {
    FUNCTION_MAX = 70
    C_MAX = 1200; C_SOFT = 600
    H_MAX = 300; H_SOFT = 150

    # Who may include whom; every folder sees itself, and `all` sees everything.
    sees["base"] = " "
    sees["tier"] = " base "
    sees["cache"] = " tier base hearth "
    sees["engine"] = " base "
    sees["http"] = " base "
    sees["jinja"] = " base "
    sees["output"] = " engine base "
    sees["grammar"] = " output base "
    sees["sched"] = " output engine hearth base "
    sees["chat"] = " jinja grammar output engine base "
    sees["models"] = " chat sched engine cache hearth base "
    sees["dialect"] = " chat output sched engine base "
    sees["serve"] = " dialect chat output models sched engine http hearth base "
    sees["admin"] = " serve dialect chat output models sched engine http hearth base "
    sees["lab"] = sees["cli"] = sees["main"] = "all"
    sees["include"] = " "

    UNSAFE = "strcpy stpcpy strcat sprintf vsprintf sscanf vsscanf atoi atol atoll atof strtok gets alloca"
    MEMORY = "malloc calloc realloc reallocarray free strdup strndup asprintf vasprintf posix_memalign aligned_alloc"
    SYSTEM = "open openat creat fopen freopen pthread_create"
    banned_count = split(UNSAFE " " MEMORY " " SYSTEM, banned, " ")
    for (i = 1; i <= banned_count; i++)
        banned_any = banned_any (i > 1 ? "|" : "") banned[i]
    banned_any = "(" banned_any ")[ ]*[(]"
}

function fail(path, line, rule, text) {
    printf "%s:%d: %s: %s\n", path, line, rule, text
    failures++
}

function note(path, text) {
    notes = notes "note: " path ": " text "\n"
}

function has_word(list, word) {
    return index(" " list " ", " " word " ") > 0
}

# ---- one line of C ---------------------------------------------------------------------------------------------

# The line without comments, and with every string and character emptied. Sets saw_comment.
function strip(s,    out, c) {
    out = ""
    saw_comment = in_comment
    for (;;) {
        if (in_comment) {
            if (!(c = index(s, "*/")))
                return out
            s = substr(s, c + 2)
            in_comment = 0
            out = out " "
        }
        if (!match(s, /["\047]|\/[*\/]/))
            return out s
        out = out substr(s, 1, RSTART - 1)
        c = substr(s, RSTART, 1)
        s = substr(s, RSTART + 1)
        if (c == "/") {
            saw_comment = 1
            if (substr(s, 1, 1) == "/")
                return out
            s = substr(s, 2)
            in_comment = 1
        } else {
            if (c == "\"")
                match(s, /^([^"\\]|\\.)*"/)
            else
                match(s, /^([^\047\\]|\\.)*\047/)
            if (RLENGTH < 0)
                return out
            s = substr(s, RLENGTH + 1)
            out = out c c
        }
    }
}

function check_include(line,    quote, target, base, to, known) {
    match(line, /["<][^">]*[">]/)
    if (RLENGTH < 3 || folder == "")
        return
    quote = substr(line, RSTART, 1)
    target = substr(line, RSTART + 1, RLENGTH - 2)
    base = target
    sub(/.*\//, "", base)
    if (base ~ /^(llama|ggml|gguf)[a-z0-9_.-]*\.h$/ && target !~ /^engine\// && folder != "engine" && path !~ /^lab\/model_/)
        fail(path, lineno, "include", base " belongs to src/engine alone")
    if (index(target, "..")) {
        fail(path, lineno, "include", target " climbs out of its folder; write it from src/")
        return
    }
    to = target
    if (!sub(/\/.*/, "", to) || to == folder)
        return
    known = (to in sees) || to == "hearth"
    if ((!known && quote == "<") || (known && sees[folder] == "all"))
        return # a library, or one who sees all
    if ((folder == "cache" && to == "engine") || (folder == "engine" && to == "cache"))
        fail(path, lineno, "cache-engine", "cache and engine never see each other (" target ")")
    else if (!index(sees[folder], " " to " "))
        fail(path, lineno, "include", folder " must not include " target)
}

# Names that follow a dot or an arrow are members of a table (file->openat), not the call itself.
function check_banned(code,    at, name, before) {
    while (match(code, banned_any)) {
        name = substr(code, RSTART, RLENGTH)
        sub(/[ ]*[(]$/, "", name)
        before = RSTART > 1 ? substr(code, 1, RSTART - 1) : ""
        at = RSTART + RLENGTH
        # The leftmost match may begin inside a longer word (xfree, mem_free): then it is none.
        if (before !~ /([A-Za-z0-9_.]|->)$/)
            report_banned(name)
        code = substr(code, at)
    }
}

function report_banned(name) {
    if (has_word(UNSAFE, name))
        fail(path, lineno, "banned", name "() is not used in this tree")
    else if (folder != "" && has_word(MEMORY, name) && path != "src/base/mem.c")
        fail(path, lineno, "banned", name "() belongs to src/base/mem.c; use base/mem.h")
    else if (folder != "" && has_word(SYSTEM, name) && folder != "base")
        fail(path, lineno, "banned", name "() belongs to src/base; use base/file.h or base/lock.h")
}

function check_words(code) {
    if (code ~ banned_any)
        check_banned(code)
    if (folder == "" || folder == "base")
        return
    if (code ~ /(^|[^A-Za-z0-9_])pthread_(mutex|cond|rwlock|spin)_/)
        fail(path, lineno, "banned", "raw pthread locks belong to src/base; use base/lock.h")
    if ((folder == "cache" || folder == "tier") && code ~ /(^|[^A-Za-z0-9_])(struct engine[^A-Za-z0-9_]|llama_|ggml_|gguf_)/)
        fail(path, lineno, "cache-engine", folder " names a type of the engine")
    if (folder == "engine" && code ~ /(^|[^A-Za-z0-9_])struct (cache|tier)[^A-Za-z0-9_]/)
        fail(path, lineno, "cache-engine", "engine names a type of the cache")
}

# Removes NAME(...) with its balanced brackets, for names that decorate a declaration: attributes and macros in capitals.
function undecorate(s,    start, at, level, c) {
    while (match(s, /(^|[^A-Za-z0-9_])(__attribute__|_Alignas|_Atomic|[A-Z][A-Z0-9_]*)[ ]*[(]/)) {
        start = RSTART
        level = 0
        for (at = RSTART + RLENGTH - 1; at <= length(s); at++) {
            c = substr(s, at, 1)
            level += (c == "(") - (c == ")")
            if (level == 0)
                break
        }
        s = substr(s, 1, start - 1) " " substr(s, at + 1)
    }
    return s
}

# The name of the function that begins with these words, or "" when they begin a type or a table.
function function_name(words) {
    if (index(words, "=") || !index(words, "("))
        return ""
    words = undecorate(words)
    if (!match(words, /[A-Za-z_][A-Za-z0-9_]*[ ]*[(]/))
        return ""
    words = substr(words, RSTART, RLENGTH)
    sub(/[ ]*[(]$/, "", words)
    return words
}

# True when it failed: the same typedef is not reported again at its end.
function check_typedef(s, opens) {
    if (s !~ /(^|[^A-Za-z0-9_])typedef +(const +|volatile +)*(struct|union)[^A-Za-z0-9_]/ || (!opens && index(s, "(")))
        return 0
    fail(path, lineno, "typedef", "hides a struct; write `struct name`")
    return 1
}

function end_function(    len) {
    len = lineno - function_start + 1
    if (path ~ /^src\/.*\.c$/ && !function_static)
        add_public(function_now)
    if (folder != "") {
        function_lines[len]++
        functions++
        if (len > function_max)
            function_max = len
    }
    if (len > FUNCTION_MAX && !allowed("function-length " path " " function_now))
        fail(path, function_start, "function-length", function_now " has " len " lines, " FUNCTION_MAX " are the most")
}

# Follows braces. `words` collects what stands outside of all of them since the last statement ended.
function follow(s,    c, before) {
    if (depth > 0 && s ~ /typedef/)
        check_typedef(s, index(s, "{"))
    while (match(s, depth > 0 ? "[{}]" : "[{}();]")) {
        c = substr(s, RSTART, 1)
        before = substr(s, 1, RSTART - 1)
        s = substr(s, RSTART + 1)
        if (depth == 0)
            collect(before (c == "(" || c == ")" ? c : ""))
        if (c == "(") {
            brackets++
        } else if (c == ")") {
            brackets--
        } else if (c == "{") {
            if (depth++ == 0 && brackets == 0) {
                if (check_typedef(words, 1))
                    words = ""
                function_now = function_name(words)
                function_static = words ~ /(^|[^A-Za-z0-9_])static[^A-Za-z0-9_]/
                function_start = words_start
            }
        } else if (c == "}") {
            if (--depth == 0 && function_now != "") {
                end_function()
                function_now = words = ""
            }
        } else if (brackets == 0) {
            check_typedef(words, 0)
            words = ""
        }
    }
    if (depth == 0)
        collect(s " ")
}

# A macro call may be on its own lines without a semicolon (TEST_SUITE); the text after it starts anew.
function collect(s) {
    if (words ~ /^ *$/ || (words_end != lineno && brackets == 0 && undecorate(words) ~ /^ *$/)) {
        words = ""
        words_start = lineno
    }
    words = words s
    words_end = lineno
}

# Both branches of a condition start from the same braces. What only C++ sees (`extern "C" {`) does not count.
function follow_condition(code) {
    sub(/^[ ]*#[ ]*/, "", code)
    if (code ~ /^if/) {
        if_depth[++if_level] = depth
        if_brackets[if_level] = brackets
        in_cplusplus = code ~ /^ifdef[ ]+__cplusplus/ ? if_level : in_cplusplus
    } else if (code ~ /^el/) {
        depth = if_depth[if_level]
        brackets = if_brackets[if_level]
        in_cplusplus = in_cplusplus == if_level ? 0 : in_cplusplus
    } else if (code ~ /^endif/) {
        in_cplusplus = in_cplusplus == if_level ? 0 : in_cplusplus
        if_level--
    }
}

function add_public(name) {
    if (name in public_path || name == "main")
        return
    publics[++public_count] = name
    public_path[name] = path
    public_line[name] = function_start
}

# Counts the words of a line that may name a function. Members (.open, ->open) do not. In a header a line outside of all
# braces only declares, unless it is part of a macro.
function count_words(code, in_header,    word, n, i) {
    if (in_header && !depth && !in_macro && code !~ /[{#]/)
        return
    gsub(/(\.|->)[ ]*[A-Za-z_][A-Za-z0-9_]*/, " ", code)
    n = split(code, word, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= n; i++)
        word_count[word[i]]++
}

function check_c_line(line,    code, directive) {
    directive = !in_comment && line ~ /^[ ]*#/
    if (directive && line ~ /^[ ]*#[ ]*include/)
        check_include(line)
    code = strip(line)
    if (is_program)
        count_words(code, path ~ /^src\/.*\.h$/)
    if (code !~ /[^ ]/) {
        comment_lines += saw_comment && folder != ""
        code_blank += !saw_comment && folder != ""
        return
    }
    check_words(code)
    if (in_macro || directive) {
        in_macro = line ~ /\\$/
        if (directive)
            follow_condition(code)
        return
    }
    if (in_cplusplus)
        return
    if (folder != "" && index(code, "assert"))
        asserts += gsub(/[A-Za-z_]*assert[a-z_]*[(]/, "&", code)
    if (is_test)
        name_invariants(code)
    follow(code)
}

# ---- any line --------------------------------------------------------------------------------------------------

# test_i1_i96_waits_for_it names I1 and I96.
function name_invariants(text,    before, rest, parts, n, i) {
    while (match(text, /test_i[0-9]+_/)) {
        before = RSTART > 1 ? substr(text, RSTART - 1, 1) : ""
        rest = substr(text, RSTART + 5)
        text = substr(text, RSTART + RLENGTH)
        if (before ~ /[A-Za-z0-9_]/)
            continue
        sub(/[^A-Za-z0-9_].*/, "", rest)
        n = split(rest, parts, "_")
        for (i = 1; i <= n && parts[i] ~ /^i[0-9]+$/; i++)
            quote_invariant(substr(parts[i], 2) + 0, 1)
    }
}

# Remembered until docs/invariants.md was read; the place is where the number stood first.
function quote_invariant(number, by_test) {
    if (by_test)
        named[number] = 1
    if (!(number in quoted)) {
        quoted[number] = path
        quoted_line[number] = lineno
        quotes[++quote_count] = number
    }
}

function check_any_line(line) {
    if (line ~ /[ \t\r]$/)
        fail(path, lineno, "white-space", "at the end of the line")
    if (index(line, "\t") && !is_make)
        fail(path, lineno, "white-space", "a tab")
    if (!is_doc && line ~ /TODO/ && line !~ /TODO.*#[0-9]/) # TODO(#12) is fine
        fail(path, lineno, "todo", "needs the number of its issue")
    if (is_c && index(line, "keeps I") && match(line, /keeps I[0-9]+/))
        quote_invariant(substr(line, RSTART + 7, RLENGTH - 7) + 0, 0)
}

function check_list_line(line,    number) {
    if (line !~ /^[0-9]+\. /)
        return
    number = line + 0
    if (number != ++invariants)
        fail(path, lineno, "invariant", number " stands where " invariants " is due; numbers are for good")
    if (line ~ /^[0-9]+\. \([^)]*not applicable\)/) # the page says why
        named[number] = 1
}

function read_allow_line(line,    field, n, key, min) {
    if (line ~ /^[ ]*(#|$)/)
        return
    n = split(line, field, " ")
    if (field[1] == "function-length" || field[1] == "uncalled")
        min = 3
    else if (field[1] == "no-test" || field[1] == "file-length")
        min = 2
    else {
        fail(path, lineno, "allow", "`" field[1] "` is no rule that can be waived")
        return
    }
    if (n <= min) {
        fail(path, lineno, "allow", "gives no reason")
        return
    }
    key = field[1] " " field[2] (min == 3 ? " " field[3] : "")
    if (key in allow)
        fail(path, lineno, "allow", "`" key "` is here twice")
    else
        allow_keys[++allow_count] = key
    allow[key] = lineno
}

function allowed(key) {
    if (!allow_read)
        read_allow()
    if (key in allow)
        allow_used[key] = 1
    return key in allow
}

# ---- files -----------------------------------------------------------------------------------------------------

function read_allow(    line, path_kept, lineno_kept) {
    allow_read = 1
    path_kept = path
    lineno_kept = lineno
    path = "tools/lint.allow"
    lineno = 0
    while ((getline line < path) > 0) {
        lineno++
        read_allow_line(line)
    }
    close(path)
    path = path_kept
    lineno = lineno_kept
}

# The part of the tree that the rules of src/ hold for; "" outside of it.
function folder_of(file,    n, part) {
    n = split(file, part, "/")
    if (part[1] == "include")
        return "include"
    if (part[1] == "lab")
        return n == 2 || part[2] == "cli" ? "lab" : "" # a microbenchmark is a program
    if (part[1] != "src")
        return ""
    if (file == "src/main.c")
        return "main"
    if (n > 2 && (part[2] in sees) && part[2] != "main" && part[2] != "include")
        return part[2]
    fail(file, 1, "include", "lies in no folder that tools/lint.sh knows; give it a line in `sees`")
    return ""
}

function check_length(    max, soft) {
    max = path ~ /\.c$/ ? C_MAX : H_MAX
    soft = path ~ /\.c$/ ? C_SOFT : H_SOFT
    if (lineno > max && !allowed("file-length " path))
        fail(path, lineno, "file-length", lineno " lines, " max " are the most")
    else if (lineno > soft && path !~ /^tests\//)
        note(path, lineno " lines, more than " soft)
}

function count_file() {
    if (path ~ /^tests\//) {
        test_lines += lineno
    } else if (path ~ /\.c$/ && folder != "") {
        code_lines += lineno
        c_lines[lineno]++
        c_count++
        c_max = lineno > c_max ? lineno : c_max
    } else if (path ~ /\.h$/ && folder != "") {
        code_lines += lineno
        h_lines[lineno]++
        h_count++
        h_max = lineno > h_max ? lineno : h_max
    }
}

function start_file(file) {
    path = file
    lineno = 0
    is_c = path ~ /\.[ch]$/
    is_doc = path ~ /\.md$/
    is_make = path ~ /(\.mk|Makefile)$/
    is_test = path ~ /^tests\/.*_test\.[a-z]+$/
    is_program = path ~ /^(src|include|lab)\/.*\.[ch]$/
    is_list = path == "docs/invariants.md"
    is_threads = path == "docs/threads.md"
    is_lock = path == "src/base/lock.h"
    folder = is_c ? folder_of(path) : ""
    in_comment = in_macro = in_cplusplus = if_level = depth = brackets = 0
    words = function_now = ""
    seen[path] = 1
}

function end_file() {
    if (!is_c && path !~ /^tests\/.*\.(sh|py|js)$/)
        return
    count_file()
    if (!is_c)
        return
    check_length()
    if (depth != 0 || in_comment)
        fail(path, lineno, "parse", "braces or comments do not come out even, so that its functions cannot be measured")
    if (path ~ /^src\/.*\.c$/ || (path ~ /^lab\/.*\.c$/ && folder != "" && path != "lab/main.c"))
        sources[++source_count] = path
}

{
    start_file($0)
    while ((got = (getline line < path)) > 0) {
        lineno++
        check_any_line(line)
        if (is_c)
            check_c_line(line)
        else if (is_test && line !~ /^[ ]*(#|\/\/)/)
            name_invariants(line)
        else if (is_list)
            check_list_line(line)
        else if (is_threads)
            threads_text = threads_text line "\n"
        if (is_lock && match(line, /LOCK_RANK_[A-Z_]+ = [0-9]+/)) {
            ranks[++rank_count] = substr(line, RSTART, RLENGTH)
            rank_line[rank_count] = lineno
        }
    }
    if (got < 0)
        fail(path, 1, "parse", "cannot be read")
    close(path)
    end_file()
}

# ---- the tree as a whole ---------------------------------------------------------------------------------------

function check_tests(    i, test, file) {
    for (i = 1; i <= source_count; i++) {
        file = sources[i]
        test = file
        if (!sub(/^src\//, "tests/", test))
            test = "tests/" test
        sub(/\.c$/, "_test", test)
        if (!((test ".c") in seen) && !((test ".sh") in seen) && !allowed("no-test " file))
            fail(file, 1, "test", test ".c is missing")
    }
}

# A definition is one mention; a caller, a table or the public header is another one.
function check_callers(    i, name) {
    for (i = 1; i <= public_count; i++) {
        name = publics[i]
        if (word_count[name] < 2 && !allowed("uncalled " public_path[name] " " name))
            fail(public_path[name], public_line[name], "uncalled", name " has no caller outside of tests")
    }
}

function check_quotes(    i) {
    for (i = 1; i <= quote_count && invariants; i++)
        if (quotes[i] < 1 || quotes[i] > invariants)
            fail(quoted[quotes[i]], quoted_line[quotes[i]], "invariant", "there is no I" quotes[i])
}

# A rank is `| LOCK_RANK_CACHE | 30 | ...` in the table.
function check_ranks(    i, pair) {
    for (i = 1; i <= rank_count && threads_text != ""; i++) {
        split(ranks[i], pair, " = ")
        if (threads_text !~ ("`" pair[1] "` *[|] *" pair[2] " *[|]"))
            fail("src/base/lock.h", rank_line[i], "lock-rank", ranks[i] " is not in the table of docs/threads.md")
    }
}

function check_allow(    i) {
    for (i = 1; i <= allow_count; i++)
        if (!(allow_keys[i] in allow_used))
            fail("tools/lint.allow", allow[allow_keys[i]], "allow", "nothing needs `" allow_keys[i] "` any more")
}

# The smallest length that at least `share` percent of the files or functions do not exceed.
function quantile(counts, total, max, share,    n, sum) {
    for (n = 0; n <= max; n++)
        if ((sum += counts[n]) * 100 >= total * share && sum > 0)
            return n
    return 0
}

# "I3-I5 I9" for the numbers that no test names, in lines that fit a screen.
function unnamed(    n, from, text, line, piece) {
    for (n = 1; n <= invariants + 1; n++) {
        if (n <= invariants && !(n in named)) {
            missing++
            from = from ? from : n
        } else if (from) {
            piece = " I" from (n - 1 > from ? "-I" n - 1 : "")
            if (length(line piece) > 100) {
                text = text " " line "\n"
                line = ""
            }
            line = line piece
            from = 0
        }
    }
    return line == "" ? text : text " " line "\n"
}

function row(trait, ours, target) {
    printf "%-28s %-24s %s\n", trait, ours, target
}

function ratio(a, b) {
    return b ? sprintf("%.2f", a / b) : "-"
}

function report(    f, filled, list) {
    filled = code_lines > code_blank ? code_lines - code_blank : 1
    printf "%s", notes
    row("trait", "ours", "target")
    row(".c size median / max", quantile(c_lines, c_count, c_max, 50) " / " c_max + 0, "<= 400 / " C_MAX)
    row(".h size median / max", quantile(h_lines, h_count, h_max, 50) " / " h_max + 0, "<= " H_SOFT " / " H_MAX)
    f = quantile(function_lines, functions, function_max, 50) " / " quantile(function_lines, functions, function_max, 90)
    row("function median / p90 / max", f " / " function_max + 0, "12 / 45 / " FUNCTION_MAX)
    row("comment %", sprintf("%.0f", comment_lines * 100 / filled), "15-25, of the lines that are not blank")
    row("asserts per function", ratio(asserts, functions), ">= 1")
    row("tests : code", test_lines + 0 " : " code_lines + 0 " (" ratio(test_lines, code_lines) ")", ">= 1 : 1, lines")
    if (invariants) {
        list = unnamed()
        printf "invariants that no test names: %d of %d\n%s", missing, invariants, list
    }
}

END {
    if (source_count == 0) {
        print "lint: no src/*.c below this folder" | "cat >&2"
        exit 2
    }
    check_tests()
    check_callers()
    check_quotes()
    check_ranks()
    allowed("")
    check_allow()
    report()
    if (failures)
        printf "lint: %d failed\n", failures
    exit failures ? 1 : 0
}' || status=$?
found=$(check_words; check_width; check_format)
if [ -n "$found" ]; then
    printf '%s\n' "$found"
    status=1
fi
exit "$status"
