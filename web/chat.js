/*
 * chat.js: the chat: the list of conversations, the open panes, and everything that a person does in them.
 *
 * Answers belong to conversations, not to panes: one that is being written goes on while another conversation is open. A conversation is saved
 * when a message was added, and at most once a second while an answer comes.
 */
import { ask } from './api.js';
import * as conversation from './conversation.js';
import { confirm } from './dialogs.js';
import { $, announce, copyFor, h, iconButton, put, putAttribute, sync } from './dom.js';
import * as format from './format.js';
import { editMessage, insertExamples, makePane, renewPane, resultsOf, settingsOf, showProblem, takeText } from './pane.js';
import { complete } from './stream.js';
import { exampleTools } from './tools.js';

const PANES_MAX = 3, PANE_PX = 420, SAVE_MS = 1000, OPEN_SLOT = 'hearth.panes';

let all = [], open = [], models = []; /* conversations, those that are shown, the server's models */
const running = new Map(); /* by conversation: its answer, and how to stop it */
const vision = new Map(); /* by model: whether it takes pictures */

const paneOf = (one) => $('panes').querySelector(`[data-key="${one.id}"]`);
const modelOf = (one) => models.find(({ id }) => id === one.model) ?? models.find((model) => model.default) ?? models[0];

/* ---- showing ---- */

function renewList() {
    const listed = all.filter(({ nodes }) => nodes.length > 0);
    sync($('conversations'), listed, ({ id }) => id,
        (one) => h('li', {}, h('button', { type: 'button', class: 'title', 'data-do': 'open' }),
            iconButton('beside', 'Open beside', { 'data-do': 'beside', class: 'quiet round only-large' }), iconButton('remove', 'Delete', { 'data-do': 'delete' })),
        (row, one) => {
            const title = row.querySelector('.title');
            put(title, conversation.titleOf(one));
            putAttribute(title, 'aria-current', String(open.includes(one)));
            row.classList.toggle('running', running.has(one.id));
        });
    $('conversations-none').hidden = listed.length > 0;
}

function renewPanes() {
    sync($('panes'), open, ({ id }) => id, makePane, (pane, one) => renewPane(pane, {
        conversation: one, models, several: open.length > 1, running: running.get(one.id)?.node ?? null, vision: vision.get(modelOf(one)?.id) ?? false,
    }));
    putAttribute($('panes'), 'data-count', String(open.length));
}

let drawing = false;

/* At most once per frame. */
function renew() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => {
        drawing = false;
        renewList();
        renewPanes();
    });
}

function keep(one) {
    if (!conversation.save(one)) announce('This browser has no room left for conversations: delete one.');
}

/* ---- which are open ---- */

const room = () => Math.max(1, Math.min(PANES_MAX, Math.floor($('panes').clientWidth / PANE_PX)));

function setOpen(list) {
    open = list;
    const stored = open.filter(({ nodes }) => nodes.length > 0).map(({ id }) => id);
    if (stored.length) localStorage.setItem(OPEN_SLOT, JSON.stringify(stored));
    else localStorage.removeItem(OPEN_SLOT);
    $('chat').classList.remove('listing');
    renewList();
    renewPanes();
}

/* In place of the pane with the focus, or the last one. */
function openHere(one) {
    const focused = open.findIndex((other) => paneOf(other)?.contains(document.activeElement));
    const at = focused >= 0 ? focused : open.length - 1;
    if (!open.includes(one)) setOpen(open.length ? open.map((other, i) => (i === at ? one : other)) : [one]);
    else setOpen(open);
    paneOf(one).querySelector('.composer textarea').focus();
}

function openBeside(one) {
    const others = open.filter((other) => other !== one);
    setOpen([...others.slice(Math.max(0, others.length - room() + 1)), one]);
    paneOf(one).querySelector('.composer textarea').focus();
}

function add(one) {
    all.unshift(one);
    return one;
}

/* An empty one is used before another is made. */
function openNew() {
    openHere(all.find(({ nodes }) => nodes.length === 0) ?? add(conversation.create(open[0])));
}

async function removeOne(one) {
    if (!await confirm('Delete this conversation?', `"${conversation.titleOf(one)}" is removed from this browser. The server's cache is not changed.`, 'Delete')) return;
    running.get(one.id)?.controller.abort();
    conversation.remove(one);
    all = all.filter((other) => other !== one);
    const rest = open.filter((other) => other !== one);
    setOpen(rest.length ? rest : [all[0] ?? add(conversation.create(one))]);
    announce('Deleted.');
}

/* ---- answering ---- */

