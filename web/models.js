/*
 * models.js: the models, their memory and TTL, and the features of each (I48: a feature that is not supported says so).
 */
import { ask } from './api.js';
import { $, announce, h, put, putAttribute, sync } from './dom.js';
import * as format from './format.js';
import { measure } from './measure.js';

/* The names are those of enum pool_state. */
const STATES = { ready: ['ok', 'ready'], loading: ['wait', 'loading'], unloading: ['wait', 'unloading'], failed: ['bad', 'failed'], dead: ['bad', 'no engine'], known: ['off', 'not loaded'] };

/* What a model can do, for people who have not read docs/admin.md. */
const FEATURES = { reuse: 'Reuses prompts', partial_reuse: 'Reuses to the last token', exact: 'Bit-exact mode', tools: 'Calls tools', thinking: 'Thinks' };

const FACTS = [
    ['Memory', (model) => (model.memory_bytes > 0 ? format.bytes(model.memory_bytes) : '–')],
    ['GPU memory', (model) => (model.device_bytes > 0 ? format.bytes(model.device_bytes) : '–')],
    ['File', (model) => format.bytes(model.bytes)],
    ['Context', (model) => (model.context > 0 ? `${format.exact(model.context)} tokens` : '–')],
    ['Draft model', (model) => model.draft_model ?? '–'],
    ['Requests', (model) => format.exact(model.requests)],
    ['Stays', (model) => stays(model)],
];

let changed = () => {};

function stays(model) {
    if (model.pinned) return 'pinned';
    if (!(model.ttl_s > 0)) return 'until memory runs low';
    const left = Math.max(0, model.ttl_s - (model.idle_s ?? 0));
    return model.idle_s > 0 ? `${format.age(left)} of ${format.age(model.ttl_s)} left` : format.age(model.ttl_s);
}

function makeModel(model) {
    return h('li', { class: 'card model' },
        h('div', { class: 'head' }, h('h3', {}, model.id), h('span', { class: 'badge state' })),
        h('div', { class: 'model-buttons' }, ...['load', 'unload'].map((what) =>
            h('button', { type: 'button', class: 'quiet', 'data-do': what, onclick: () => change(model.id, what) }, what === 'load' ? 'Load' : 'Unload')),
        h('button', { type: 'button', class: 'quiet', 'data-do': 'measure', onclick: (event) => measureHere(event.target, model.id) }, 'Measure speed')),
        h('div', { class: 'measured', role: 'status' }),
        h('p', { class: 'chips' }),
        h('p', { class: 'error' }),
        h('dl', { class: 'pairs' }, ...FACTS.map(([title]) => h('div', {}, h('dt', {}, title), h('dd', {})))),
        h('ul', { class: 'features', 'aria-label': `Features of ${model.id}` }));
}

/* The state that follows is shown by the next answer. */
async function change(id, what) {
    try {
        await ask(`v1/models/${id.split('/').map(encodeURIComponent).join('/')}/${what}`, {});
        announce(what === 'load' ? `Loading ${id}.` : `Unloading ${id}.`);
        changed();
    } catch (error) {
        announce(error.message);
        const card = [...document.querySelectorAll('.model')].find(({ dataset }) => dataset.key === id);
        card?.querySelector('.measured').replaceChildren(h('p', { class: 'error' }, error.message));
    }
}

async function measureHere(button, id) {
    const place = button.closest('.model').querySelector('.measured');
    button.disabled = true;
    try {
        await measure(id, place);
    } finally {
        button.disabled = false;
        changed();
    }
}

function renewButtons(element, { state }) {
    element.querySelector('[data-do=load]').hidden = !['known', 'failed'].includes(state);
    element.querySelector('[data-do=unload]').hidden = !['ready', 'dead'].includes(state);
    element.querySelector('[data-do=measure]').hidden = state !== 'ready';
}

function renewModel(element, model) {
    renewButtons(element, model);
    const badge = element.querySelector('.state');
    const [mark, word] = STATES[model.state] ?? ['off', model.state];
    const state = model.state === 'loading' && model.progress > 0 ? `${word} ${format.percent(model.progress)}` : word;
    put(badge, model.default ? `${state}, default` : state);
    putAttribute(badge, 'data-state', mark);
    put(element.querySelector('.error'), model.error ? `${model.error}. ${model.state === 'dead' ? 'Its engine is restarted every half minute.' : 'Correct that, then press Load.'}` : '');
    sync(element.querySelector('.chips'), model.kinds ?? [], (kind) => kind, (kind) => h('span', { class: 'chip' }, kind));
    const values = element.querySelectorAll(':scope > dl dd'); /* not those of a measurement */
    FACTS.forEach(([, show], i) => {
        const text = show(model);
        put(values[i], text);
        values[i].parentElement.hidden = text === '–';
    });
    sync(element.querySelector('.features'), Object.entries(model.features ?? {}), ([name]) => name,
        ([name]) => h('li', {}, h('span', {}, FEATURES[name] ?? name.replaceAll('_', ' ')), h('b', {})),
        (row, [, value]) => {
            put(row.lastChild, value);
            putAttribute(row, 'data-state', value === 'ok' ? 'ok' : value.startsWith('N/A') ? 'bad' : 'off');
        });
}

/* Per model: what is cached, and what it saved. Tails are N/A where layers cannot be cut (I48). */
const tails = (model, show) => (model.cache.tails ? show(model.cache.tails) : 'N/A (see log)');
const CACHE = [
    ['Model', (model) => model.id],
    ['Objects', ({ cache }) => format.exact(cache.objects)],
    ['Snapshots', ({ cache }) => format.exact(cache.snapshots)],
    ['RAM', ({ cache }) => format.bytes(cache.bytes.ram)],
    ['SSD', ({ cache }) => format.bytes(cache.bytes.ssd)],
    ['Reused, 15 min', ({ cache }) => format.percent(cache.rates['15m'].hit_rate)],
    ['Evicted', ({ cache }) => format.exact(cache.evictions)],
    ['Tails', (model) => tails(model, ({ count, max_bytes }) => `${format.exact(count)}, at most ${format.bytes(max_bytes)}`)],
    ['Tail hits per tail', (model) => tails(model, ({ hit_rate }) => hit_rate.toFixed(2))],
    ['Tokens saved by tails', (model) => tails(model, ({ tokens_saved }) => format.exact(tokens_saved))],
];

function renewCaches(models) {
    const cached = models.filter(({ cache, features }) => cache && features.reuse === 'ok');
    const table = $('model-caches');
    table.hidden = cached.length === 0;
    sync(table.querySelector('thead tr'), CACHE, ([title]) => title, ([title]) => h('th', { scope: 'col', class: title === 'Model' ? '' : 'number' }, title));
    sync(table.querySelector('tbody'), cached, ({ id }) => id,
        () => h('tr', {}, ...CACHE.map(([title], i) => h('td', { class: i > 0 ? 'number' : '', 'data-label': title }))),
        (row, model) => CACHE.forEach(([, show], i) => put(row.children[i], show(model))));
}

/* The model list of the probe box follows. */
function renewChoice(models) {
    sync($('probe-model'), models, ({ id }) => id, ({ id }) => h('option', { value: id }, id));
}

export function showModels({ models }) {
    sync($('model-list'), models, ({ id }) => id, makeModel, renewModel);
    renewCaches(models);
    renewChoice(models);
}

/* A model is being loaded or unloaded: its progress is shown as it goes. */
export const isChanging = ({ models }) => models.some(({ state }) => STATES[state]?.[0] === 'wait');

/* `fn` is called after a model was loaded, unloaded or measured. */
export function setUpModels(fn) {
    changed = fn;
}
