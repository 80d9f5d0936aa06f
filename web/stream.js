/*
 * stream.js: one streamed answer of /v1/chat/completions.
 */
import { ApiError, ask, send } from './api.js';
import { reasonOfRecent } from './sources.js';

/* The JSON of each event, until [DONE]. */
async function* eventsOf(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
        const { value, done } = await reader.read().catch(() => { throw new ApiError(0, 'The connection was lost.'); });
        if (done) return;
        text += value;
        const events = text.split('\n\n');
        text = events.pop();
        for (const event of events) {
            const data = event.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trim()).join('\n');
            if (data === '[DONE]') return;
            if (data) yield JSON.parse(data);
        }
    }
}

function addCalls(answer, calls) {
    for (const { index, id, function: part } of calls) {
        const call = (answer.calls[index] ??= { id: '', name: '', arguments: '' });
        if (id) call.id = id;
        call.name += part?.name ?? '';
        call.arguments += part?.arguments ?? '';
    }
}

function add(answer, event) {
    if (event.error) throw new ApiError(event.error.code ?? 500, event.error.message);
    const choice = event.choices?.[0], delta = choice?.delta;
    if (delta?.content) answer.content += delta.content;
    if (delta?.reasoning_content) answer.reasoning += delta.reasoning_content;
    if (delta?.tool_calls) addCalls(answer, delta.tool_calls);
    if (choice?.finish_reason) answer.finish = choice.finish_reason;
    answer.progress = event.prompt_progress ?? (answer.content || answer.reasoning || answer.calls.length ? null : answer.progress);
    if (event.x_cache) answer.stats = statsOf(event);
}

/* The figures of an answer: where its prompt came from, why the rest was computed, and how fast it was. */
function statsOf({ x_cache: cache, timings, usage }) {
    const { device, ram, ssd, remote, computed } = cache;
    return {
        tokens: { device, ram, ssd, remote, computed }, prompt: device + ram + ssd + remote + computed,
        reason: cache.reason, token: cache.first_difference, message: null,
        generated: usage?.completion_tokens ?? timings.predicted_n, ttft_s: timings.ttft_ms / 1000, speed: timings.predicted_per_second,
        drafted: timings.draft_n, accepted: timings.draft_n_accepted, /* absent without drafts */
    };
}

/* What the server's record knows: the message where new text begins, and the figures of an answer that was stopped. */
async function recordOf(id, stats) {
    const { recent } = await ask('admin/requests');
    const found = recent.find((request) => request.id === id);
    if (!found) return stats;
    return {
        ...stats, tokens: found.tokens, prompt: found.prompt_tokens, reason: reasonOfRecent(found), token: found.first_difference, message: found.message,
        generated: found.generated_tokens, ttft_s: found.ttft_s, speed: found.tokens_per_s,
    };
}

/* A stopped request ends a moment later at the server. */
async function ended(id, stats) {
    for (let tries = 0; tries < 10; tries++) {
        const record = await recordOf(id, stats).catch(() => stats);
        if (record !== stats) return record;
        if (stats) return stats;
        await new Promise((resolve) => setTimeout(resolve, 200));
    }
    return stats;
}

/* Fills `answer` (content, reasoning, calls, progress, finish, stats) and calls `changed()` after each piece. A stopped answer is no error. */
export async function complete(request, answer, { signal, changed }) {
    let id = null;
    try {
        const response = await send('v1/chat/completions', { ...request, stream: true, stream_options: { include_usage: true }, return_progress: true }, signal);
        id = response.headers.get('x-request-id');
        for await (const event of eventsOf(response)) {
            add(answer, event);
            changed();
        }
        answer.finish ??= 'interrupted';
    } catch (error) {
        if (!signal.aborted) throw error;
        answer.finish = 'stopped';
    } finally {
        answer.progress = null;
        if (id) answer.stats = await ended(id, answer.stats);
    }
}