/* Where the edited message leaves the earlier one, as the server sees both. */
async function findDivergence(one, node) {
    try {
        const body = { ...conversation.promptOf(one, node.id), against: conversation.promptOf(one, node.instead) };
        const { first_difference: found } = await ask('admin/cache/probe', body);
        node.diverged = found ? { token: found.token, message: found.message, before: conversation.nodeOf(one, node.instead).content, after: node.content } : undefined;
    } catch {
        node.diverged = undefined; /* only a help for the eye */
    }
}

function announceEnd({ stats, error, finish }) {
    if (error) announce(`The answer failed: ${error}`);
    else announce(`Answer ${finish === 'stopped' ? 'stopped' : 'finished'}.${stats ? ` ${format.exact(stats.prompt - stats.tokens.computed)} of ${format.exact(stats.prompt)} prompt tokens reused.` : ''}`);
}

/* Answers the last message of the path. */
async function answer(one) {
    const asked = conversation.nodeOf(one, one.leaf), controller = new AbortController();
    const request = conversation.requestOf(one, one.leaf);
    const node = conversation.append(one, one.leaf, { role: 'assistant', content: '', reasoning: '', calls: [], finish: null, progress: null, stats: null });
    let saved = performance.now();
    running.set(one.id, { controller, node });
    keep(one);
    renew();
    try {
        await complete(request, node, {
            signal: controller.signal,
            changed: () => {
                if (performance.now() - saved > SAVE_MS) {
                    saved = performance.now();
                    keep(one);
                }
                renew();
            },
        });
        if (asked.instead) await findDivergence(one, asked);
    } catch (error) {
        if (error.status === undefined) throw error; /* a bug of this page */
        node.error = error.message;
        node.finish = 'error';
    } finally {
        running.delete(one.id);
        if (all.includes(one)) keep(one);
        renew();
    }
    announceEnd(node);
}

/* Adds a message, if the settings allow to send it, and answers. */
function say(one, parent, messages) {
    const pane = paneOf(one);
    try {
        conversation.toolsOf(one);
    } catch (error) {
        showProblem(pane, `The tools in the settings are not valid JSON: ${error.message}`);
        return;
    }
    showProblem(pane, '');
    for (const message of messages) parent = conversation.append(one, parent, message).id;
    setOpen(open); /* an empty one was not noted yet */
    all = [one, ...all.filter((other) => other !== one)];
    pane.querySelector('.log').scrollTop = 1e9;
    answer(one);
}

/* ---- what a person does ---- */

function step(one, node, by) {
    const siblings = conversation.siblingsOf(one, node);
    conversation.show(one, siblings[siblings.indexOf(node) + by]);
    keep(one);
}

function edit(one, element, node) {
    editMessage(element, node, (content) => {
        if (content && content !== node.content) say(one, node.parent, [{ role: 'user', content, images: node.images, instead: node.id }]);
    });
}

function again(one, node) {
    one.leaf = node.parent;
    answer(one);
}

function branch(one, node) {
    const copy = add(conversation.branch(one, node));
    keep(copy);
    (room() > 1 ? openBeside : openHere)(copy);
    announce('Branched into a new conversation.');
}

function toggleSettings(pane, button) {
    const form = pane.querySelector('.settings');
    form.hidden = !form.hidden;
    putAttribute(button, 'aria-expanded', String(!form.hidden));
    if (!form.hidden) form.elements.system.focus();
}

const actions = {
    edit: ({ one, node, message }) => edit(one, message, node),
    again: ({ one, node }) => again(one, node),
    branch: ({ one, node }) => branch(one, node),
    copy: ({ node, button }) => copyFor(button, node.content),
    previous: ({ one, node }) => step(one, node, -1),
    next: ({ one, node }) => step(one, node, 1),
    stop: ({ one }) => running.get(one.id)?.controller.abort(),
    say: ({ one, button }) => say(one, null, [{ role: 'user', content: button.dataset.words }]),
    'say-tools': ({ one, button }) => {
        one.tools ||= exampleTools;
        say(one, null, [{ role: 'user', content: button.dataset.words }]);
    },
    settings: ({ pane, button }) => toggleSettings(pane, button),
    examples: ({ one, pane }) => {
        insertExamples(pane.querySelector('.settings'), one);
        keep(one);
    },
    close: ({ one }) => setOpen(open.filter((other) => other !== one)),
    list: () => {
        $('chat').classList.add('listing');
        $('new-chat').focus();
    },
};

