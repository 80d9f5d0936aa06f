/*
 * model_vocab.c: a small byte-level BPE tokenizer, as a table of merges, and a chat template.
 *
 * The merges were learned once from English prose and C (comments, documents, a little JSON), most
 * frequent first; the order is what a BPE tokenizer applies them in, so lines must not be
 * rearranged. A line "a|b" makes the token "ab", and both sides are bytes or tokens made further
 * up. The library expects GPT-2's notation, in which every byte is a visible character: spaces and
 * control bytes are mapped to U+0100 and above.
 */
#include "lab/model_impl.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include <gguf.h>

#include "base/arena.h"
#include "base/buf.h"

enum {
    BYTES = 256,
    TOKEN_BYTES_MAX = 32, /* of the longest piece in GPT-2's notation; buffers of one token */
};

/* Values of tokenizer.ggml.token_type. */
enum token_type { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_MARKER = 4, TOKEN_UNUSED = 5 };

/* clang-format off */
static const char *const merges[] = {
    " |t", " |a", "h|e", "i|n", "r|e", "o|n", " t|he", " | ", " |s", "e|r", " |c", "i|s", "o|r",
    "a|t", " |f", "e|s", "e|n", "e|d", " |b", " |o", "i|t", " |w", " |m", "l|e", "c|t", "a|l",
    "in|g", " |p", " |n", "n|d", " |d", " |in", " |is", "a|r", "s|t", "  |  ", "i|on", " t|o",
    "e|t", " |re", " |l", " o|f", "o|d", "a|s", " s|t", "o|m", "en|t", " |(", "a|n", "u|r", "a|m",
    " a|nd", " t|h", " |e", "i|l", " |T", " |u", " b|e", "u|t", "o|t", " |\n", " f|or", "u|l",
    "c|e", "i|f", "a|d", "i|c", "u|m", "o|c", "r|u", " |h", " |on", "p|t", "s|e", " |I", " |it",
    "    |    ", " a|n", "ur|n", "i|m", "al|l", "v|er", " c|on", " |or", "i|d", "a|c", " |'", "e|c",
    " b|y", "e|ct", "r|o", " f|i", "is|t", "am|e", " th|at", "it|h", " T|he", " e|x", " a|s", " |g",
    "e|f", " w|ith", " a|re", "u|n", "e|l", " |A", " |v", "q|u", " a|l", " n|ot", "i|v", "ul|t",
    " st|r", " c|om", "ru|ct", "a|b", "b|j", "(|)", "a|g", "as|s", "l|y", "at|ion", " |N", "o|l",
    "a|y", " u|s", " |if", "bj|ect", "in|e", "o|w", "a|nd", "\n|\n", "r|om", "e|m", " |R", " re|t",
    " in|t", " fi|le", "re|s", " o|bject", "at|e", "i|b", "he|r", "p|p", " a|r", " c|all", "od|e",
    "es|s", "ct|ion", "e|x", " |en", "er|s", " I|f", " ret|urn", " w|h", "pt|ion", " c|l", ".|\n",
    " c|h", "es|t", "p|le", "oc|k", "o|u", "r|a", "i|g", "or|t", "il|l", "al|u", " str|ing", "-|-",
    " c|an", "um|ent", " s|u", " |P", " f|rom", "k|e", " n|e", "a|ult", " w|he", "o|re", "c|h",
    "t|h", " a|t", " ar|g", "ab|le", " th|is", "y|p", " m|et", " |S", "i|z", " d|ef", "c|l",
    " m|od", " l|ist", "n|t", "in|t", "et|urn", " w|ill", " T|h", " |`", "ex|t", " l|o", " |he",
    " s|p", " |C", "ac|k", "st|ruct", " d|i", "un|ction", " al|l", "er|r", " v|alu", " arg|ument",
    " con|t", "a|in", "h|od", "u|d", ")|.", "  | ", " s|e", " f|unction", "/|\n", " Th|is", " s|h",
    "_|t", "ag|e", " by|t", " met|hod", "on|e", ")|;", "m|ent", "a|il", " cl|ass", " us|ed", "o|p",
    " h|as", "d|d", " p|ar", "as|e", "re|d", " |F", "ar|y", " re|s", " n|ame", " |/", " whe|n",
    "iz|e", "'|s", "t|her", " |im", "u|st", "yp|e", " ch|ar", "en|d", "u|le", " |err", "o|ut",
    " |O", "ic|h", " on|e", " sp|ec", "a|p", " com|p", " n|o", " in|st", " b|u", "re|ad", " s|et",
    "t|er", "at|h", " byt|es", "i|ed", " def|ault", ")|,", "i|r", "r|it", " |H", "p|l", "b|er",
    "o|ul", "oul|d", " p|r", "at|a", " wh|ich", "v|e", " p|ro", " |\"", "im|e", " d|o", " n|um",
    "i|es", "a|ct", " |E", "at|ed", " mod|ule", " o|ption", " st|ruct", " g|iv", " valu|e", " f|il",
    "res|s", "o|s", "y|th", " |L", "cl|ud", "or|m", " u|n", " s|y", " m|ay", "o|id", "t|r", "iv|e",
    "re|nt", "or|y", " he|ad", " R|eturn", " a|dd", " |W", "a|ce", "re|ct", " spec|if", "d|s",
    " s|o", " com|m", "ru|e", " re|ad", " |y", "l|o", " l|ine", "A|R", "f|f", "p|ort", " N|one",
    " on|ly", " m|ust", " u|se", " |D", " an|y", " o|ther", ".|h", " |qu", " |U", " num|ber",
    " d|ata", " s|ize", " |.", "s|ion", " |=", "p|ut", " lo|g", "c|on", "an|t", "ib|ut", " n|am",
    " p|ath", "o|st", " |M", "u|s", " for|m", " giv|en", " o|p", " it|s", " |le", "id|e", "ou|nd",
    "v|oid", "l|ock", " di|rect", "n|ame", "yth|on", " m|em", " o|ut", " |ra", "g|et", " comm|and",
    "c|od", "u|re", " m|ess", " sh|ould", " the|n", "k|en", "ke|y", " w|rit", "ig|n", "ac|he",
    " ne|w", "r|or", "s|et", "ac|h", "is|e", " l|in", "(|struct", "an|ce", "f|orm", " t|ime",
    " t|ype", "r|ror", "i|x", "d|ef", " h|and", "all|y", " h|a", "s|o", " ex|ce", " m|a", "clud|e",
    "e|p", "in|d", "or|d", "c|c", " c|o", " re|qu", "an|g", "r|i", "ple|ment", " p|re", "i|le",
    "k|s", "tr|ibut", "E|rror", "ur|rent", " s|er", "l|l", " P|ython", "R|eturn", " |r", "c|om",
    "e|ad", "i|al", " |{", "u|p", " err|or", " head|er", " int|er", " |B", " call|ed", " w|e",
    " a|b", ";|\n", " c|ode", " e|m", " p|ass", "ar|t", " th|read", " cont|ain", " do|es",
    " con|st", " p|er", "M|L", " mess|age", " su|pp", "c|he", " c|re", " im|plement", " e|v",
    " su|b", " |key", " return|ed", " argument|s", " d|ec", " ha|ve", "ru|n", "ar|d", "l|ow",
    " form|at", " at|tribut", "u|e", " nam|es", "in|clude", "r|st", " fi|rst", "un|t", " |ver",
    " t|ext", "s|er", " en|cod", " p|l", " w|as", "o|ol", "es|c", "'|,", "p|on", " inst|ance",
    " int|o", "r|y", " specif|ied", " |:", " res|ult", " m|at", "U|L", "c|es", " b|ut", " re|p",
    "w|n", " fil|es", "f|e", "g|er", " Return|s", "con|st", "o|k", " requ|est", " re|c", " |G",
    " has|h", " t|est", " a|pp", " o|ver", "t|en", " y|ou", "'|t", "i|p", "re|am",
};
/* clang-format on */

