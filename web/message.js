/*
 * message.js: one message of a conversation: its text, its tool calls, and for an answer what was reused and how fast it was.
 *
 * Buttons carry data-do; the pane acts on them.
 */
import { h, icon, iconButton, put, putAttribute, sync } from './dom.js';
import * as format from './format.js';
import { renderMarkdown } from './markdown.js';
import { markedPair } from './probe.js';
import { differenceInWords, reasonHelp, reasonTitle, renewBar, renewLegend } from './sources.js';

const NAMES = { user: 'You', assistant: 'Answer', tool: 'Tool result' };
const ENDS = {
    length: 'The answer reached the longest length that the settings allow.', stopped: 'Stopped.', interrupted: 'The answer was interrupted.', error: 'The answer failed.',
};

const BUTTONS = {
    user: [['edit', 'edit', 'Edit'], ['branch', 'branch', 'Branch into a new conversation']],
    assistant: [['again', 'again', 'Answer again'], ['branch', 'branch', 'Branch into a new conversation']],
    tool: [],
};

/* ---- what was reused ---- */

function figuresOf({ tokens, prompt, ttft_s, speed, generated }) {
    const words = [`${format.exact(prompt - tokens.computed)} of ${format.exact(prompt)} tokens reused`, `${format.exact(tokens.computed)} computed`];
    if (ttft_s > 0) words.push(`first token after ${format.duration(ttft_s)}`);
    if (generated > 1 && speed > 0) words.push(format.speed(speed));
    return words.join(' · ');
}

/* "New text at token 34, in user[2]: the prompt continues beyond what is cached." */
function reasonOf({ reason, token, message, prompt }) {
    const place = reason !== 'none' && token < prompt ? ` ${differenceInWords({ token, message })}` : '';
    return `${reasonTitle(reason)}${place}. ${reasonHelp(reason)}`;
}

const makeReuse = () => h('details', { class: 'reuse' },
    h('summary', {}, h('div', { class: 'stack small', role: 'img' }), h('span', { class: 'figures' })),
    h('ul', { class: 'legend' }), h('p', { class: 'reason' }), h('p', { class: 'muted counts' }));

function renewReuse(element, stats) {
    element.hidden = !stats;
    if (!stats) return;
    renewBar(element.querySelector('.stack'), stats.tokens, Math.max(stats.prompt, 1));
    put(element.querySelector('.figures'), figuresOf(stats));
    renewLegend(element.querySelector('.legend'), stats.tokens, stats.prompt);
    put(element.querySelector('.reason'), reasonOf(stats));
    const drafts = stats.drafted > 0 ? `, ${format.exact(stats.accepted)} of ${format.exact(stats.drafted)} draft tokens accepted` : '';
    put(element.querySelector('.counts'), `${format.exact(stats.generated)} tokens generated${drafts}`);
}

const AROUND = 60; /* characters before a difference */

/* Where an edited message leaves the prefix that was computed before: the token as the server found it, the text without its template. */
function divergedOf(place) {
    let at = 0;
    while (at < place.before.length && place.before[at] === place.after[at]) at++;
    const around = (text) => `${at > AROUND ? '… ' : ''}${text.slice(Math.max(0, at - AROUND), at + 2 * AROUND)}`;
    const [have, want] = markedPair(around(place.before), around(place.after));
    return [h('p', {}, icon('branch'), `Diverges ${differenceInWords(place)}.`),
        h('pre', { class: 'have', 'aria-label': 'Before' }, ...have), h('pre', { class: 'want', 'aria-label': 'Now' }, ...want)];
}

/* ---- while it runs ---- */

function waitOf(node) {
    const progress = node.progress;
    if (!progress) return node.content || node.reasoning || node.calls?.length ? '' : 'Waiting …';
    const reused = progress.cache > 0 ? `, ${format.exact(progress.cache)} of them reused` : '';
    return `Reading the prompt: ${format.exact(progress.processed)} of ${format.exact(progress.total)} tokens${reused}`;
}

/* ---- tool calls ---- */

function pretty(text) {
    try {
        return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
        return text; /* still being written, or no JSON */
    }
}

const makeCall = () => h('li', {}, h('b', {}), h('pre', { tabindex: '0', 'aria-label': 'Arguments' }));

function renewCall(element, call) {
    put(element.firstChild, `${call.name}(…)`);
    put(element.lastChild, pretty(call.arguments));
}

/* ---- the message ---- */

const pageButtons = () => h('span', { class: 'pager' }, iconButton('previous', 'Previous version', { 'data-do': 'previous' }), h('span', {}),
    iconButton('next', 'Next version', { 'data-do': 'next' }));

const partsOf = {
    assistant: () => [h('details', { class: 'reasoning' }, h('summary', {}, 'Thinking'), h('div', { class: 'markdown' })), h('div', { class: 'body markdown' }),
        h('ul', { class: 'calls' }), h('p', { class: 'wait muted' }), h('p', { class: 'error', role: 'alert' }), makeReuse()],
    user: ({ content, images }) => [...(images ?? []).map((url) => h('img', { class: 'picture', src: url, alt: 'Attached picture' })),
        h('div', { class: 'body' }, content), h('div', { class: 'diverged' })],
    tool: ({ content }) => [h('div', { class: 'body' }, content)],
};

export function makeMessage({ node }) {
    return h('article', { class: `message ${node.role}`, 'aria-label': NAMES[node.role] }, ...partsOf[node.role](node),
        h('div', { class: 'buttons' }, pageButtons(), ...BUTTONS[node.role].map(([name, what, label]) => iconButton(name, label, { 'data-do': what })),
            h('button', { class: 'quiet', type: 'button', 'data-do': 'copy', 'aria-label': 'Copy the message' }, 'Copy')));
}

function renewPager(element, node, siblings) {
    const at = siblings.indexOf(node);
    element.hidden = siblings.length < 2;
    put(element.children[1], `${at + 1} of ${siblings.length}`);
    element.firstChild.disabled = at <= 0;
    element.lastChild.disabled = at === siblings.length - 1;
}

function renewAnswer(element, node, running) {
    const part = (name) => element.querySelector(`:scope > ${name}`);
    element.classList.toggle('running', running);
    putAttribute(element, 'aria-busy', String(running));
    part('.reasoning').hidden = !node.reasoning;
    if (node.reasoning) renderMarkdown(part('.reasoning').lastChild, node.reasoning);
    renderMarkdown(part('.body'), node.content);
    sync(part('.calls'), (node.calls ?? []).map((call, i) => ({ ...call, i })), ({ i }) => i, makeCall, renewCall);
    put(part('.wait'), running ? waitOf(node) : ENDS[node.finish ?? 'interrupted'] ?? '');
    put(part('.error'), node.error ?? '');
    renewReuse(part('.reuse'), running ? null : node.stats);
}

/* Found after the answer, and never changed. */
function renewDiverged(element, place) {
    if (place && !element.firstChild) element.append(...divergedOf(place));
}

/* `running`: this answer is being written; `busy`: some answer of the conversation is. */
export function renewMessage(element, { node, siblings, running, busy }) {
    if (node.role === 'assistant') renewAnswer(element, node, running);
    if (node.role === 'user') renewDiverged(element.querySelector('.diverged'), node.diverged);
    renewPager(element.querySelector('.pager'), node, siblings);
    for (const button of element.querySelectorAll('.buttons > [data-do]')) button.disabled = busy && button.dataset.do !== 'copy';
}
