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

/* Renews a bar whose parts are as long as their share. */
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

/* Renews a legend; a shared store is named only where there is one. */
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
    none: ['Nothing more was possible', 'All but the last token was reused.'],
    cold: ['Nothing was held', 'The first prompt of this model and tenant.'],
    diverged: ['The prompt differs', 'A token differs from everything that is held.'],
    short: ['What is held ends there', 'The prompt goes on where the cache has no more.'],
    no_snapshot: ['No snapshot at a later place', 'Rows go further, but this kind of layer needs a snapshot.'],
    evicted: ['It was evicted', 'It was held once and had to make room.'],
    foreign_namespace: ['Held for others only', 'Another model, configuration or tenant has it.'],
    unverified: ['Its bytes failed the check', 'A damaged entry is a miss.'],
    cheaper_to_compute: ['Computing was faster', 'Fetching would have taken longer.'],
    timeout: ['A tier was too slow', 'It did not answer in the time that it could have saved.'],
    tier_error: ['A tier failed', 'See the log.'],
    refused: ['The engine refused it', 'See the log.'],
    disabled: ['Reuse was turned off', 'By the request or the configuration.'],
};

export const reasonTitle = (name) => REASONS[name]?.[0] ?? name;
export const reasonHelp = (name) => REASONS[name]?.[1] ?? '';

/* "at token 27,540, in user[3]" */
export function differenceInWords({ token, message }) {
    return `at token ${format.exact(token)}${message ? `, in ${message}` : ''}`;
}