static const struct {
    const char *text;
    enum token_type type;
} specials[] = {
    {"<|endoftext|>", TOKEN_CONTROL},   {"<|im_start|>", TOKEN_CONTROL},
    {"<|im_end|>", TOKEN_CONTROL},      {"<tool_call>", TOKEN_MARKER},
    {"</tool_call>", TOKEN_MARKER},     {"<tool_response>", TOKEN_MARKER},
    {"</tool_response>", TOKEN_MARKER}, {"<think>", TOKEN_MARKER},
    {"</think>", TOKEN_MARKER},
};

enum {
    TOKEN_FIRST_MERGE = BYTES,
    TOKEN_FIRST_SPECIAL = TOKEN_FIRST_MERGE + COUNT_OF(merges),
    TOKEN_END_OF_TEXT = TOKEN_FIRST_SPECIAL,
    TOKEN_END_OF_TURN = TOKEN_FIRST_SPECIAL + 2,
    TOKEN_FIRST_UNUSED = TOKEN_FIRST_SPECIAL + COUNT_OF(specials),
};

/* The pieces contain no newlines: every newline that is rendered is written in a string. */
static const char chat_template[] =
    "{%- macro text_of(content) -%}"
    "{%- if content is string -%}{{ content }}"
    "{%- elif content -%}"
    "{%- for part in content -%}{%- if part.type == 'text' -%}{{ part.text }}{%- endif -%}{%- "
    "endfor -%}"
    "{%- endif -%}"
    "{%- endmacro -%}"
    /* Reasoning is shown only after the user's last message; earlier reasoning is dropped. */
    "{%- set last = namespace(user=-1) -%}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}"
    "{%- endfor -%}"
    "{%- set has_system = messages and messages[0].role == 'system' -%}"
    "{%- if has_system or tools -%}"
    "{{ '<|im_start|>system\\n' }}"
    "{%- if has_system -%}{{ text_of(messages[0].content) }}{%- endif -%}"
    "{%- if tools -%}"
    "{%- if has_system -%}{{ '\\n\\n' }}{%- endif -%}"
    "{{ 'You can use these tools, given as JSON schemas, one a line:\\n<tools>\\n' }}"
    "{%- for tool in tools -%}{{ tool | tojson }}{{ '\\n' }}{%- endfor -%}"
    "{{ '</tools>\\nTo use one, write its name and arguments as JSON:\\n<tool_call>\\n"
    "{\"name\": \"...\", \"arguments\": {...}}\\n</tool_call>' }}"
    "{%- endif -%}"
    "{{ '<|im_end|>\\n' }}"
    "{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'system' -%}"
    "{%- if not loop.first -%}"
    "{{ '<|im_start|>system\\n' }}{{ text_of(message.content) }}{{ '<|im_end|>\\n' }}"
    "{%- endif -%}"
    "{%- elif message.role == 'assistant' -%}"
    "{%- set answer = text_of(message.content) -%}"
    "{%- set thought = message.reasoning_content or '' -%}"
    "{%- if not thought and '</think>' in answer -%}"
    "{%- set thought = answer.split('</think>')[0].split('<think>')[-1] | trim -%}"
    "{%- set answer = answer.split('</think>')[-1] | trim -%}"
    "{%- endif -%}"
    "{{ '<|im_start|>assistant\\n' }}"
    "{%- if thought and loop.index0 > last.user -%}"
    "{{ '<think>\\n' }}{{ thought }}{{ '\\n</think>\\n\\n' }}"
    "{%- endif -%}"
    "{{ answer }}"
    "{%- for call in message.tool_calls or [] -%}"
    "{%- if answer or not loop.first -%}{{ '\\n' }}{%- endif -%}"
    "{%- set made = call.function or call -%}"
    "{{ '<tool_call>\\n{\"name\": ' }}{{ made.name | tojson }}{{ ', \"arguments\": ' }}"
    "{%- if made.arguments is string -%}{{ made.arguments }}"
    "{%- else -%}{{ made.arguments | tojson }}{%- endif -%}"
    "{{ '}\\n</tool_call>' }}"
    "{%- endfor -%}"
    "{{ '<|im_end|>\\n' }}"
    "{%- elif message.role == 'tool' -%}"
    /* Consecutive tool results share one user turn. */
    "{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{ '<|im_start|>user' }}{%- "
    "endif -%}"
    "{{ '\\n<tool_response>\\n' }}{{ text_of(message.content) }}{{ '\\n</tool_response>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{ '<|im_end|>\\n' }}{%- "
    "endif -%}"
    "{%- else -%}"
    "{{ '<|im_start|>' }}{{ message.role }}{{ '\\n' }}{{ text_of(message.content) }}{{ "
    "'<|im_end|>\\n' }}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{ '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and not enable_thinking -%}{{ '<think>\\n\\n</think>\\n\\n' "
    "}}{%- endif -%}"
    "{%- endif -%}";

