/*
 * markdown.js: Markdown as elements. The text comes from a model and is never trusted: elements are built one by one, text goes in as text,
 * nothing is parsed as HTML, and a link is a link only if it leads to http, https or mailto. Pictures are not loaded: they become links.
 *
 * A streamed answer is rendered again with every piece: blocks whose source did not change keep their elements, and so the selection.
 */
import { copyButton, h } from './dom.js';
import { highlighted } from './highlight.js';

const DEPTH_MAX = 8; /* of quotes and lists in each other */

/* ---- inline ---- */

/* Lengths are limited: an opening mark without an end must not cost a look at the whole answer. */
const INLINE = new RegExp([
    /\\([\\`*_{}[\]()#+\-.!|>~])/, /* 1: escaped */
    /(?<!`)(`+)(?!`)([\s\S]{1,2000}?)(?<!`)\2(?!`)/, /* 2, 3: code */
    /!?\[([^[\]]{0,500})\]\(([^()\s]{1,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,200})?)(?:\s+"[^"]{0,200}")?\)/, /* 4, 5: link */
    /(\*\*|__)(?=\S)([\s\S]{1,2000}?)(?<=\S)\6/, /* 6, 7: strong */
    /~~(?=\S)([\s\S]{1,2000}?)(?<=\S)~~/, /* 8: struck */
    /(?<![\w*])\*(?=[^\s*])([^*]{1,2000}?)(?<=\S)\*(?!\*)/, /* 9: emphasis */
    /(?<!\w)_(?=[^\s_])([^_]{1,2000}?)(?<=\S)_(?!\w)/, /* 10 */
    /(https?:\/\/[^\s<>"'`)\]]{1,2000})/, /* 11: bare address */
].map(({ source }) => source).join('|'), 'g');

const SAFE = /^(https?:\/\/|mailto:)[^\s]+$/i;

function link(url, children) {
    if (!SAFE.test(url)) return [...children, ` (${url})`];
    return [h('a', { href: url, target: '_blank', rel: 'noopener noreferrer nofollow' }, ...children)];
}

function inlineOf(match, depth) {
    if (match[1]) return [match[1]];
    if (match[2]) return [h('code', {}, match[3].replace(/^ (.*) $/s, '$1'))];
    if (match[5] !== undefined) return link(match[5], match[4] ? inline(match[4], depth + 1) : [match[5]]);
    if (match[6]) return [h('strong', {}, ...inline(match[7], depth + 1))];
    if (match[8]) return [h('s', {}, ...inline(match[8], depth + 1))];
    if (match[9] ?? match[10]) return [h('em', {}, ...inline(match[9] ?? match[10], depth + 1))];
    const [, address, rest] = match[11].match(/^(.*?)([.,;:!?]*)$/);
    return [...link(address, [address]), rest];
}

function inline(text, depth = 0) {
    if (depth > DEPTH_MAX) return [text];
    const parts = [];
    let at = 0;
    for (const match of text.matchAll(INLINE)) {
        parts.push(text.slice(at, match.index), ...inlineOf(match, depth));
        at = match.index + match[0].length;
    }
    return [...parts, text.slice(at)].filter((part) => part !== '');
}

/* A line end is a line end: models write that way. */
const lines = (text) => text.split('\n').flatMap((line, i) => (i > 0 ? [h('br'), ...inline(line)] : inline(line)));

/* ---- blocks ---- */

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(\s+|$)/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

const isTable = (all, at) => all[at].includes('|') && at + 1 < all.length && all[at + 1].includes('-') && DIVIDER.test(all[at + 1]);
const begins = (all, at) => FENCE.test(all[at]) || HEADING.test(all[at]) || RULE.test(all[at]) || QUOTE.test(all[at]) || ITEM.test(all[at]) || isTable(all, at);
const indentOf = (line) => line.length - line.trimStart().length;

/* Where the block that begins at `at` ends. */
function endOf(all, at) {
    let end = at + 1;
    const fence = all[at].match(FENCE);
    if (fence) {
        while (end < all.length && !(all[end].trim().startsWith(fence[1]) && all[end].trim().replaceAll(fence[1][0], '') === '')) end++;
        return Math.min(end + 1, all.length);
    }
    if (HEADING.test(all[at]) || RULE.test(all[at])) return end;
    if (QUOTE.test(all[at])) while (end < all.length && QUOTE.test(all[end])) end++;
    else if (isTable(all, at)) while (end < all.length && all[end].includes('|')) end++;
    else if (ITEM.test(all[at])) {
        const inside = (line) => ITEM.test(line) || indentOf(line) > indentOf(all[at]);
        while (end < all.length && (inside(all[end]) || (all[end].trim() === '' && end + 1 < all.length && inside(all[end + 1]) && all[end + 1].trim() !== ''))) end++;
    } else while (end < all.length && all[end].trim() !== '' && !begins(all, end)) end++;
    return end;
}

/* The text as sources of blocks. */
export function blocksOf(text) {
    const all = text.replaceAll('\r', '').replaceAll('\t', '    ').split('\n');
    const blocks = [];
    for (let at = 0; at < all.length;) {
        if (all[at].trim() === '') {
            at++;
            continue;
        }
        const end = endOf(all, at);
        blocks.push(all.slice(at, end).join('\n'));
        at = end;
    }
    return blocks;
}

function codeOf(source) {
    const [first, ...rest] = source.split('\n');
    const [, fence, language] = first.match(FENCE);
    if (rest.length && rest.at(-1).trim().startsWith(fence)) rest.pop();
    const code = rest.join('\n');
    const pre = h('pre', { tabindex: '0', 'aria-label': language ? `Code, ${language}` : 'Code' }, h('code', {}, ...highlighted(code, language)));
    return h('figure', { class: 'code' }, h('figcaption', {}, h('span', {}, language || 'text'), copyButton(() => code, 'Copy the code')), pre);
}

/* Each item with the lines that are indented below it. */
function listOf(source, depth) {
    const all = source.split('\n'), items = [], base = indentOf(all[0]);
    for (const line of all) {
        const match = line.match(ITEM);
        if (match && match[1].length <= base + 1) items.push([line.slice(match[0].length)]);
        else items.at(-1).push(line);
    }
    const number = parseInt(all[0].match(ITEM)[2], 10);
    return h(Number.isNaN(number) ? 'ul' : 'ol', { start: number > 1 ? String(number) : null }, ...items.map(([first, ...rest]) => {
        const inner = Math.min(...rest.filter((line) => line.trim() !== '').map(indentOf), 99);
        const more = rest.length ? blocksOf(rest.map((line) => line.slice(inner)).join('\n')) : [];
        return h('li', {}, ...inline(first), ...more.map((block) => elementOf(block, depth + 1)));
    }));
}

const cells = (line) => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim());

function tableOf(source) {
    const [head, divider, ...rows] = source.split('\n');
    const right = cells(divider).map((cell) => /^-+:$/.test(cell));
    const row = (line, tag) => h('tr', {}, ...cells(line).map((cell, i) => h(tag, { class: right[i] ? 'number' : null, scope: tag === 'th' ? 'col' : null }, ...inline(cell))));
    return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Table' },
        h('table', {}, h('thead', {}, row(head, 'th')), h('tbody', {}, ...rows.map((line) => row(line, 'td')))));
}

function elementOf(source, depth = 0) {
    const all = source.split('\n');
    if (depth > DEPTH_MAX) return h('p', {}, source);
    if (FENCE.test(source)) return codeOf(source);
    const heading = source.match(HEADING);
    if (heading) return h(`h${Math.min(heading[1].length + 2, 6)}`, {}, ...inline(heading[2])); /* the page has h1 and h2 */
    if (RULE.test(source)) return h('hr');
    if (QUOTE.test(source)) return h('blockquote', {}, ...blocksOf(all.map((line) => line.replace(QUOTE, '')).join('\n')).map((block) => elementOf(block, depth + 1)));
    if (isTable(all, 0)) return tableOf(source);
    if (ITEM.test(source)) return listOf(source, depth);
    return h('p', {}, ...lines(source));
}

const sources = new WeakMap();

/* Shows `text` in `parent`. */
export function renderMarkdown(parent, text) {
    const blocks = blocksOf(text);
    blocks.forEach((source, i) => {
        const old = parent.children[i];
        if (old && sources.get(old) === source) return;
        const element = elementOf(source);
        sources.set(element, source);
        if (old) old.replaceWith(element);
        else parent.append(element);
    });
    while (parent.children.length > blocks.length) parent.lastElementChild.remove();
}
