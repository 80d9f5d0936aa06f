/* The official Ollama client against a real server: chat, streams, tools, formats, generate, models, errors. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Ollama } from 'ollama';
import { startServer } from './server.mjs';

let server, client, model;
const messages = [
    { role: 'system', content: 'You answer in few words.' },
    { role: 'user', content: 'What burns in a hearth?' },
];
const tools = [{
    type: 'function',
    function: {
        name: 'get_weather',
        description: 'The weather of a place.',
        parameters: { type: 'object', properties: { city: { type: 'string', maxLength: 8 } }, required: ['city'], additionalProperties: false },
    },
}];
const once = { tool_choice: 'required', parallel_tool_calls: false, think: false }; /* hearth's own: Ollama cannot require a call */
const short = { num_predict: 8, temperature: 0 };

before(async () => {
    server = await startServer(process.env.MODEL);
    client = new Ollama({ host: server.url });
    model = (await client.list()).models[0].name;
});
after(async () => assert.equal(await server.stop(), 0));

const ended = (answer) => {
    assert.equal(answer.done, true);
    assert.ok(['stop', 'length'].includes(answer.done_reason));
    assert.ok(answer.prompt_eval_count > 0 && answer.eval_count > 0);
    assert.ok(answer.total_duration >= answer.eval_duration);
    for (const field of ['load_duration', 'prompt_eval_duration', 'eval_duration']) assert.ok(Number.isInteger(answer[field]), field);
    assert.ok(!Number.isNaN(new Date(answer.created_at).getTime()));
};

test('list, show, ps, version', async () => {
    const { models } = await client.list();
    assert.equal(models.length, 1);
    assert.equal(models[0].details.format, 'gguf');
    const shown = await client.show({ model });
    assert.equal(shown.details.family, 'qwen3');
    assert.equal(shown.model_info['general.architecture'], 'qwen3');
    assert.ok(shown.capabilities.includes('completion') && shown.capabilities.includes('tools'));
    const running = await client.ps();
    assert.equal(running.models[0].name, model);
    assert.equal(running.models[0].context_length, 4096);
    assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
});

test('chat, cold and again', async () => {
    const ask = () => client.chat({ model, messages, options: short });
    const cold = await ask(), warm = await ask();
    for (const answer of [cold, warm]) {
        assert.equal(answer.message.role, 'assistant');
        ended(answer);
    }
    assert.equal(warm.message.content, cold.message.content);
    assert.equal(warm.message.thinking, cold.message.thinking);
    assert.equal(warm.x_cache.computed, 1);
});

test('a stream has the text of the whole answer', async () => {
    const whole = await client.chat({ model, messages, options: short, think: false });
    let content = '', last;
    for await (const part of await client.chat({ model, messages, options: short, think: false, stream: true })) {
        assert.equal(last, undefined);
        content += part.message.content;
        if (part.done) last = part;
    }
    ended(last);
    assert.equal(content, whole.message.content);
});

test('a tool is called, and its result goes back', async () => {
    const first = await client.chat({ model, messages, tools, ...once, options: { num_predict: 1500 } });
    const [call] = first.message.tool_calls;
    assert.equal(call.function.name, 'get_weather');
    assert.equal(typeof call.function.arguments.city, 'string');
    const next = await client.chat({
        model, tools, options: short,
        messages: [...messages, first.message, { role: 'tool', tool_name: 'get_weather', content: 'rain' }],
    });
    ended(next);
    assert.ok(next.prompt_eval_count > first.prompt_eval_count);
});

test('a tool in a stream', async () => {
    const calls = [];
    for await (const part of await client.chat({ model, messages, tools, ...once, stream: true, options: { num_predict: 1500 } }))
        calls.push(...(part.message.tool_calls ?? []));
    assert.equal(calls.length, 1);
    assert.equal(typeof calls[0].function.arguments.city, 'string');
});

test('a format', async () => {
    const format = { type: 'object', properties: { wood: { type: 'string', maxLength: 6 }, dry: { type: 'boolean' } }, required: ['wood', 'dry'], additionalProperties: false };
    const answer = await client.chat({ model, messages, format, think: false, options: { num_predict: 1500 } });
    assert.equal(typeof JSON.parse(answer.message.content).dry, 'boolean');
});

test('generate, and its context in the next request', async () => {
    const first = await client.generate({ model, prompt: 'Hello', options: short, think: false });
    ended(first);
    assert.equal(first.context.length, first.prompt_eval_count + first.eval_count);
    const next = await client.generate({ model, prompt: 'Again', context: first.context, options: short, think: false });
    assert.ok(next.prompt_eval_count > first.context.length);
    assert.ok(next.x_cache.computed <= next.prompt_eval_count - first.context.length + 1);
    let text = '';
    for await (const part of await client.generate({ model, prompt: 'Once', raw: true, stream: true, options: short })) text += part.response;
    const whole = await client.generate({ model, prompt: 'Once', raw: true, options: short });
    assert.equal(text, whole.response);
});

test('embed', async () => {
    const { embeddings, prompt_eval_count } = await client.embed({ model, input: ['wood', 'stone'] });
    assert.equal(embeddings.length, 2);
    assert.ok(prompt_eval_count > 1);
    for (const vector of embeddings) assert.ok(Math.abs(vector.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-3);
    const old = await client.embeddings({ model, prompt: 'wood' });
    assert.equal(old.embedding.length, embeddings[0].length);
});

test('errors are sentences', async () => {
    await assert.rejects(client.show({ model: 'nothing' }), /model 'nothing' not found/);
    await assert.rejects(client.chat({ model, messages, options: { top_p: 7 } }), /'options.top_p' must be a number from 0 to 1/);
    await assert.rejects(client.pull({ model: 'llama3' }), /hearth pull/);
    await assert.rejects(client.delete({ model: 'llama3' }), /hearth rm/);
});