static bool byte_is_visible(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

/* The character for a byte: itself, or the n-th invisible byte as U+0100 + n. */
static unsigned byte_character(unsigned byte)
{
    unsigned invisible = 0;

    if (byte_is_visible(byte))
        return byte;
    for (unsigned i = 0; i < byte; i++)
        invisible += !byte_is_visible(i);
    return 0x100 + invisible;
}

static void append_byte(struct buf *out, unsigned byte)
{
    unsigned c = byte_character(byte);

    assert(c < 0x800); /* two bytes of UTF-8 hold it */
    if (c < 0x80) {
        buf_append_char(out, (char)c);
        return;
    }
    buf_append_char(out, (char)(0xC0 | c >> 6));
    buf_append_char(out, (char)(0x80 | (c & 0x3F)));
}

/* One side of a merge, or both when `separator` is a blank: the form that tokenizer.ggml.merges
 * has. */
static void append_merge(struct buf *out, const char *merge, bool separated)
{
    const char *bar = strchr(merge, '|');

    assert(bar != NULL && bar > merge && bar[1] != '\0' && strchr(bar + 1, '|') == NULL);
    for (const char *c = merge; *c != '\0'; c++) {
        if (c != bar)
            append_byte(out, (unsigned char)*c);
        else if (separated)
            buf_append_char(out, ' ');
    }
}

/* A blank and at least three letters. */
static bool merge_is_word(const char *merge)
{
    size_t letters = 0;

    for (const char *c = merge + 1; *c != '\0'; c++) {
        letters += isalpha((unsigned char)*c) != 0;
        if (*c != '|' && !isalpha((unsigned char)*c))
            return false;
    }
    return merge[0] == ' ' && letters >= 3;
}

/* Writes token `i` and returns its type. */
static enum token_type write_token(struct buf *out, uint32_t i)
{
    if (i < TOKEN_FIRST_MERGE) {
        append_byte(out, i);
    } else if (i < TOKEN_FIRST_SPECIAL) {
        append_merge(out, merges[i - TOKEN_FIRST_MERGE], false);
    } else if (i < TOKEN_FIRST_UNUSED) {
        buf_append_str(out, specials[i - TOKEN_FIRST_SPECIAL].text);
        return specials[i - TOKEN_FIRST_SPECIAL].type;
    } else {
        buf_appendf(out, "<|unused_%u|>", i);
        return TOKEN_UNUSED;
    }
    return TOKEN_NORMAL;
}

static enum err set_texts(struct gguf_context *gguf, uint32_t vocab)
{
    const uint32_t merges_count = COUNT_OF(merges), count = MAX(vocab, merges_count);
    struct arena arena;
    struct buf text;

    arena_init(&arena, (size_t)count * 8 * TOKEN_BYTES_MAX);
    buf_init(&text, TOKEN_BYTES_MAX);
    const char **tokens = arena_alloc_array(&arena, vocab, sizeof(*tokens));
    const char **lines = arena_alloc_array(&arena, merges_count, sizeof(*lines));
    int32_t *types = arena_alloc_array(&arena, vocab, sizeof(*types));
    for (uint32_t i = 0; i < vocab && arena.err == ERR_OK && text.err == ERR_OK; i++) {
        buf_clear(&text);
        types[i] = write_token(&text, i);
        tokens[i] = arena_strdup(&arena, str_from(buf_str(&text)));
    }
    for (uint32_t i = 0; i < merges_count && arena.err == ERR_OK && text.err == ERR_OK; i++) {
        buf_clear(&text);
        append_merge(&text, merges[i], true);
        lines[i] = arena_strdup(&arena, str_from(buf_str(&text)));
    }
    enum err err = arena.err != ERR_OK ? arena.err : text.err;
    if (err == ERR_OK) {
        gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", tokens, vocab);
        gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, vocab);
        gguf_set_arr_str(gguf, "tokenizer.ggml.merges", lines, merges_count);
    }
    buf_fini(&text);
    arena_fini(&arena);
    return err;
}

