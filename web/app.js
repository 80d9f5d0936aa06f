/*
 * app.js: the page: polls the admin API, each part at its own interval, and passes the answers to the modules that show them.
 *
 *      admin/stats       overview.js, tiers.js        admin/models       models.js, chat.js
 *      admin/requests    requests.js                  admin/cache/tree   tree.js
 *      admin/history     history.js
 *
 * There are two views: the chat (chat.js), and the server with everything else. A hidden page sends no requests, and a hidden view needs none. If the server does not answer, the page asks less often and says so.
 */
import { ask } from './api.js';
import { enterChat, setUpChat, showChatModels } from './chat.js';
import { showSnippets } from './connect.js';
import { needsKey, setUpDialogs, signedIn } from './dialogs.js';
import { $, announce, put, putAttribute } from './dom.js';
import { redrawHistory, setUpHistory, showHistory } from './history.js';
import { isChanging, setUpModels, showModels } from './models.js';
import { setUpOverview, showStats } from './overview.js';
import { setUpProbe } from './probe.js';
import { setUpRequests, showRequests } from './requests.js';
import { setUpTiers, showTiers } from './tiers.js';
import { setUpTree, showTree } from './tree.js';

const TICK_MS = 500, RETRY_MS = 2000;

const feeds = [
    { path: 'admin/stats', every_ms: 2000, show: (answer) => { countStats(answer); showStats(answer); showTiers(answer); } },
    { path: 'admin/models', every_ms: 5000, soon: isChanging, show: (answer) => { showModels(answer); showChatModels(answer); } },
    { path: 'admin/requests', every_ms: 1000, show: (answer) => { countRequests(answer); showRequests(answer); }, view: 'server' },
    { path: 'admin/history', every_ms: 5000, show: showHistory, view: 'server' },
    { path: 'admin/cache/tree', every_ms: 10000, show: showTree, view: 'server' },
].map((feed) => ({ ...feed, due: 0, busy: false, error: null }));

/* ---- asking ---- */

let locked = true; /* until the first answer, and while the page asks for a key */

/* One failure is enough to show it: that part of the page is out of date. */
function showLink() {
    const error = feeds.filter(({ view }) => (view ?? document.body.dataset.view) === document.body.dataset.view).map((feed) => feed.error).find(Boolean);
    const link = $('link');
    if (locked && error && needsKey()) {
        put(link, 'key needed');
        putAttribute(link, 'data-state', 'wait');
    } else {
        if (error && link.dataset.state === 'ok') announce(error.message);
        put(link, !error ? 'live' : error.status === 0 ? 'no connection' : error.message);
        putAttribute(link, 'data-state', error ? 'bad' : 'ok');
    }
}

/* True when there was an answer. */
async function renew(feed) {
    feed.busy = true;
    try {
        const answer = await ask(feed.path);
        feed.error = null;
        feed.due = performance.now() + (feed.soon?.(answer) ? TICK_MS : feed.every_ms);
        feed.show(answer);
    } catch (error) {
        if (error.status === undefined) throw error; /* a bug of this page, not a failed request */
        feed.error = error;
        feed.due = performance.now() + RETRY_MS;
        locked ||= needsKey();
    } finally {
        feed.busy = false;
    }
    showLink();
    return !feed.error;
}

function tick() {
    if (locked || document.hidden) return;
    const view = document.body.dataset.view;
    for (const feed of feeds) if (!feed.busy && (feed.view ?? view) === view && performance.now() >= feed.due) renew(feed);
}

function renewAll() {
    for (const feed of feeds) feed.due = 0;
    tick();
}

/* The first request shows whether a key is needed, and whether this one is right. It is repeated until the server answers. */
async function begin() {
    if (await renew(feeds[0])) {
        locked = false;
        signedIn();
        showSnippets();
        renewAll();
    } else if (!needsKey()) {
        setTimeout(begin, RETRY_MS);
    }
}

/* ---- views ---- */

const VIEW_SLOT = 'hearth.view';

/* The address says which; else the last one, or the chat if no request has come yet. */
function chooseView(stats) {
    if (document.body.dataset.view) return;
    const last = localStorage.getItem(VIEW_SLOT) ?? (stats.session.requests === 0 ? 'chat' : 'server');
    showView(location.hash ? viewOf(location.hash) : last);
}

const viewOf = (hash) => (hash === '#chat' ? 'chat' : 'server');

function showView(view) {
    document.body.dataset.view = view;
    for (const section of $('main').children) if (section.id !== 'welcome') section.hidden = (section.id === 'chat') !== (view === 'chat');
    for (const link of document.querySelectorAll('.views a')) putAttribute(link, 'aria-current', String(viewOf(link.hash) === view ? 'page' : false));
    if (view === 'chat') enterChat();
    else redrawHistory();
    showWelcome();
    tick();
}

/* The browser has looked for the place before its view was shown. */
function onHash() {
    if (location.hash === '#main') return;
    const view = viewOf(location.hash);
    localStorage.setItem(VIEW_SLOT, view);
    if (view !== document.body.dataset.view) {
        showView(view);
        if (view === 'server') document.querySelector(location.hash || '#overview')?.scrollIntoView();
    }
}

/* ---- before the first request ---- */

let empty = false, past = 0, now = 0; /* requests that ended, in all runs; those that run */

/* Explanations and Connect instead of zeros. */
function showWelcome() {
    const server = document.body.dataset.view === 'server';
    $('welcome').hidden = !(empty && server);
    if (server) for (const id of ['overview', 'requests', 'cache', 'probe']) $(id).hidden = empty;
    if (empty) $('welcome').after($('connect'));
    else $('main').append($('connect'));
    for (const link of document.querySelectorAll('.sections a')) link.hidden = empty && !['#models', '#connect'].includes(link.hash);
}

function renewWelcome() {
    if (empty === (past + now === 0)) return;
    empty = past + now === 0;
    showWelcome();
}

function countStats(stats) {
    past = Math.max(stats.session.requests, stats.all_time.requests);
    chooseView(stats);
    renewWelcome();
}

function countRequests({ requests, recent }) {
    now = requests.length + recent.length;
    renewWelcome();
}

/* ---- the theme ---- */

const THEMES = ['auto', 'light', 'dark'];
const WORDS = { auto: 'same as system', light: 'light', dark: 'dark' };

function showTheme(theme) {
    put($('theme'), `◐ ${theme[0].toUpperCase()}${theme.slice(1)}`);
    putAttribute($('theme'), 'aria-label', `Theme: ${WORDS[theme]}`);
    redrawHistory();
}

function setUpTheme() {
    const root = document.documentElement;
    $('theme').addEventListener('click', () => {
        const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? 'auto') + 1) % THEMES.length];
        if (next === 'auto') {
            delete root.dataset.theme;
            localStorage.removeItem('hearth.theme');
        } else {
            root.dataset.theme = next;
            localStorage.setItem('hearth.theme', next);
        }
        showTheme(next);
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawHistory);
    showTheme(root.dataset.theme ?? 'auto');
}

setUpTheme();
setUpOverview();
setUpRequests();
setUpTiers(renewAll);
setUpModels(renewAll);
setUpTree();
setUpProbe();
setUpDialogs(begin);
setUpChat();
addEventListener('hashchange', onHash);
showSnippets();
await setUpHistory();
document.addEventListener('visibilitychange', tick);
setInterval(tick, TICK_MS);
begin();
