/*
 * requests.js: running and recent requests, and why tokens were computed.
 */
import { $, h, put, putAttribute, sync } from './dom.js';
import * as format from './format.js';
import { bar, differenceInWords, reasonHelp, reasonOfRecent, reasonTitle, renewBar } from './sources.js';

const PHASES = {
    queued: 'queued', deferred: 'waiting for room', lookup: 'looking up', restore: 'restoring', prefill: 'prefill', decode: 'generating',
};

/* ---- live ---- */

function makeLive(request) {
    return h('li', { class: 'card' },
        h('div', { class: 'head' }, h('h3', {}, request.model), h('span', { class: 'badge phase' }), h('code', { class: 'muted' }, String(request.id))),
        h('div', { class: 'progress', role: 'progressbar', 'aria-label': `Prompt of request ${request.id}`, 'aria-valuemin': '0' }),
        h('p', { class: 'muted words' }));
}

function liveInWords(request, done) {
    const words = [`${format.exact(done)} of ${format.exact(request.prompt_tokens)} tokens`];
    if (request.cached_tokens > 0) words.push(`${format.exact(request.cached_tokens)} reused`);
    if (request.generated_tokens > 0) words.push(`${format.exact(request.generated_tokens)} generated`);
    if (request.tokens_per_s > 0) words.push(format.speed(request.tokens_per_s));
    if (Number.isFinite(request.eta_s) && request.eta_s !== null) words.push(`${format.duration(request.eta_s)} left`);
    words.push(`for ${format.age(request.age_s)}`);
    if (request.tenant) words.push(request.tenant);
    return words.join(' · ');
}

function renewLive(element, request) {
    const done = Math.min(request.cached_tokens + request.computed_tokens, request.prompt_tokens);
    const progress = element.querySelector('.progress'), badge = element.querySelector('.phase');
    put(badge, PHASES[request.phase] ?? request.phase);
    putAttribute(badge, 'data-state', request.phase === 'decode' || request.phase === 'prefill' ? 'ok' : 'wait');
    renewBar(progress, { ...request.tokens, computed: request.computed_tokens }, Math.max(request.prompt_tokens, 1));
    putAttribute(progress, 'aria-label', `Prompt of request ${request.id}`);
    putAttribute(progress, 'aria-valuemax', String(request.prompt_tokens));
    putAttribute(progress, 'aria-valuenow', String(done));
    put(element.querySelector('.words'), liveInWords(request, done));
}

/* ---- recent ---- */

const cell = (label, ...children) => h('td', { 'data-label': label }, ...children);
const CLIENT_LEFT = 499, RECENT_SHOWN = 10;

/* The position is shown only if tokens follow it. */
function whyOf(request) {
    const { first_difference: token, message, prompt_tokens, later_snapshot: later } = request, reason = reasonOfRecent(request);
    const place = reason !== 'none' && token < prompt_tokens ? ` ${differenceInWords({ token, message })}` : '';
    return [h('span', { title: reasonHelp(reason, later) }, reasonTitle(reason)), place ? h('small', { class: 'muted' }, place) : null];
}

function endOf(status) {
    if (status === 200) return h('span', { class: 'badge', 'data-state': 'ok' }, 'ok');
    return h('span', { class: 'badge', 'data-state': 'bad' }, status === CLIENT_LEFT ? 'client disconnected' : `error ${status}`);
}

/* "claude-cli/2.1.325 (external, cli)" is claude-cli 2.1.325; a browser calls itself Mozilla and names itself later. */
function clientOf(agent) {
    if (!agent) return '';
    if (agent.startsWith('Mozilla/')) return agent.match(/(Firefox|Edg|Chrome|Safari)/)?.[1].replace('Edg', 'Edge') ?? 'Browser';
    return agent.split(' ')[0].replace('/', ' ');
}

/* The first words are there for a local user of a server without keys. */
function requestOf({ words, client, model }) {
    const name = clientOf(client);
    return h('td', { class: 'request', 'data-label': 'Request' },
        words ? h('span', { class: 'first-words', title: words }, words) : null,
        h('small', { class: 'muted', title: client ?? '' }, [name, model].filter(Boolean).join(' · ')));
}

function answerOf({ generated_tokens: tokens, tokens_per_s: speed }) {
    return h('td', { class: 'number', 'data-label': 'Answer' }, format.exact(tokens),
        speed > 0 ? h('small', { class: 'muted' }, ` ${format.speed(speed)}`) : null);
}

function makeRecent(request) {
    return h('tr', {},
        cell('When', h('time', { datetime: new Date(request.when * 1000).toISOString() }, format.clock(request.when))),
        requestOf(request),
        h('td', { class: 'number', 'data-label': 'Prompt', 'data-value': String(request.prompt_tokens) }, format.exact(request.prompt_tokens)),
        cell('From', bar(request.tokens, Math.max(request.prompt_tokens, 1))),
        h('td', { class: 'why', 'data-label': 'Why' }, ...whyOf(request)),
        h('td', { class: 'number', 'data-label': 'First token', title: request.compute_s > request.ttft_s && request.tokens.computed < request.prompt_tokens ? `about ${format.duration(request.compute_s)} without the cache` : '' }, request.ttft_s > 0 ? format.duration(request.ttft_s) : '–'),
        answerOf(request),
        h('td', { class: 'number', 'data-label': 'Took' }, format.duration(request.seconds)),
        cell('Ended', endOf(request.status)));
}

/* The answers of one request (n > 1) share its id. */
function numbered(requests) {
    const seen = new Map();
    return requests.map((request) => {
        const nth = seen.get(request.id) ?? 0;
        seen.set(request.id, nth + 1);
        return { ...request, key: `${request.id}/${nth}` };
    });
}

let all = false, ended = [];

function renewRecent() {
    const button = $('recent-all');
    sync($('recent').tBodies[0], all ? ended : ended.slice(0, RECENT_SHOWN), ({ id }) => id, makeRecent);
    $('recent').hidden = ended.length === 0;
    $('recent-none').hidden = ended.length > 0;
    button.hidden = ended.length <= RECENT_SHOWN;
    put(button, all ? 'Show fewer' : `Show all ${ended.length}`);
    putAttribute(button, 'aria-expanded', String(all));
}

export function showRequests({ requests, recent }) {
    sync($('live'), numbered(requests), ({ key }) => key, makeLive, renewLive);
    $('live-none').hidden = requests.length > 0;
    put($('live-count'), requests.length ? `${requests.length} running` : '');
    ended = [...recent].sort((a, b) => b.when - a.when);
    renewRecent();
}

export function setUpRequests() {
    $('recent-all').addEventListener('click', () => {
        all = !all;
        renewRecent();
    });
}
