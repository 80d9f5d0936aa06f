/* The official Anthropic client against a real server: messages, streams, tools, counting, errors. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { startServer } from './server.mjs';

let server, client;
const model = 'claude-hearth'; /* names of other models are served by the one that is there */
const system = [{ type: 'text', text: 'You answer in few words.', cache_control: { type: 'ephemeral' } }];
const messages = [{ role: 'user', content: 'What burns in a hearth?' }];
const tools = [{
    name: 'get_weather',
    description: 'The weather of a place.',
    input_schema: { type: 'object', properties: { city: { type: 'string', maxLength: 8 } }, required: ['city'], additionalProperties: false },
}];

before(async () => {
    server = await startServer(process.env.MODEL, ['--api-key', 'anna:secret-of-anna']);
    client = new Anthropic({ baseURL: server.url, apiKey: 'secret-of-anna', maxRetries: 0 });
});
after(async () => assert.equal(await server.stop(), 0));

const prompt = (usage) => usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;

test('a message, cold and again', async () => {
    const ask = () => client.messages.create({ model, system, messages, max_tokens: 12, temperature: 0 });
    const cold = await ask(), warm = await ask();
    const { input_tokens: counted } = await client.messages.countTokens({ model, system, messages });
    for (const answer of [cold, warm]) {
        assert.equal(answer.type, 'message');
        assert.equal(answer.role, 'assistant');
        assert.ok(['end_turn', 'max_tokens'].includes(answer.stop_reason));
        assert.equal(prompt(answer.usage), counted);
    }
    assert.equal(cold.usage.cache_read_input_tokens, 0);
    assert.equal(warm.usage.cache_read_input_tokens, counted - 1);
    assert.deepEqual(warm.content, cold.content);
});

test('why a prompt did not continue the one before it', async () => {
    const ask = (text, previous_message_id, max_tokens = 4) => client.messages.create(
        { model, system: text, messages, max_tokens, diagnostics: { previous_message_id } });
    const first = await ask('You are terse.', null, 0);
    assert.equal(first.diagnostics, null);
    assert.deepEqual(first.content, []);
    assert.equal(first.usage.output_tokens, 0);
    assert.equal((await ask('You are terse.', first.id)).diagnostics, null);
    const { cache_miss_reason: reason } = (await ask('You are kind.', first.id)).diagnostics;
    assert.equal(reason.type, 'system_changed');
    assert.ok(reason.cache_missed_input_tokens > 0 && reason.cache_missed_input_tokens < prompt(first.usage));
    const lost = await ask('You are kind.', 'msg_00');
    assert.deepEqual(lost.diagnostics, { cache_miss_reason: { type: 'previous_message_not_found' } });
});

test('old tool results are cleared', async () => {
    const use = (id) => [{ role: 'assistant', content: [{ type: 'tool_use', id, name: 'get_weather', input: { city: 'Rome' } }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'It is sunny. '.repeat(20) }] }];
    const body = { model, tools, messages: [...messages, ...use('a'), ...use('b')], betas: ['context-management-2025-06-27'],
        context_management: { edits: [{ type: 'clear_tool_uses_20250919', trigger: { type: 'tool_uses', value: 1 }, keep: { type: 'tool_uses', value: 1 } }] } };
    const answer = await client.beta.messages.create({ ...body, max_tokens: 4 });
    const [edit] = answer.context_management.applied_edits;
    assert.equal(edit.cleared_tool_uses, 1);
    const counted = await client.beta.messages.countTokens(body);
    assert.equal(counted.input_tokens, prompt(answer.usage));
    assert.equal(counted.context_management.original_input_tokens - counted.input_tokens, edit.cleared_input_tokens);
});

