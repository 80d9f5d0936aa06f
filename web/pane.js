/*
 * pane.js: one open conversation: its head with model and settings, its messages, and the box to write in. Several stand side by side.
 *
 * A pane shows a conversation and reports what a person does; chat.js acts.
 */
import { pathOf, siblingsOf, titleOf, toolsOf } from './conversation.js';
import { h, icon, iconButton, put, putAttribute, sync } from './dom.js';
import { makeMessage, renewMessage } from './message.js';
import { exampleTools, proposedResult } from './tools.js';

const NEAR_END_PX = 80, PICTURE_PX = 1024;
const FIRST_WORDS = ['What is hearth?', 'How do I connect Claude Code?', 'Write a short list of fruits.'];

/* ---- settings ---- */

const field = (label, control, note) => h('label', {}, label, note ? h('span', { class: 'muted' }, ` ${note}`) : null, control);

function makeSettings() {
    return h('form', { class: 'settings', hidden: true, 'aria-label': 'Settings of this conversation' },
        field('System prompt', h('textarea', { name: 'system', rows: '3' })),
        h('div', { class: 'settings-row' },
            field('Temperature', h('input', { name: 'temperature', type: 'number', min: '0', max: '5', step: '0.1', placeholder: 'default' })),
            field('Longest answer', h('input', { name: 'longest', type: 'number', min: '1', step: '1', placeholder: '2048' })),
            field('Thinking', h('select', { name: 'thinking' }, h('option', { value: '' }, 'default'), h('option', { value: 'on' }, 'on'), h('option', { value: 'off' }, 'off')))),
        field('Tools', h('textarea', { name: 'tools', rows: '4', spellcheck: 'false', placeholder: '[{"type": "function", "function": {"name": …}}]' }), '(JSON, as in OpenAI\'s API)'),
        h('p', { class: 'error', role: 'alert' }),
        h('div', { class: 'actions' }, h('button', { type: 'button', class: 'quiet', 'data-do': 'examples' }, 'Insert example tools')));
}

function toolsProblem(conversation) {
    try {
        toolsOf(conversation);
        return '';
    } catch (error) {
        return `The tools are not valid JSON: ${error.message}`;
    }
}

const SETTINGS = ['system', 'temperature', 'longest', 'thinking', 'tools'];

/* A field that is being written in is left alone. */
function renewSettings(form, conversation, model) {
    for (const name of SETTINGS) {
        const control = form.elements[name];
        if (control !== document.activeElement && control.value !== conversation[name]) control.value = conversation[name];
    }
    form.elements.thinking.closest('label').hidden = model?.features?.thinking !== 'ok';
    put(form.querySelector('.error'), toolsProblem(conversation));
}

/* ---- before the first message ---- */

function makeEmpty() {
    return h('div', { class: 'hello' },
        h('h2', {}, 'Ask something.'),
        h('p', { class: 'muted' }, 'Each answer shows how much of its prompt was reused, from where, and why the rest was computed.'),
        h('ol', { class: 'muted' },
            h('li', {}, 'Ask again: only the new text is computed.'),
            h('li', {}, 'Edit or branch: everything before the change is reused.'),
            h('li', {}, 'Restart the server: nothing is lost.')),
        h('div', { class: 'chips' }, ...FIRST_WORDS.map((words) => h('button', { type: 'button', 'data-do': 'say', 'data-words': words }, words)),
            h('button', { type: 'button', 'data-do': 'say-tools', 'data-words': 'What is the weather in Paris?' }, 'Call a tool')),
        h('p', { class: 'muted' }, 'Conversations stay in this browser. ', h('a', { href: '#connect' }, 'Connect a program'), ' instead.'));
}

/* ---- results of tools ---- */

/* The calls that wait for results: those of the last answer. */
function callsOf(path, busy) {
    const last = path.at(-1);
    return !busy && last?.role === 'assistant' ? last.calls ?? [] : [];
}

function renewResults(form, path, busy) {
    const calls = callsOf(path, busy), key = calls.length ? path.at(-1).id : '';
    form.hidden = calls.length === 0;
    if (form.dataset.of === key) return;
    form.dataset.of = key;
    form.replaceChildren(...calls.map((call, i) => {
        const area = h('textarea', { name: `result-${i}`, rows: '2', spellcheck: 'false' });
        area.value = proposedResult(call);
        return field(`Result of ${call.name}`, area);
    }), h('div', { class: 'actions' }, h('button', { class: 'primary', type: 'submit' }, 'Send the result')));
}

export const resultsOf = (form) => [...form.querySelectorAll('textarea')].map(({ value }) => value);

/* ---- pictures ---- */

/* Made smaller, so that they fit into this browser's store. */
async function shrink(file) {
    const bitmap = await createImageBitmap(file), scale = Math.min(1, PICTURE_PX / Math.max(bitmap.width, bitmap.height));
    const canvas = h('canvas', { width: String(Math.round(bitmap.width * scale)), height: String(Math.round(bitmap.height * scale)) });
    canvas.getContext('2d').drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL('image/jpeg', 0.85);
}

async function attach(form) {
    const input = form.querySelector('input[type=file]'), list = form.querySelector('.pictures');
    for (const file of input.files) list.append(h('img', { class: 'picture', src: await shrink(file), alt: file.name }));
    input.value = '';
}

/* ---- the box ---- */

