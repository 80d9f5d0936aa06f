/*
 * highlight.js: comments, strings, numbers and keywords of code, as elements. One small scanner for all languages: it is a help for the eye,
 * not a parser.
 */
import { h } from './dom.js';

const KEYWORDS = new Set(`abstract and as assert async await begin bool boolean break case catch char class const continue def default del delete do double
elif else end enum except export extends extern false final finally float fn for foreach from func function global go goto if impl implements import in
inline int interface is lambda let local long loop match mod module mut namespace new nil none not null of or package pass private protected pub public
raise range ref return select self short signed sizeof static string struct super switch template then this throw throws trait true try type typedef
typeof union unsigned until use using var virtual void volatile where while with yield
echo exit export fi done esac sudo SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE JOIN ON GROUP ORDER BY LIMIT AND OR NOT NULL
None True False`.split(/\s+/));

const HASH = /^(py|python|sh|bash|zsh|shell|console|rb|ruby|yaml|yml|toml|ini|make|makefile|r|perl|pl|dockerfile|nix|elixir|ex)$/i;
const DASHES = /^(sql|lua|haskell|hs|ada|vhdl)$/i;
const PLAIN = /^(|text|txt|plain|markdown|md|diff|html|xml|svg|css)$/i;

function scanner(language) {
    const comment = HASH.test(language) ? '(?<![^\\s])#[^\\n]*' : DASHES.test(language) ? '--[^\\n]*' : '\\/\\/[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|$)';
    return new RegExp(`(${comment})|("(?:[^"\\\\\\n]|\\\\.)*"?|'(?:[^'\\\\\\n]|\\\\.)*'?|\`(?:[^\`\\\\]|\\\\.)*\`?)|(\\b\\d[\\w.]*)|([A-Za-z_]\\w*)`, 'g');
}

/* The code as text and spans. */
export function highlighted(code, language) {
    if (PLAIN.test(language)) return [code];
    const parts = [];
    let at = 0;
    for (const match of code.matchAll(scanner(language))) {
        const kind = match[1] ? 'comment' : match[2] ? 'quote' : match[3] ? 'digit' : KEYWORDS.has(match[4]) ? 'keyword' : null;
        if (!kind) continue;
        parts.push(code.slice(at, match.index), h('span', { class: `code-${kind}` }, match[0]));
        at = match.index + match[0].length;
    }
    return [...parts, code.slice(at)];
}
