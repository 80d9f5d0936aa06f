/*
 * overview.js: efficiency, tokens and time saved, why tokens were computed, and rates: all of /admin/stats but the tiers.
 */
import { $, h, put, putAttribute, sync } from './dom.js';
import * as format from './format.js';
import { SOURCES, reasonHelp, reasonTitle, renewBar, renewLegend } from './sources.js';

let stats = null;

const span = () => document.querySelector('input[name=span]:checked').value;

const speedOf = (tokens, seconds) => (seconds > 0 ? tokens / seconds : NaN);

function renewEfficiency(numbers) {
    const total = numbers.prompt_tokens, saved = total - numbers.tokens.computed;
    const efficiency = $('efficiency');
    put(efficiency, total > 0 ? format.percent(numbers.efficiency) : '–');
    putAttribute(efficiency, 'data-value', String(numbers.efficiency));
    put($('efficiency-words'), total > 0
        ? `${format.count(saved)} of ${format.count(total)} prompt tokens were reused.`
        : 'No requests yet.');
    renewBar($('sources-bar'), numbers.tokens, Math.max(total, 1));
    renewLegend($('sources'), numbers.tokens, total);
}

function factsOf(numbers) {
    const saved = numbers.prompt_tokens - numbers.tokens.computed;
    return [
        ['saved', 'Tokens saved', format.count(saved), saved],
        ['twice', 'Computed twice', `${format.count(numbers.computed_twice)} tokens`, numbers.computed_twice],
        ['saved_s', 'Time saved (est.)', format.duration(numbers.saved_s), numbers.saved_s],
        ['requests', 'Requests', format.count(numbers.requests), numbers.requests],
        ['generated', 'Tokens generated', format.count(numbers.generated_tokens), numbers.generated_tokens],
        ['prefill', 'Prefill speed', format.speed(speedOf(numbers.prefill_tokens, numbers.prefill_s))],
        ['decode', 'Generation speed', format.speed(speedOf(numbers.generated_tokens, numbers.decode_s))],
        ['drafts', 'Draft tokens accepted',
            `${format.count(numbers.draft_tokens_accepted)} of ${format.count(numbers.draft_tokens)}`, numbers.draft_tokens_accepted],
    ];
}

function renewFacts(numbers) {
    sync($('facts'), factsOf(numbers), ([id]) => id,
        ([, title]) => h('div', {}, h('dt', {}, title), h('dd', {})),
        (row, [, , text, value]) => {
            put(row.lastChild, text);
            if (value !== undefined) putAttribute(row.lastChild, 'data-value', String(value));
        });
}

function renewMisses(miss) {
    const rows = Object.entries(miss).filter(([, tokens]) => tokens > 0).sort((a, b) => b[1] - a[1]);
    const most = rows.length ? rows[0][1] : 1;
    $('miss-none').hidden = rows.length > 0;
    sync($('miss'), rows, ([name]) => name,
        ([name]) => h('li', { title: reasonHelp(name) },
            h('span', { class: 'name' }, reasonTitle(name)), h('b', {}), h('span', { class: 'track' }, h('span', {}))),
        (row, [, tokens]) => {
            put(row.querySelector('b'), format.count(tokens));
            putAttribute(row.querySelector('b'), 'data-value', String(tokens));
            row.querySelector('.track span').style.width = `${(100 * tokens) / most}%`;
        });
}

const RATES = [
    ['requests_per_s', 'Requests /min', (value) => (value * 60).toFixed(1)],
    ['prompt_tokens_per_s', 'Prompt tok/s', (value) => format.count(Math.round(value))],
    ['hit_rate', 'Reused', format.percent],
    ['stored_bytes_per_s', 'Stored /s', (value) => format.bytes(Math.round(value))],
    ['evicted_per_s', 'Evicted /s', (value) => value.toFixed(1)],
];

function renewRates(rates) {
    sync($('rates'), RATES, ([name]) => name,
        ([, title]) => h('tr', {}, h('th', { scope: 'row' }, title), h('td', {}), h('td', {}), h('td', {})),
        (row, [name, , show]) => ['1m', '5m', '15m'].forEach((window, i) => {
            const value = rates?.[window]?.[name];
            put(row.children[i + 1], Number.isFinite(value) ? show(value) : '–');
        }));
}

function renew() {
    if (!stats) return;
    const numbers = stats[span()];
    renewEfficiency(numbers);
    renewFacts(numbers);
    renewMisses(stats.miss);
    renewRates(stats.rates);
    put($('server'), `${stats.version} · up ${format.age(stats.uptime_s)}`);
}

export function showStats(answer) {
    stats = answer;
    renew();
}

export function setUpOverview() {
    for (const input of document.querySelectorAll('input[name=span]')) input.addEventListener('change', renew);
    const none = Object.fromEntries(SOURCES.map(({ name }) => [name, 0]));
    renewLegend($('sources'), none, 0);
}
