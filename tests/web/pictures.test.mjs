/* pictures.test.mjs: a picture that is attached on the chat page reaches the model, and the next turn reuses it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { startServer } from '../sdk/server.mjs';
import { get, launch, openPage } from './browser.mjs';

let server, browser;

before(async () => {
    [server, browser] = await Promise.all([startServer(process.env.MODEL, ['--mmproj', process.env.MMPROJ]), launch()]);
});

after(async () => {
    await browser?.close();
    await server?.stop();
});

/* A red dot of one pixel, which the page makes no larger. */
const dot = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==', 'base64');
const finished = (page, count) => page.waitForFunction((wanted) => document.querySelectorAll('.message.assistant:not(.running) .reuse:not([hidden])').length === wanted, count);

test('attach, send, and go on', async () => {
    const { page, close } = await openPage(browser, server.url, { view: '#chat' });
    await page.waitForSelector('.attach', { state: 'visible' });
    await page.click('[data-do=settings]');
    await page.fill('[name=longest]', '4');
    await page.click('[data-do=settings]');
    await page.setInputFiles('.composer input[type=file]', { name: 'dot.png', mimeType: 'image/png', buffer: dot });
    await page.waitForSelector('.composer .pictures img');
    await page.fill('.pane .composer textarea', 'What is this?');
    await page.press('.pane .composer textarea', 'Enter');
    await finished(page, 1);
    assert.equal(await page.locator('.composer .pictures img').count(), 0);
    assert.equal(await page.locator('.message.user img').count(), 1);
    const [first] = (await get(server.url, '/admin/requests')).recent;
    assert.ok(first.prompt_tokens > 16, 'the picture is a part of the prompt');
    await page.fill('.pane .composer textarea', 'Go on.');
    await page.press('.pane .composer textarea', 'Enter');
    await finished(page, 2);
    const [next] = (await get(server.url, '/admin/requests')).recent;
    assert.ok(next.prompt_tokens - next.tokens.computed >= first.prompt_tokens, 'the picture is reused');
    await close();
});
