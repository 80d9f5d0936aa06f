/* The official OpenAI client against a real server: chat, streams, tools, structured output, responses, errors. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { startServer } from './server.mjs';

let server, client;
const model = 'demo';
const plain = { chat_template_kwargs: { enable_thinking: false } }; /* a model of random weights never ends a thought */
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
        strict: true,
    },
}];

before(async () => {
    server = await startServer(process.env.MODEL);
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(async () => assert.equal(await server.stop(), 0));

const whole = (usage) => {
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
    assert.ok(usage.prompt_tokens_details.cached_tokens >= 0);
    assert.ok(usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens);
};

test('models', async () => {
    const list = await client.models.list();
    assert.ok(list.data.length >= 1);
    const one = await client.models.retrieve(list.data[0].id);
    assert.equal(one.id, list.data[0].id);
});

test('completions: several prompts, and the log-probabilities of a prompt', async () => {
    const several = await client.completions.create({ model, prompt: ['Once', 'A fire'], n: 2, best_of: 3, max_tokens: 3 });
    assert.deepEqual(several.choices.map((choice) => choice.index), [0, 1, 2, 3]);
    assert.equal(several.usage.completion_tokens, 2 * 3 * 3);
    /* the probability of each token of a prompt is that of the token when it is forced after those before it */
    const tokens = Array.from({ length: 90 }, (_, i) => (i * 37) % 500);
    const echo = await client.completions.create({ model, prompt: tokens, echo: true, logprobs: 1, max_tokens: 0 });
    const { token_logprobs, top_logprobs } = echo.choices[0].logprobs;
    assert.equal(token_logprobs.length, tokens.length);
    assert.equal(token_logprobs[0], null);
    assert.equal(top_logprobs[0], null);
    for (const at of [1, 20, 70, 89]) {
        const forced = await client.completions.create({
            model, prompt: tokens.slice(0, at), logprobs: 1, max_tokens: 1, temperature: 0, logit_bias: { [tokens[at]]: 1000 },
        });
        const expected = forced.choices[0].logprobs.token_logprobs[0];
        assert.ok(Math.abs(expected - token_logprobs[at]) < 0.1, `${expected} and ${token_logprobs[at]} at ${at}`); /* rows are rounded to 16 bits */
    }
});

test('chat, cold and again', async () => {
    const ask = () => client.chat.completions.create({ model, messages, max_completion_tokens: 12, temperature: 0 });
    const cold = await ask(), warm = await ask();
    for (const answer of [cold, warm]) {
        assert.equal(answer.object, 'chat.completion');
        assert.equal(answer.choices[0].message.role, 'assistant');
        assert.ok(['stop', 'length'].includes(answer.choices[0].finish_reason));
        whole(answer.usage);
    }
    assert.equal(cold.usage.prompt_tokens_details.cached_tokens, 0);
    assert.equal(warm.usage.prompt_tokens_details.cached_tokens, warm.usage.prompt_tokens - 1);
    const parts = warm.x_cache;
    assert.equal(parts.device + parts.ram + parts.ssd + parts.remote + parts.computed, warm.usage.prompt_tokens);
    assert.equal(warm.choices[0].message.content, cold.choices[0].message.content);
});

test('chat as a stream', async () => {
    const stream = await client.chat.completions.create({
        model, messages, max_tokens: 16, temperature: 0, stream: true, stream_options: { include_usage: true },
    });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    assert.ok(new Set(chunks.map((chunk) => chunk.id)).size === 1);
    assert.equal(chunks[0].choices[0].delta.role, 'assistant');
    const last = chunks.at(-1);
    assert.deepEqual(last.choices, []);
    whole(last.usage);
    const finishes = chunks.filter((chunk) => chunk.choices[0]?.finish_reason);
    assert.equal(finishes.length, 1);
    const text = chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? '').join('');
    const reasoning = chunks.map((chunk) => chunk.choices[0]?.delta?.reasoning_content ?? '').join('');
    const once = await client.chat.completions.create({ model, messages, max_tokens: 16, temperature: 0 });
    assert.equal(text, once.choices[0].message.content ?? '');
    assert.equal(reasoning, once.choices[0].message.reasoning_content ?? '');
});

test('a tool is called, and its result goes back', async () => {
    const first = await client.chat.completions.create({ model, messages, tools, tool_choice: 'required', parallel_tool_calls: false, ...plain, max_tokens: 1500 });
    assert.equal(first.choices[0].finish_reason, 'tool_calls');
    const call = first.choices[0].message.tool_calls[0];
    assert.equal(call.function.name, 'get_weather');
    assert.equal(typeof JSON.parse(call.function.arguments).city, 'string');
    const next = await client.chat.completions.create({
        model, tools, max_tokens: 8,
        messages: [...messages, first.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'rain' }],
    });
    /* The turn is in the cache token for token, although the client sent it as JSON. */
    assert.ok(next.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens, JSON.stringify(next.x_cache));
});

