/*
 * tree.js: the cached prefixes as a tree, with size, heat and age of each.
 *
 * A branch is a <details>: browsers open it with a mouse, a key or a screen reader. Opened branches stay open when the tree is
 * updated, and the focus stays where it is.
 */
import { $, h, put } from './dom.js';
import * as format from './format.js';

const HEATS = 5;
const closed = new Set(); /* by key */
let nodes = [], drawn = '', several = false; /* models */

/* Prompts of two models or tenants may begin with the same tokens, and then their nodes have the same key. */
const idOf = (node, key) => [node.model, node.tenant, key].join('\n');

function shapeOf(list) {
    const known = new Map(list.map((node) => [idOf(node, node.key), { ...node, children: [] }]));
    const roots = [];
    for (const node of known.values()) (known.get(idOf(node, node.parent))?.children ?? roots).push(node);
    return roots;
}

const order = {
    bytes: (a, b) => b.bytes_below - a.bytes_below,
    uses: (a, b) => b.uses - a.uses,
    age_s: (a, b) => a.age_s - b.age_s,
};

/* Each level is four times as many uses. */
const heatOf = (uses) => Math.min(HEATS - 1, Math.floor(Math.log2(uses + 1) / 2));

function rowOf(node, most) {
    const size = h('span', { class: 'track' }, h('span', {}));
    size.firstChild.style.width = `${(100 * node.bytes_below) / most}%`;
    return [
        h('span', { class: 'label' }, h('span', {}, node.label), several && node.parent === null ? h('span', { class: 'muted' }, node.model) : null, h('code', { class: 'muted' }, format.shortHash(node.key)),
            ...node.tiers.map((tier) => h('span', { class: `chip tier-${tier}` }, tier))),
        h('span', { class: 'size' }, size, h('span', {}, format.bytes(node.bytes_below))),
        h('span', { class: 'number', title: `Tokens ${format.exact(node.begin)} to ${format.exact(node.end)}` }, `${format.count(node.tokens)} tokens`),
        h('span', { class: `heat heat-${heatOf(node.uses)}` }, `${format.count(node.uses)} ${node.uses === 1 ? 'use' : 'uses'}`),
        h('span', { class: 'number muted' }, format.age(node.age_s)),
    ];
}

function branchOf(node, most, compare) {
    if (node.children.length === 0) return h('li', { 'data-key': node.key }, h('div', { class: 'leaf' }, ...rowOf(node, most)));
    const children = [...node.children].sort(compare).map((child) => branchOf(child, most, compare));
    const summary = h('summary', {}, ...rowOf(node, most));
    const details = h('details', { open: !closed.has(node.key) }, summary, h('ul', {}, ...children));
    /* Keys also cause a click. The event `toggle` comes later, maybe after the tree was rebuilt. */
    summary.addEventListener('click', () => (details.open ? closed.add(node.key) : closed.delete(node.key)));
    return h('li', { 'data-key': node.key }, details);
}

function renew() {
    const roots = shapeOf(nodes);
    const compare = order[$('tree-order').value];
    const most = Math.max(1, ...roots.map(({ bytes_below }) => bytes_below));
    const focused = document.activeElement?.closest('#tree li')?.dataset.key;
    $('tree-none').hidden = roots.length > 0;
    $('tree').replaceChildren(h('ul', {}, ...roots.sort(compare).map((root) => branchOf(root, most, compare))));
    if (focused) $('tree').querySelector(`li[data-key="${CSS.escape(focused)}"] > details > summary`)?.focus({ preventScroll: true });
}

export function showTree(answer) {
    const text = JSON.stringify(answer);
    if (text === drawn) return;
    drawn = text;
    nodes = answer.nodes;
    several = new Set(nodes.map(({ model }) => model)).size > 1;
    put($('tree-more'), answer.nodes_left_out > 0 ? `${format.exact(answer.nodes_left_out)} smaller nodes are not shown.` : '');
    renew();
}

export function setUpTree() {
    $('tree-order').addEventListener('change', renew);
}
