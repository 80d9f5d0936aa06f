/*
 * conversation.js: conversations as trees of messages, stored in this browser only.
 *
 *      user ── answer ── user ── answer        An edited message and another answer are siblings of the first one.
 *        └──── answer ── user                  `leaf` is the end of the path that is shown.
 */

const SLOT = 'hearth.chat.';
const TITLE_CHARS = 60;

/* Not crypto.randomUUID, which pages without TLS do not have. */
const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/* ---- storage ---- */

export const isSlot = (key) => key?.startsWith(SLOT);

function parse(text) {
    try {
        const value = JSON.parse(text);
        return Array.isArray(value?.nodes) ? value : null;
    } catch {
        return null; /* not written by this page */
    }
}

/* All of them, the last used first. */
export function loadAll() {
    const slots = Object.keys(localStorage).filter(isSlot);
    return slots.map((slot) => parse(localStorage.getItem(slot))).filter(Boolean).sort((a, b) => b.used - a.used);
}

/* False: this browser has no room left. */
export function save(conversation) {
    try {
        localStorage.setItem(SLOT + conversation.id, JSON.stringify(conversation));
        return true;
    } catch {
        return false;
    }
}

export const remove = (conversation) => localStorage.removeItem(SLOT + conversation.id);

/* ---- conversations ---- */

/* `settings` are those of the conversation that was open, so that a system prompt needs to be written once. */
export function create(settings = {}) {
    const { model = '', system = '', tools = '', temperature = '', longest = '', thinking = '' } = settings;
    return { id: newId(), used: Date.now(), model, system, tools, temperature, longest, thinking, nodes: [], leaf: null };
}

export const nodeOf = (conversation, id) => conversation.nodes.find((node) => node.id === id);

/* From the first message to `leaf`. */
export function pathOf(conversation, leaf = conversation.leaf) {
    const known = new Map(conversation.nodes.map((node) => [node.id, node])), path = [];
    for (let node = known.get(leaf); node; node = known.get(node.parent)) path.unshift(node);
    return path;
}

/* The message, its edits, its other answers; oldest first. */
export const siblingsOf = (conversation, node) => conversation.nodes.filter(({ parent }) => parent === node.parent);

/* Adds a message after `parent` (null: a first one) and shows it. */
export function append(conversation, parent, message) {
    const node = { id: newId(), parent, ...message };
    conversation.nodes.push(node);
    conversation.leaf = node.id;
    conversation.used = Date.now();
    return node;
}

/* Shows the path through `node`, down to its newest end. */
export function show(conversation, node) {
    let leaf = node;
    for (let next = node; next; next = conversation.nodes.findLast(({ parent }) => parent === leaf.id)) leaf = next;
    conversation.leaf = leaf.id;
}

/* A new conversation that has the messages up to `node`. */
export function branch(conversation, node) {
    const copy = create(conversation);
    copy.nodes = pathOf(conversation, node.id).map((message) => structuredClone(message));
    copy.leaf = copy.branched = node.id;
    return copy;
}

/* The first question; that of a branch is its own, so that it differs from the title of its origin. */
export function titleOf(conversation) {
    const path = pathOf(conversation), isQuestion = ({ role }) => role === 'user';
    const own = path.slice(path.findIndex(({ id }) => id === conversation.branched) + 1);
    const first = own.find(isQuestion) ?? path.find(isQuestion) ?? conversation.nodes[0];
    const text = (first?.content ?? '').trim().replace(/\s+/g, ' ');
    return text.length > TITLE_CHARS ? `${text.slice(0, TITLE_CHARS)} …` : text || 'New conversation';
}

/* ---- for the server ---- */

const isEmpty = (node) => node.role === 'assistant' && !node.content && !node.calls?.length;

function messageOf(node) {
    if (node.role === 'tool') return { role: 'tool', tool_call_id: node.call, content: node.content };
    if (node.role === 'assistant') {
        const calls = node.calls?.map(({ id, name, arguments: args }) => ({ id, type: 'function', function: { name, arguments: args } }));
        return { role: 'assistant', content: node.content, reasoning_content: node.reasoning || undefined, tool_calls: calls?.length ? calls : undefined };
    }
    if (!node.images?.length) return { role: 'user', content: node.content };
    return { role: 'user', content: [...node.images.map((url) => ({ type: 'image_url', image_url: { url } })), { type: 'text', text: node.content }] };
}

/* The tools as a list; throws what JSON.parse throws. */
export function toolsOf(conversation) {
    const tools = conversation.tools.trim() ? JSON.parse(conversation.tools) : [];
    if (!Array.isArray(tools)) throw new Error('The tools must be a list.');
    return tools;
}

/* The part of a request that becomes the prompt. An answer that failed before its first word is left out. */
export function promptOf(conversation, leaf = conversation.leaf) {
    const tools = toolsOf(conversation);
    const messages = pathOf(conversation, leaf).filter((node) => !isEmpty(node)).map(messageOf);
    if (conversation.system.trim()) messages.unshift({ role: 'system', content: conversation.system });
    return { model: conversation.model || undefined, messages, tools: tools.length ? tools : undefined };
}

const LONGEST = 2048; /* tokens of an answer, unless the conversation says otherwise */

export function requestOf(conversation, leaf) {
    const { temperature, longest, thinking } = conversation;
    return {
        ...promptOf(conversation, leaf),
        temperature: temperature === '' ? undefined : Number(temperature),
        max_tokens: Number(longest) || LONGEST,
        chat_template_kwargs: thinking === '' ? undefined : { enable_thinking: thinking === 'on' },
    };
}
