/* Vercel's AI SDK against a real server, with its providers for OpenAI, Anthropic and compatible servers. It checks every answer with
 * a schema that is stricter than the types of the official SDKs. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany, generateText, jsonSchema, Output, streamText, tool } from 'ai';
import { startServer } from './server.mjs';

let server;
/* A model of random weights never ends a thought, and the SDK has no setting for that. */
const fetchPlain = (url, init) => fetch(url, { ...init, body: JSON.stringify({ ...JSON.parse(init.body), chat_template_kwargs: { enable_thinking: false } }) });
const settings = (url) => ({ name: 'hearth', baseURL: `${url}/v1`, apiKey: 'none', fetch: fetchPlain });
const providers = {
    chat: (url) => createOpenAI(settings(url)).chat('demo'),
    responses: (url) => createOpenAI(settings(url)).responses('demo'),
    compatible: (url) => createOpenAICompatible({ ...settings(url), includeUsage: true, supportsStructuredOutputs: true })('demo'),
    messages: (url) => createAnthropic(settings(url))('claude-sonnet-4-5'),
};
const object = (properties) => jsonSchema({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false });
const city = object({ city: { type: 'string', maxLength: 8 } }), dry = object({ dry: { type: 'boolean' } });
const tools = { get_weather: tool({ description: 'The weather of a place.', inputSchema: city }) };
const common = { prompt: 'What burns in a hearth?', maxRetries: 0, temperature: 0 };

globalThis.AI_SDK_LOG_WARNINGS = false;
before(async () => (server = await startServer(process.env.MODEL)));
after(async () => assert.equal(await server.stop(), 0));

/* The parts of a stream; an error is one of them. */
async function partsOf(stream) {
    const parts = [];
    for await (const part of stream.fullStream) {
        if (part.type === 'error') throw part.error;
        parts.push(part);
    }
    return parts;
}

for (const [name, provider] of Object.entries(providers)) {
    test(`${name}: an answer, whole and as a stream`, async () => {
        const model = provider(server.url);
        const whole = await generateText({ ...common, model, maxOutputTokens: 12 });
        const stream = streamText({ ...common, model, maxOutputTokens: 12, onError() {} });
        await partsOf(stream);
        assert.ok(whole.text.length > 0);
        assert.equal(await stream.text, whole.text);
        assert.equal(await stream.finishReason, whole.finishReason);
        for (const usage of [whole.usage, await stream.usage]) {
            assert.equal(usage.inputTokens, whole.usage.inputTokens);
            assert.equal(usage.outputTokens, whole.usage.outputTokens);
        }
    });

    test(`${name}: a tool, whole and as a stream`, async () => {
        const options = { ...common, model: provider(server.url), tools, toolChoice: 'required', maxOutputTokens: 200 };
        const whole = await generateText(options);
        const stream = streamText({ ...options, onError() {} });
        await partsOf(stream);
        for (const calls of [whole.toolCalls, await stream.toolCalls]) {
            assert.equal(calls[0].toolName, 'get_weather');
            assert.equal(typeof calls[0].input.city, 'string');
        }
    });

    test(`${name}: an object`, async () => {
        const { output } = await generateText({ ...common, model: provider(server.url), output: Output.object({ schema: dry }), maxOutputTokens: 200 });
        assert.equal(typeof output.dry, 'boolean');
    });

    test(`${name}: a picture is refused`, async () => {
        const content = [{ type: 'image', image: Buffer.from('iVBORw0KGgo=', 'base64') }];
        await assert.rejects(generateText({ model: provider(server.url), maxRetries: 0, messages: [{ role: 'user', content }] }),
            (error) => error.statusCode === 400 && /text only/.test(error.message) && !error.isRetryable);
    });
}

test('embeddings', async () => {
    const model = createOpenAI(settings(server.url)).embedding('demo');
    const { embeddings } = await embedMany({ model, values: ['wood', 'water'], maxRetries: 0 });
    assert.deepEqual(embeddings.map((vector) => vector.length), [64, 64]);
});
