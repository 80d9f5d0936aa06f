/*
 * measure.js: a short benchmark with one click: a prompt that the cache has never seen, then the same conversation with one more message.
 *
 * The ratio of the two is what the cache is worth on this machine. `hearth bench` measures more, and longer.
 */
import { h, put } from './dom.js';
import * as format from './format.js';
import { ask } from './api.js';

const WORDS = 'river stone lamp cloud harvest window copper violin garden thunder paper anchor meadow candle bridge winter'.split(' ');
const PROMPT_WORDS = 700, ANSWER_TOKENS = 32;

/* Different each time, so that nothing of it is cached. */
const prompt = () => `${Math.random()} ${Array.from({ length: PROMPT_WORDS }, () => WORDS[Math.floor(Math.random() * WORDS.length)]).join(' ')}`;

async function turn(model, messages) {
    const answer = await ask('v1/chat/completions', { model, messages, max_tokens: ANSWER_TOKENS, temperature: 0 });
    messages.push({ role: 'assistant', content: answer.choices[0].message.content });
    return answer.timings;
}

function resultOf(first, second) {
    const row = (title, value) => h('div', {}, h('dt', {}, title), h('dd', {}, value));
    return h('dl', { class: 'pairs' },
        row('Prefill', format.speed(first.prompt_per_second)),
        row('Generation', format.speed(first.predicted_per_second)),
        row(`First token, ${format.exact(first.prompt_n)} new tokens`, format.duration(first.ttft_ms / 1000)),
        row(`Next turn, ${format.exact(second.cache_n)} reused`, format.duration(second.ttft_ms / 1000)));
}

/* Shows the progress and the result in `place`. */
export async function measure(model, place) {
    const messages = [{ role: 'user', content: prompt() }], words = h('p', { class: 'muted' }, 'Measuring: a new prompt …');
    place.replaceChildren(words);
    try {
        const first = await turn(model, messages);
        put(words, 'Measuring: the next turn …');
        messages.push({ role: 'user', content: 'And now?' });
        place.replaceChildren(resultOf(first, await turn(model, messages)));
    } catch (error) {
        place.replaceChildren(h('p', { class: 'error' }, error.message));
    }
}