function makeComposer() {
    const area = h('textarea', { name: 'text', rows: '1', placeholder: 'Write a message', 'aria-label': 'Message', 'aria-keyshortcuts': 'Enter Escape ArrowUp' });
    const file = h('input', { type: 'file', accept: 'image/*', multiple: true, class: 'hidden', 'aria-label': 'Pictures', tabindex: '-1' });
    const form = h('form', { class: 'composer' }, h('div', { class: 'pictures' }), area, file,
        h('div', { class: 'composer-row' }, iconButton('attach', 'Attach a picture', { class: 'quiet round attach', hidden: true }),
            h('span', { class: 'muted hint' }, 'Enter sends, Shift+Enter starts a new line'),
            h('button', { class: 'primary round send', type: 'submit', 'aria-label': 'Send', title: 'Send' }, icon('send')),
            h('button', { class: 'primary round stop', type: 'button', 'data-do': 'stop', 'aria-label': 'Stop', title: 'Stop (Escape)', hidden: true }, icon('stop'))));
    const grow = () => {
        area.style.height = 'auto';
        area.style.height = `${Math.min(area.scrollHeight, 240)}px`;
    };
    area.addEventListener('input', grow);
    form.addEventListener('reset', () => setTimeout(grow));
    form.querySelector('.attach').addEventListener('click', () => file.click());
    file.addEventListener('change', () => attach(form));
    return form;
}

/* What was written, and the box is empty again; null: nothing was. */
export function takeText(form) {
    const content = form.elements.text.value.trim(), images = [...form.querySelectorAll('.pictures img')].map(({ src }) => src);
    if (!content && !images.length) return null;
    form.querySelector('.pictures').replaceChildren();
    form.reset();
    return { role: 'user', content, images: images.length ? images : undefined };
}

/* ---- editing ---- */

/* `done(text)` is called with the new text. */
export function editMessage(element, node, done) {
    const area = h('textarea', { rows: '3', 'aria-label': 'Edit the message' });
    const end = () => {
        form.remove();
        element.classList.remove('editing');
        element.querySelector('[data-do=edit]')?.focus();
    };
    const form = h('form', { class: 'edit' }, area,
        h('div', { class: 'actions' }, h('button', { type: 'button', onclick: end }, 'Cancel'), h('button', { class: 'primary', type: 'submit' }, 'Send')));
    area.value = node.content;
    area.addEventListener('keydown', (event) => {
        if (event.key === 'Escape') end();
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            form.requestSubmit();
        }
    });
    form.addEventListener('submit', (event) => {
        event.preventDefault();
        event.stopPropagation();
        end();
        done(area.value.trim());
    });
    element.classList.add('editing');
    element.querySelector('.body').after(form);
    area.focus();
}

/* ---- the pane ---- */

/* Details that open at the end of the log are brought into view, with the buttons below them: they would open below the box. */
function showOpened({ target }) {
    if (target.open) target.closest('.message').lastElementChild.scrollIntoView({ block: 'nearest' });
}

export function makePane(conversation) {
    const pane = h('article', { class: 'pane', 'aria-label': titleOf(conversation) },
        h('div', { class: 'pane-head' },
            iconButton('list', 'Conversations', { 'data-do': 'list', class: 'quiet round only-small' }),
            h('h2', {}), h('label', { class: 'inline' }, h('span', { class: 'hidden' }, 'Model'), h('select', { class: 'model-choice' })),
            iconButton('settings', 'Settings', { 'data-do': 'settings', 'aria-expanded': 'false' }),
            iconButton('close', 'Close this conversation', { 'data-do': 'close' })),
        makeSettings(),
        h('div', { class: 'log', role: 'log', 'aria-live': 'off', 'aria-label': 'Messages', tabindex: '0' }, makeEmpty(), h('div', { class: 'messages' }), h('form', { class: 'results', hidden: true })),
        h('p', { class: 'error problem', role: 'alert' }),
        makeComposer());
    pane.querySelector('.log').addEventListener('toggle', showOpened, true); /* does not bubble */
    return pane;
}

function renewHead(element, conversation, models, several) {
    const choice = element.querySelector('.model-choice');
    put(element.querySelector('.pane-head h2'), titleOf(conversation));
    putAttribute(element, 'aria-label', titleOf(conversation));
    sync(choice, models, ({ id }) => id, ({ id }) => h('option', { value: id }, id));
    const wanted = models.find(({ id }) => id === conversation.model) ?? models.find((model) => model.default) ?? models[0];
    if (wanted && choice.value !== wanted.id) choice.value = wanted.id;
    element.querySelector('[data-do=close]').hidden = !several;
    return wanted;
}

/* `running`: the node of the answer that is being written, or null. Shows the end while a person looks at the end. */
export function renewPane(element, { conversation, models, several, running, vision }) {
    const path = pathOf(conversation), log = element.querySelector('.log'), busy = running !== null;
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END_PX, before = log.querySelectorAll('.message').length;
    const model = renewHead(element, conversation, models, several);
    renewSettings(element.querySelector('.settings'), conversation, model);
    log.querySelector('.hello').hidden = path.length > 0;
    sync(log.querySelector('.messages'), path.map((node) => ({ node, siblings: siblingsOf(conversation, node), running: node === running, busy })), ({ node }) => node.id, makeMessage, renewMessage);
    renewResults(log.querySelector('.results'), path, busy);
    element.querySelector('.attach').hidden = !vision;
    element.querySelector('.send').hidden = busy;
    element.querySelector('.stop').hidden = !busy;
    if (atEnd || log.querySelectorAll('.message').length > before) log.scrollTop = log.scrollHeight;
}

/* A problem of this pane that belongs to no message. */
export const showProblem = (element, text) => put(element.querySelector('.problem'), text);

export function insertExamples(form, conversation) {
    conversation.tools = exampleTools;
    form.elements.tools.value = exampleTools;
}

export const settingsOf = (form) => Object.fromEntries(SETTINGS.map((name) => [name, form.elements[name].value]));