test('tool calls as a stream', async () => {
    const stream = client.chat.completions.stream({
        model, messages, tools, tool_choice: { type: 'function', function: { name: 'get_weather' } }, parallel_tool_calls: false, ...plain, max_tokens: 1500,
    });
    const done = await stream.finalChatCompletion();
    assert.equal(done.choices[0].finish_reason, 'tool_calls');
    assert.equal(typeof JSON.parse(done.choices[0].message.tool_calls[0].function.arguments).city, 'string');
});

test('structured output', async () => {
    const Answer = z.object({ wood: z.string().max(6), logs: z.number().int().min(0).max(99), dry: z.boolean() });
    const answer = await client.chat.completions.parse({
        model, messages, ...plain, response_format: zodResponseFormat(Answer, 'answer'), max_tokens: 1500,
    });
    assert.ok(Answer.safeParse(answer.choices[0].message.parsed).success, answer.choices[0].message.content);
});

test('a tool or structured output', async () => {
    const Answer = z.object({ wood: z.string().max(6), dry: z.boolean() });
    const seen = new Set();
    for (let seed = 1; seed <= 30 && seen.size < 2; seed++) {
        const answer = await client.chat.completions.parse({
            model, messages, tools, ...plain, seed, parallel_tool_calls: false, response_format: zodResponseFormat(Answer, 'answer'), max_tokens: 1500,
        });
        const { message, finish_reason: reason } = answer.choices[0];
        seen.add(reason);
        if (reason === 'tool_calls') {
            assert.equal(typeof message.tool_calls[0].function.parsed_arguments.city, 'string');
            assert.ok(!message.content);
        } else {
            assert.equal(reason, 'stop');
            assert.ok(Answer.safeParse(message.parsed).success, message.content);
        }
    }
    assert.deepEqual([...seen].sort(), ['stop', 'tool_calls']);
});

test('several choices, stop texts, logprobs', async () => {
    const many = await client.chat.completions.create({ model, messages, n: 3, max_tokens: 6, seed: 7 });
    assert.deepEqual(many.choices.map((choice) => choice.index), [0, 1, 2]);
    const probable = await client.chat.completions.create({ model, messages, max_tokens: 4, logprobs: true, top_logprobs: 3 });
    const content = probable.choices[0].logprobs.content;
    assert.ok(content.length >= 1);
    for (const token of content) {
        assert.ok(token.logprob <= 0);
        assert.equal(token.top_logprobs.length, 3);
    }
});

test('completions', async () => {
    const answer = await client.completions.create({ model, prompt: 'Once upon a time', max_tokens: 5 });
    assert.equal(answer.object, 'text_completion');
    assert.equal(typeof answer.choices[0].text, 'string');
    whole(answer.usage);
});

test('responses', async () => {
    const answer = await client.responses.create({ model, instructions: 'Be brief.', input: 'What burns?', max_output_tokens: 12 });
    assert.equal(answer.object, 'response');
    assert.ok(['completed', 'incomplete'].includes(answer.status));
    assert.equal(typeof answer.output_text, 'string');
    assert.equal(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens);
    assert.ok(answer.usage.input_tokens_details.cached_tokens >= 0);
});

test('responses that are prewarmed and compared', async () => {
    const ask = (input, prompt_cache_options) => client.responses.create({ model, input, max_output_tokens: 16, prompt_cache_options });
    const first = await ask('Name a color of fire.', { prewarm: true });
    assert.equal(first.status, 'completed');
    assert.equal(first.output_text, '');
    assert.equal(first.usage.output_tokens, 0);
    const again = await ask('Name a color of fire.', { comparison_response_id: first.id, ttl: '30m' });
    assert.deepEqual(again.prompt_cache_diagnostics, { type: 'cache_hit' });
    assert.equal(again.usage.input_tokens_details.cached_tokens, first.usage.input_tokens - 1);
    const other = await ask('Name a color of water.', { comparison_response_id: first.id });
    assert.equal(other.prompt_cache_diagnostics.reason, 'input_changed');
    assert.ok(other.prompt_cache_diagnostics.cache_missed_tokens > 0);
});

test('a chain of stored responses', async () => {
    const ask = (input, rest) => client.responses.create({ model, input, max_output_tokens: 12, ...rest });
    const first = await ask('What burns?'), second = await ask('What else?', { previous_response_id: first.id });
    assert.equal(second.previous_response_id, first.id);
    const counted = await client.responses.inputTokens.count({ model, input: 'What else?', previous_response_id: first.id });
    assert.deepEqual(counted, { object: 'response.input_tokens', input_tokens: second.usage.input_tokens });
    assert.ok(second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens);
    assert.deepEqual((await client.responses.retrieve(first.id)).output, first.output);
    const items = [];
    for await (const item of client.responses.inputItems.list(second.id, { order: 'asc', limit: 2 })) items.push(item);
    assert.deepEqual(items.map((item) => item.role ?? item.type), ['user', ...first.output.map((item) => item.role ?? item.type), 'user']);
    await client.responses.delete(first.id);
    await assert.rejects(client.responses.retrieve(first.id), { status: 404 });
    await assert.rejects(ask('And now?', { previous_response_id: second.id }), { status: 400, code: 'previous_response_not_found' });
    const loose = await ask('What burns?', { store: false });
    await assert.rejects(client.responses.retrieve(loose.id), { status: 404 });
});

