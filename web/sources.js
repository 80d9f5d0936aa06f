/*
 * sources.js: where the tokens of a prompt come from, as bars and legends; and the reasons for computing some, in words.
 *
 * A source has one colour everywhere (style.css, .source-NAME), and never only a colour: each bar has its numbers as text.
 */
import { h, put, putAttribute, sync } from './dom.js';
import * as format from './format.js';

export const SOURCES = [
    { name: 'device', title: 'Device' },
    { name: 'ram', title: 'RAM' },
    { name: 'ssd', title: 'SSD' },
    { name: 'remote', title: 'Shared store' },
    { name: 'computed', title: 'Computed' },
];

export const swatch = (name) => h('span', { class: `swatch source-${name}`, 'aria-hidden': 'true' });

/* "device 0, RAM 16,276, ...": only what is there. */
function inWords(tokens) {
    const parts = SOURCES.filter(({ name }) => tokens[name] > 0).map(({ name, title }) => `${title} ${format.exact(tokens[name])}`);
    return parts.length ? `${parts.join(', ')} tokens` : 'no tokens';
}

/* Updates a bar whose parts are as long as their share. */
export function renewBar(bar, tokens, total) {
    putAttribute(bar, 'aria-label', inWords(tokens));
    putAttribute(bar, 'title', inWords(tokens));
    sync(bar, SOURCES.filter(({ name }) => tokens[name] > 0), ({ name }) => name,
        ({ name }) => h('span', { class: `source-${name}` }),
        (part, { name }) => { part.style.width = `${(100 * tokens[name]) / total}%`; });
}

export function bar(tokens, total) {
    const element = h('div', { class: 'stack small', role: 'img' });
    renewBar(element, tokens, total);
    return element;
}

/* Updates a legend; a shared store is named only where there is one. */
export function renewLegend(list, tokens, total) {
    const shown = SOURCES.filter(({ name }) => name !== 'remote' || tokens.remote > 0);
    sync(list, shown, ({ name }) => name,
        ({ name, title }) => h('li', {}, swatch(name), h('span', { class: 'name' }, title), h('b', {}), h('span', { class: 'muted share' })),
        (item, { name }) => {
            const value = item.querySelector('b');
            put(value, format.count(tokens[name] ?? 0));
            putAttribute(value, 'data-value', String(tokens[name] ?? 0));
            put(item.querySelector('.share'), total > 0 ? format.percent((tokens[name] ?? 0) / total) : '');
        });
}

/* The names are those of enum hearth_reason. */
const REASONS = {
    none: ['Full hit', 'Everything but the last token was reused.'],
    cold: ['Cache was empty', 'First prompt of this model and tenant.'],
    new_conversation: ['New conversation', 'Only its beginning is shared with cached prompts.'],
    too_short: ['Too short to cache', 'The last token of a prompt is always computed.'],
    diverged: ['Prompt changed', 'A token differs from every cached prompt.'],
    short: ['New text', 'The prompt continues beyond what is cached.'],
    no_snapshot: ['No later snapshot', 'More rows are cached, but this model needs a snapshot there.'],
    evicted: ['Evicted', 'It was cached before and was evicted.'],
    foreign_namespace: ['Belongs to another tenant', 'It is cached for another model, configuration or tenant.'],
    unverified: ['Failed verification', 'A damaged object counts as a miss.'],
    cheaper_to_compute: ['Recomputing was faster', 'Restoring would have taken longer.'],
    timeout: ['Tier too slow', 'Reading would have taken longer than computing.'],
    tier_error: ['Tier error', 'See the log.'],
    refused: ['Rejected by the engine', 'See the log.'],
    disabled: ['Cache disabled', 'Disabled by the request or the configuration.'],
};

/* The reason of a finished request, as its log line has it. */
export function reasonOfRecent({ reason, new_conversation: begins, tokens, prompt_tokens: prompt }) {
    if (begins) return 'new_conversation';
    return reason === 'none' && prompt > 0 && tokens.computed === prompt ? 'too_short' : reason;
}

export const reasonTitle = (name) => REASONS[name]?.[0] ?? name;
/* Why no later snapshot was there; the names are those of enum gen_later. */
const LATER = {
    no_place: 'No chunk of the earlier prompt ended between that one and the first new token.',
    budget: 'Later ones would have taken too many bytes or too much time.',
    evicted: 'A later one was evicted.',
};

export const reasonHelp = (name, later) => [REASONS[name]?.[1], LATER[later]].filter(Boolean).join(' ');

/* "at token 27,540, in user[3]" */
export function differenceInWords({ token, message }) {
    return `at token ${format.exact(token)}${message ? `, in ${message}` : ''}`;
}
