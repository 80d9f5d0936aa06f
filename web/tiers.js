/*
 * tiers.js: size and activity of the attached tiers, and clearing them after a confirmation.
 */
import { ask } from './api.js';
import { confirm } from './dialogs.js';
import { $, announce, h, put, putAttribute, sync } from './dom.js';
import * as format from './format.js';

const TITLES = { device: 'Device', ram: 'RAM', ssd: 'SSD', remote: 'Shared store' };
const STATES = { ok: 'ok', degraded: 'bad', read_only: 'bad' };

const FACTS = [
    ['Objects', (tier) => format.count(tier.objects)],
    ['Hits', (tier) => format.count(tier.hits)],
    ['Stored', (tier) => format.count(tier.stores)],
    ['Evicted', (tier) => format.count(tier.evictions)],
    ['Read', (tier) => format.bytes(tier.read_bytes)],
    ['Written', (tier) => format.bytes(tier.written_bytes)],
    ['Errors', (tier) => format.exact(tier.errors)],
    ['Written today', (tier) => format.bytes(tier.written_today)],
    ['Writes accepted', (tier) => format.exact(tier.accepted)],
    ['Writes queued', (tier) => format.exact(tier.queued)],
    ['Writes failed', (tier) => format.exact(tier.failed)],
];
/* The device is neither read nor written; only a disk has a daily budget. */
const FACTS_OF = { device: 4, ram: 7 };

let changed = () => {};

/* One model that fails does not stop the others (I39), so the result names both. */
function clearedInWords(title, { cleared, device_tokens, failed }) {
    const amounts = [cleared > 0 || !(device_tokens > 0) ? format.bytes(cleared) : '', device_tokens > 0 ? `${format.exact(device_tokens)} tokens` : ''];
    const rest = failed?.length ? ` Not cleared: ${failed.map(({ model, message }) => `${model} (${message})`).join(', ')}.` : '';
    return `Cleared ${title}: ${amounts.filter(Boolean).join(' and ')}.${rest}`;
}

async function clear(tier, title) {
    const sure = await confirm(`Clear ${title}?`, (tier === 'all' ? 'Deletes everything in all tiers. Prompts' : 'Deletes everything in this tier. Prompts not stored elsewhere') +
        ' will be recomputed. Running requests are not affected.', 'Clear');
    if (!sure) return;
    let result;
    try {
        result = clearedInWords(title, await ask('admin/cache/clear', { tier }));
    } catch (error) {
        result = `Not cleared: ${error.message}`;
    }
    announce(result);
    put($('cleared'), result);
    changed();
}

function makeTier(tier) {
    const title = TITLES[tier.tier] ?? tier.tier;
    const button = h('button', { class: 'danger', type: 'button', 'data-clear': tier.tier, onclick: () => clear(tier.tier, title) }, `Clear ${title} …`);
    return h('li', { class: 'card tier' },
        h('div', { class: 'head' }, h('h3', {}, title), h('span', { class: 'badge' }), button),
        h('p', { class: 'used' }, h('b', {}), h('span', { class: 'muted' })),
        h('div', { class: 'gauge', role: 'meter', 'aria-label': `${title} used`, 'aria-valuemin': '0' }, h('span', { class: `source-${tier.tier}` })),
        h('dl', { class: 'pairs' }, ...FACTS.slice(0, FACTS_OF[tier.tier]).map(([name]) => h('div', {}, h('dt', {}, name), h('dd', {})))),
        ...(tier.servers ? [h('ul', { class: 'servers' }), h('p', { class: 'muted counts' })] : []));
}

const BREAKERS = { closed: 'in use', open: 'not asked: it failed', 'half-open': 'being tried again' };

/* Servers of a shared store, and what it has refused, lost or falsified (shared_counts, docs/fleet.md). */
function renewServers(element, { servers, counts }) {
    const sum = (...names) => format.exact(names.reduce((all, name) => all + (counts[name] ?? 0), 0));
    sync(element.querySelector('.servers'), servers, ({ server }) => server, () => h('li', {}), (row, { server, breaker, failures, opened, round_trip_ms }) => {
        putAttribute(row, 'data-breaker', breaker);
        put(row, `${server}: ${BREAKERS[breaker] ?? breaker}` + (round_trip_ms > 0 ? `, ${format.duration(round_trip_ms / 1000)}` : '') +
            (failures > 0 ? `, ${format.exact(failures)} failures, opened ${format.exact(opened)} times` : ''));
    });
    put(element.querySelector('.counts'), `Not written: ${sum('refused_queue', 'refused_share', 'refused_tenant', 'refused_down', 'refused_full', 'displaced', 'lost')}. ` +
        `False or lost: ${sum('pages_damaged', 'heads_damaged', 'parts_damaged', 'parts_missing')}. Known to be empty: ${sum('pages_skipped')}.`);
}

function renewTier(element, tier) {
    const badge = element.querySelector('.badge'), gauge = element.querySelector('.gauge'), used = element.querySelector('.used b');
    put(badge, tier.state.replaceAll('_', ' '));
    putAttribute(badge, 'data-state', STATES[tier.state] ?? 'off');
    put(used, format.bytes(tier.used));
    putAttribute(used, 'data-value', String(tier.used));
    put(element.querySelector('.used span'), tier.cap > 0 ? ` of ${format.bytes(tier.cap)}` : '');
    gauge.hidden = !(tier.cap > 0);
    putAttribute(gauge, 'aria-valuemax', String(tier.cap));
    putAttribute(gauge, 'aria-valuenow', String(tier.used));
    putAttribute(gauge, 'aria-valuetext', `${format.bytes(tier.used)} of ${format.bytes(tier.cap)}`);
    gauge.firstChild.style.width = `${tier.cap > 0 ? Math.min(100, (100 * tier.used) / tier.cap) : 0}%`;
    element.querySelectorAll('dd').forEach((value, i) => put(value, FACTS[i][1](tier)));
    if (tier.servers) renewServers(element, tier);
}

function renewMemory(memory) {
    put($('memory'), memory && memory.ceiling_bytes > 0
        ? `Memory ${format.bytes(memory.used_bytes)} of ${format.bytes(memory.ceiling_bytes)}, ${memory.level}` +
            (memory.device_total_bytes > 0 ? `; GPU ${format.bytes(memory.device_used_bytes)} of ${format.bytes(memory.device_total_bytes)}` : '') : '');
}

export function showTiers(stats) {
    const tiers = stats.tiers.filter(({ state }) => state !== 'off')
        .map((tier) => (tier.tier === 'remote' ? { ...tier, servers: stats.shared, counts: stats.shared_counts } : tier));
    sync($('tiers'), tiers, ({ tier }) => tier, makeTier, renewTier);
    renewMemory(stats.memory);
}

/* `fn` is called after a tier was cleared. */
export function setUpTiers(fn) {
    changed = fn;
    $('clear-all').addEventListener('click', () => clear('all', 'all tiers'));
}
