/*
 * probe.js: what a prompt would reuse, block by block, and where it diverges from another one.
 */
import { ask } from './api.js';
import { $, h } from './dom.js';
import * as format from './format.js';
import { bar, differenceInWords, reasonHelp, reasonTitle } from './sources.js';

const isPrompt = ({ messages, prompt, tokens, input }) => Boolean(messages ?? prompt ?? tokens ?? input);

/* A whole request of any API, a list of messages, or plain text as one message. */
function promptOf(text) {
    const trimmed = text.trim();
    if (trimmed.startsWith('{') || trimmed.startsWith('[')) {
        try {
            const value = JSON.parse(trimmed);
            if (Array.isArray(value)) return { messages: value };
            if (isPrompt(value)) return value;
        } catch {
            /* Then it is text that begins with a bracket. */
        }
    }
    return { messages: [{ role: 'user', content: text }] };
}

/* Two texts with their differences marked. */
export function markedPair(have, want) {
    let same = 0;
    while (same < have.length && same < want.length && have[same] === want[same]) same++;
    const marked = (text) => [text.slice(0, same), h('mark', {}, text.slice(same) || '(ends here)')];
    return [marked(have), marked(want)];
}

const sideOf = (title, name, parts) => h('div', {}, h('dt', {}, title), h('dd', {}, h('pre', { class: name }, ...parts)));

/* Cached text may belong to another tenant and is not shown. Two prompts that were typed here are. */
function differenceOf(difference, compared) {
    if (!difference) return h('p', {}, compared ? 'The two prompts are the same.' : 'No difference: everything cached matches.');
    const where = h('b', {}, differenceInWords(difference));
    if (!compared) return h('div', { class: 'difference' }, h('p', {}, 'First difference from the cache: ', where, ':'), h('dl', {}, sideOf('Prompt', 'want', [difference.want])));
    const [have, want] = markedPair(difference.have, difference.want);
    return h('div', { class: 'difference' }, h('p', {}, 'First difference: ', where, '.'), h('dl', {}, sideOf('Compared', 'have', have), sideOf('Prompt', 'want', want)));
}

function blocksOf(blocks, total) {
    const strip = h('div', { class: 'blocks', role: 'img', 'aria-label': `${blocks.length} blocks, ${blocks.filter(({ tier }) => tier !== 'none').length} of them cached` });
    for (const { begin, end, tier, key } of blocks) {
        const block = h('span', { class: `source-${tier === 'none' ? 'computed' : tier}`, title: `${begin}–${end} ${tier} ${format.shortHash(key)}` });
        block.style.flexGrow = String((end - begin) / Math.max(total, 1));
        strip.append(block);
    }
    return strip;
}

function resultOf(answer, compared) {
    const reused = answer.prompt_tokens - answer.would.computed;
    return [
        h('p', { class: 'verdict' }, h('b', {}, `${format.exact(reused)} of ${format.exact(answer.prompt_tokens)}`), ' tokens would be reused. ',
            h('span', { class: 'muted', title: reasonHelp(answer.reason) }, `${reasonTitle(answer.reason)}.`)),
        bar(answer.would, Math.max(answer.prompt_tokens, 1)),
        answer.blocks?.length ? blocksOf(answer.blocks, answer.prompt_tokens) : null,
        differenceOf(answer.first_difference, compared),
    ].filter(Boolean);
}

async function probe() {
    const compared = $('probe-have').value.trim() !== '';
    const body = promptOf($('probe-want').value);
    if ($('probe-model').value) body.model = $('probe-model').value;
    if (compared) body.against = promptOf($('probe-have').value);
    try {
        $('probe-result').replaceChildren(...resultOf(await ask('admin/cache/probe', body), compared));
    } catch (error) {
        $('probe-result').replaceChildren(h('p', { class: 'error' }, error.message));
    }
}

export function setUpProbe() {
    $('probe-form').addEventListener('submit', async (event) => {
        event.preventDefault();
        const button = event.target.querySelector('button');
        button.disabled = true;
        await probe();
        button.disabled = false;
        button.focus({ preventScroll: true });
    });
}