test('a stream, event by event', async () => {
    const stream = await client.messages.create({ model, system, messages, max_tokens: 16, stream: true });
    const events = [];
    for await (const event of stream) events.push(event);
    assert.equal(events[0].type, 'message_start');
    assert.equal(events.at(-1).type, 'message_stop');
    assert.equal(events.at(-2).type, 'message_delta');
    assert.equal(prompt(events[0].message.usage), prompt(events.at(-2).usage));
    let open = null, blocks = 0;
    for (const event of events.slice(1, -2)) {
        if (event.type === 'content_block_start') {
            assert.equal(open, null);
            assert.equal(event.index, blocks++);
            open = event.index;
        } else if (event.type === 'content_block_stop') {
            assert.equal(event.index, open);
            open = null;
        } else {
            assert.equal(event.type, 'content_block_delta');
            assert.equal(event.index, open);
        }
    }
    assert.equal(open, null);
});

test('the helper for streams agrees with the whole', async () => {
    const ask = { model, system, messages, max_tokens: 16, temperature: 0 };
    const streamed = await client.messages.stream(ask).finalMessage();
    const whole = await client.messages.create(ask);
    assert.deepEqual(streamed.content, whole.content);
    assert.equal(streamed.stop_reason, whole.stop_reason);
});

test('a tool is used, and its result goes back', async () => {
    const first = await client.messages.create({ model, system, messages, tools, tool_choice: { type: 'any', disable_parallel_tool_use: true }, thinking: { type: 'disabled' }, max_tokens: 1500 });
    assert.equal(first.stop_reason, 'tool_use');
    const use = first.content.find((block) => block.type === 'tool_use');
    assert.equal(use.name, 'get_weather');
    assert.equal(typeof use.input.city, 'string');
    const next = await client.messages.create({
        model, system, tools, max_tokens: 8,
        messages: [...messages, { role: 'assistant', content: first.content },
            { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'rain' }] }],
    });
    assert.ok(next.usage.cache_read_input_tokens >= prompt(first.usage), JSON.stringify(next.x_cache));
});

/* The runner asks for a thread, which would hold the first turn at the server. */
test('the runner of tools sends the whole conversation', async () => {
    const run = async () => 'rain';
    const runner = client.beta.messages.toolRunner({ model, messages, tools: [{ ...tools[0], run }], tool_choice: { type: 'any', disable_parallel_tool_use: true },
        thinking: { type: 'disabled' }, max_tokens: 1500, max_iterations: 2 });
    const answers = [];
    for await (const answer of runner) answers.push(answer);
    assert.equal(answers.length, 2);
    assert.ok(prompt(answers[1].usage) >= prompt(answers[0].usage) + answers[0].usage.output_tokens);
});

test('a tool as a stream', async () => {
    const done = await client.messages.stream({ model, messages, tools, tool_choice: { type: 'tool', name: 'get_weather', disable_parallel_tool_use: true }, thinking: { type: 'disabled' }, max_tokens: 1500 }).finalMessage();
    assert.equal(done.stop_reason, 'tool_use');
    assert.equal(typeof done.content.find((block) => block.type === 'tool_use').input.city, 'string');
});

test('errors', async () => {
    const wrong = (request) => client.messages.create(request).then(() => assert.fail('taken'), (error) => error);
    const none = await wrong({ model, messages });
    assert.equal(none.status, 400);
    assert.equal(none.error.type, 'error');
    assert.equal(none.error.error.type, 'invalid_request_error');
    assert.match(none.error.error.message, /max_tokens/);
    const long = await wrong({ model, max_tokens: 5, messages: [{ role: 'user', content: 'long '.repeat(4000) }] });
    assert.match(long.error.error.message, /prompt is too long: \d+ tokens > \d+ maximum/);
    const stranger = new Anthropic({ baseURL: server.url, apiKey: 'wrong', maxRetries: 0 });
    const denied = await stranger.messages.create({ model, messages, max_tokens: 5 }).then(() => assert.fail('taken'), (error) => error);
    assert.equal(denied.status, 401);
    assert.equal(denied.error.error.type, 'authentication_error');
});