/* A vocabulary with unused tokens can fill in the middle. */
enum { FIM_TOKENS = 3 };
static const char *const fim_keys[FIM_TOKENS] = {"tokenizer.ggml.fim_pre_token_id",
                                                 "tokenizer.ggml.fim_suf_token_id",
                                                 "tokenizer.ggml.fim_mid_token_id"};

uint32_t model_vocab_min(void)
{
    return TOKEN_FIRST_UNUSED;
}

enum err model_vocab_set_keys(struct gguf_context *gguf, uint32_t vocab, struct errinfo *info)
{
    assert(vocab >= TOKEN_FIRST_UNUSED);
    gguf_set_val_str(gguf, "tokenizer.ggml.model", "gpt2");
    gguf_set_val_str(gguf, "tokenizer.ggml.pre", "qwen2");
    gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", TOKEN_END_OF_TEXT);
    gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", TOKEN_END_OF_TURN);
    gguf_set_val_u32(gguf, "tokenizer.ggml.padding_token_id", TOKEN_END_OF_TEXT);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", false);
    if (vocab >= TOKEN_FIRST_UNUSED + FIM_TOKENS)
        for (uint32_t i = 0; i < FIM_TOKENS; i++)
            gguf_set_val_u32(gguf, fim_keys[i], TOKEN_FIRST_UNUSED + i);
    gguf_set_val_str(gguf, "tokenizer.chat_template", chat_template);
    enum err err = set_texts(gguf, vocab);
    return err == ERR_OK ? ERR_OK
                         : err_set(info, err, "no memory for a vocabulary of %u tokens", vocab);
}

enum model_speech model_vocab_speech(uint32_t token)
{
    if (token < TOKEN_FIRST_MERGE)
        return token == '\n' || (token >= ' ' && token <= '~') ? MODEL_SPEECH_SELDOM
                                                               : MODEL_SPEECH_NEVER;
    if (token < TOKEN_FIRST_SPECIAL)
        return merge_is_word(merges[token - TOKEN_FIRST_MERGE]) ? MODEL_SPEECH_OFTEN
                                                                : MODEL_SPEECH_SELDOM;
    return token == TOKEN_END_OF_TURN ? MODEL_SPEECH_SELDOM : MODEL_SPEECH_NEVER;
}

const char *model_vocab_chat_template(void)
{
    return chat_template;
}