test('responses as a stream', async () => {
    const stream = await client.responses.create({ model, input: 'What burns?', max_output_tokens: 12, stream: true });
    const events = [];
    for await (const event of stream) events.push(event);
    assert.equal(events[0].type, 'response.created');
    assert.equal(events[1].type, 'response.in_progress');
    assert.ok(['response.completed', 'response.incomplete'].includes(events.at(-1).type));
    events.forEach((event, i) => assert.equal(event.sequence_number, i));
    const open = new Map();
    for (const event of events) {
        if (event.type === 'response.output_item.added') open.set(event.output_index, event.item.id);
        if (event.type === 'response.output_item.done') {
            assert.equal(open.get(event.output_index), event.item.id);
            open.delete(event.output_index);
        }
    }
    assert.equal(open.size, 0);
});

test('responses with a tool', async () => {
    const { name, description, parameters, strict } = tools[0].function;
    const answer = await client.responses.create({
        model, input: 'Weather?', tools: [{ type: 'function', name, description, parameters, strict }], tool_choice: 'required', parallel_tool_calls: false, ...plain, max_output_tokens: 1500,
    });
    const call = answer.output.find((item) => item.type === 'function_call');
    assert.equal(call.name, 'get_weather');
    const next = await client.responses.create({
        model, max_output_tokens: 6,
        input: [{ role: 'user', content: 'Weather?' }, ...answer.output, { type: 'function_call_output', call_id: call.call_id, output: 'rain' }],
    });
    assert.equal(next.object, 'response');
});

test('embeddings', async () => {
    const input = ['What burns in a hearth?', 'Wood.', 'Wood.'];
    const all = await client.embeddings.create({ model, input }); /* as base64, which the client decodes */
    assert.deepEqual(all.data.map((entry) => entry.index), [0, 1, 2]);
    assert.equal(all.usage.total_tokens, all.usage.prompt_tokens);
    const vectors = all.data.map((entry) => entry.embedding);
    const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
    for (const vector of vectors) assert.ok(Math.abs(dot(vector, vector) - 1) < 1e-5);
    assert.ok(dot(vectors[1], vectors[2]) > 0.9999 && dot(vectors[0], vectors[1]) < 0.9999);
    const plain = await client.embeddings.create({ model, input: input[0], encoding_format: 'float' });
    assert.ok(dot(plain.data[0].embedding, vectors[0]) > 0.9999);
    const short = await client.embeddings.create({ model, input: [[72, 105], [72]], dimensions: 8 });
    assert.deepEqual(short.data.map((entry) => entry.embedding.length), [8, 8]);
    const wrong = await client.embeddings.create({ model, input: 'long '.repeat(9000) }).then(() => assert.fail('taken'), (error) => error);
    assert.equal(wrong.status, 400);
    assert.equal(wrong.code, 'context_length_exceeded');
});

test('responses with a tool or structured output', async () => {
    const { name, description, parameters, strict } = tools[0].function;
    const schema = { type: 'object', properties: { dry: { type: 'boolean' } }, required: ['dry'], additionalProperties: false };
    const answer = await client.responses.create({
        model, input: 'Weather?', tools: [{ type: 'function', name, description, parameters, strict }], parallel_tool_calls: false, ...plain,
        text: { format: { type: 'json_schema', name: 'answer', strict: true, schema } }, max_output_tokens: 1500,
    });
    const call = answer.output.find((item) => item.type === 'function_call');
    if (call) assert.equal(typeof JSON.parse(call.arguments).city, 'string');
    else assert.equal(typeof JSON.parse(answer.output_text).dry, 'boolean');
});

test('errors', async () => {
    const wrong = (request) => client.chat.completions.create(request).then(() => assert.fail('taken'), (error) => error);
    const range = await wrong({ model, messages, temperature: -3 });
    assert.equal(range.status, 400);
    assert.equal(range.param, 'temperature');
    const none = await wrong({ model });
    assert.equal(none.status, 400);
    assert.equal(none.param, 'messages');
    const long = await wrong({ model, messages: [{ role: 'user', content: 'long '.repeat(4000) }] });
    assert.equal(long.status, 400);
    assert.equal(long.code, 'context_length_exceeded');
    assert.equal(long.type, 'exceed_context_size_error');
    assert.match(long.message, /exceeds the available context size \(4096 tokens\)/);
});

test('a client that leaves', async () => {
    const stream = await client.chat.completions.create({ model, messages, max_tokens: 15000, stream: true });
    for await (const chunk of stream) {
        if (chunk.choices[0]?.delta) break; /* aborts the request */
    }
    for (let i = 0; i < 100; i++) {
        const slots = await (await fetch(`${server.url}/slots`)).json();
        if (slots.length > 0 && slots.every((slot) => !slot.request)) return;
        await new Promise((wake) => setTimeout(wake, 50));
    }
    assert.fail('it still runs');
});