function onClick(event) {
    const button = event.target.closest('[data-do]'), pane = button?.closest('.pane');
    if (!pane || button.disabled) return;
    const one = all.find(({ id }) => id === pane.dataset.key), message = button.closest('.message');
    actions[button.dataset.do]({ one, pane, button, message, node: message ? conversation.nodeOf(one, message.dataset.key) : null });
    renew();
}

function onSubmit(event) {
    const pane = event.target.closest('.pane'), one = all.find(({ id }) => id === pane.dataset.key);
    event.preventDefault();
    if (running.has(one.id)) return;
    if (event.target.matches('.composer')) {
        const message = takeText(event.target);
        if (message) say(one, one.leaf, [message]);
    } else if (event.target.matches('.results')) {
        const { calls } = conversation.nodeOf(one, one.leaf);
        say(one, one.leaf, resultsOf(event.target).map((content, i) => ({ role: 'tool', call: calls[i].id, content })));
        pane.querySelector('.composer textarea').focus();
    }
}

/* Enter sends, Escape stops, and the arrow up in an empty box edits the last message. */
function onKey(event) {
    const pane = event.target.closest('.pane'), one = pane && all.find(({ id }) => id === pane.dataset.key);
    if (!one) return;
    if (event.key === 'Escape' && running.has(one.id)) running.get(one.id).controller.abort();
    if (!event.target.matches('.composer textarea')) return;
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        event.target.form.requestSubmit();
    } else if (event.key === 'ArrowUp' && event.target.value === '' && !running.has(one.id)) {
        const last = conversation.pathOf(one).findLast(({ role }) => role === 'user');
        if (!last) return;
        event.preventDefault();
        edit(one, pane.querySelector(`.message[data-key="${last.id}"]`), last);
    }
}

function onChange(event) {
    const pane = event.target.closest('.pane'), one = pane && all.find(({ id }) => id === pane.dataset.key);
    if (event.target.matches('.model-choice')) one.model = event.target.value;
    else if (event.target.closest('.settings')) Object.assign(one, settingsOf(event.target.form));
    else return;
    if (one.nodes.length) keep(one);
    lookForVision();
    renew();
}

function onListClick(event) {
    const button = event.target.closest('[data-do]'), one = all.find(({ id }) => id === button?.closest('li').dataset.key);
    if (!one) return;
    ({ open: openHere, beside: openBeside, delete: removeOne })[button.dataset.do](one);
}

/* ---- life ---- */

/* The button for pictures is shown only if the model takes them. */
async function lookForVision() {
    for (const id of new Set(open.map((one) => modelOf(one)?.id).filter(Boolean))) {
        if (vision.has(id)) continue;
        const props = await ask(`props?model=${encodeURIComponent(id)}`).catch(() => null);
        if (props?.modalities) vision.set(id, props.modalities.vision === true);
    }
    renew();
}

export function showChatModels(answer_) {
    models = answer_.models;
    if (open.length) lookForVision();
}

/* Another tab has changed a conversation. */
function onStorage({ key }) {
    if (key !== null && !conversation.isSlot(key)) return;
    const mine = new Map(all.map((one) => [one.id, one]));
    all = conversation.loadAll().map((one) => (running.has(one.id) ? mine.get(one.id) : one));
    const known = new Map(all.map((one) => [one.id, one]));
    setOpen(open.map((one) => known.get(one.id) ?? add(one)));
}

/* The chat is shown: the text box gets the focus. */
export function enterChat() {
    renewPanes();
    for (const log of document.querySelectorAll('.log')) log.scrollTop = log.scrollHeight;
    if (matchMedia('(pointer: fine)').matches) paneOf(open[0])?.querySelector('.composer textarea').focus({ preventScroll: true });
}

export function setUpChat() {
    const panes = $('panes');
    all = conversation.loadAll();
    const saved = JSON.parse(localStorage.getItem(OPEN_SLOT) ?? '[]').map((id) => all.find((one) => one.id === id)).filter(Boolean);
    panes.addEventListener('click', onClick);
    panes.addEventListener('submit', onSubmit);
    panes.addEventListener('keydown', onKey);
    panes.addEventListener('change', onChange);
    $('conversations').addEventListener('click', onListClick);
    $('new-chat').addEventListener('click', openNew);
    $('list-close').addEventListener('click', () => $('chat').classList.remove('listing'));
    $('sidebar').addEventListener('keydown', (event) => { if (event.key === 'Escape') $('chat').classList.remove('listing'); });
    addEventListener('storage', onStorage);
    setOpen(saved.length ? saved.slice(0, PANES_MAX) : [all[0] ?? add(conversation.create())]);
}
