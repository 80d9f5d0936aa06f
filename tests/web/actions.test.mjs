/* actions.test.mjs: what a person does on the dashboard: watching a request, clearing a tier, probing a prompt; also without a mouse. */
import assert from 'node:assert/strict';
import { rename } from 'node:fs/promises';
import { after, before, test } from 'node:test';

import { startServer } from '../sdk/server.mjs';
import { format, get, launch, openPage, post, becomes, talk, text } from './browser.mjs';

let server, browser;

before(async () => {
    [server, browser] = await Promise.all([startServer(process.env.MODEL, ['--ssd-dir', 'ssd', '-c', '32768']), launch()]);
});

after(async () => {
    await browser?.close();
    await server?.stop();
});

/* Objects: memory that was taken for them may stay taken. */
const held = async (name) => (await get(server.url, '/admin/stats')).tiers.find(({ tier }) => tier === name).objects;
/* A conversation whose state is in RAM and on the SSD: stores follow an answer. */
async function talkAndStore(seed) {
    const nodes = async () => (await get(server.url, '/admin/cache/tree')).nodes;
    const requests = async () => (await get(server.url, '/admin/stats')).session.requests;
    const earlier = new Set((await nodes()).map(({ key }) => key)), asked = await requests();
    await talk(server.url, 2, seed);
    await becomes(requests, () => asked + 2);
    const [{ prompt_tokens: last }] = (await get(server.url, '/admin/requests')).recent;
    await becomes(async () => (await nodes()).some(({ key, end, tiers }) =>
        !earlier.has(key) && end >= last && tiers.includes('ram') && tiers.includes('ssd')), () => true);
}
const objectsShown = (page, name) => page.locator(`.tier[data-key=${name}] dl div`, { hasText: 'Objects' }).locator('dd').textContent();

/* It goes on until its client leaves, or the large context is full. */
test('a running request is shown with its numbers, and goes', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    await page.waitForSelector('#welcome', { state: 'visible' }); /* no request has come yet */
    const leave = new AbortController();
    const answer = fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST', signal: leave.signal, headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ messages: [{ role: 'user', content: text(300, 5) }], n: 2, stream: true, temperature: 0, logit_bias: { 97: 90 } }),
    });
    await page.waitForFunction(() => document.querySelectorAll('#live li').length === 2);
    const [first] = (await get(server.url, '/admin/requests')).requests;
    const bar = page.locator('#live [role=progressbar]').first();
    assert.equal(await bar.getAttribute('aria-valuemax'), String(first.prompt_tokens));
    assert.equal(await page.textContent('#live-count'), '2 running');
    assert.match(await page.textContent('#live .words'), /\d of [\d,]+ tokens/);
    await page.waitForFunction(() => /generated · [\d.,]+ tok\/s/.test(document.querySelector('#live .words')?.textContent));
    await answer;
    leave.abort();
    await page.waitForFunction(() => document.querySelectorAll('#live li').length === 0);
    await page.waitForFunction(() => document.querySelector('#recent tbody .badge')?.textContent === 'client disconnected');
    await close();
});

test('clearing a tier is asked about, and does it', async () => {
    await talkAndStore(21);
    const { page, close } = await openPage(browser, server.url, { look: true });
    const before = await held('ram');
    assert.ok(before > 0);
    await becomes(() => objectsShown(page, 'ram'), () => String(before));
    await page.click('[data-clear=ram]');
    assert.ok(await page.isVisible('#confirm'));
    assert.match(await page.textContent('#confirm-title'), /Clear RAM\?/);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'confirm-no');
    await page.keyboard.press('Enter');
    assert.equal(await page.isVisible('#confirm'), false);
    assert.equal(await held('ram'), before);
    await page.click('[data-clear=ram]');
    await page.keyboard.press('Escape');
    assert.equal(await held('ram'), before);
    await page.click('[data-clear=ram]');
    await page.click('#confirm-yes');
    await page.waitForFunction(() => /Cleared RAM/.test(document.getElementById('announcer').textContent));
    assert.equal(await held('ram'), 0);
    await becomes(() => objectsShown(page, 'ram'), () => '0');
    assert.ok(await held('ssd') > 0, 'the other tier keeps what it has');
    await close();
});

test('all tiers are cleared at once', async () => {
    await talkAndStore(31);
    const { page, close } = await openPage(browser, server.url, { look: true });
    await page.waitForSelector('#tree li');
    await page.click('#clear-all');
    await page.click('#confirm-yes');
    await page.waitForFunction(() => /Cleared all tiers/.test(document.getElementById('announcer').textContent));
    const { tiers } = await get(server.url, '/admin/stats');
    assert.deepEqual(tiers.filter(({ objects }) => objects > 0), []);
    await page.waitForFunction(() => document.querySelectorAll('#tree li').length === 0);
    assert.ok(await page.isVisible('#tree-none'));
    await close();
});

test('a probe shows what would be reused, and where two prompts part', async () => {
    const messages = await talk(server.url, 2, 41);
    const other = [...messages.slice(0, 3), { role: 'user', content: 'lantern and something else' }];
    const { page, close } = await openPage(browser, server.url, { look: true });
    await page.waitForSelector('#probe-model option', { state: 'attached' });
    const model = await page.inputValue('#probe-model');
    await page.fill('#probe-want', JSON.stringify(messages));
    /* What the page itself was told: the end of the answer may still be on its way to the tiers, so that a second probe finds more blocks. */
    const told = page.waitForResponse((response) => response.url().endsWith('/admin/cache/probe'));
    await page.click('#probe-form button');
    const alone = await (await told).json();
    await page.waitForSelector('.verdict');
    const reused = alone.prompt_tokens - alone.would.computed;
    assert.ok(reused > 100);
    assert.equal(await page.textContent('.verdict b'), `${reused} of ${alone.prompt_tokens}`);
    assert.equal(await page.locator('.blocks span').count(), alone.blocks.length);

    await page.fill('#probe-have', JSON.stringify({ messages: other }));
    await page.click('#probe-form button');
    const { first_difference: difference } = await post(server.url, '/admin/cache/probe', { model, messages, against: { messages: other } });
    assert.ok(difference.token > 100);
    await page.waitForFunction((token) => document.querySelector('.difference')?.textContent.includes(`token ${token}`), String(difference.token));
    assert.ok((await page.textContent('.difference')).includes(difference.message));
    assert.equal(await page.textContent('.have'), difference.have);
    assert.equal(await page.textContent('.want'), difference.want);
    assert.notEqual(await page.textContent('.have mark'), await page.textContent('.want mark'));

    await page.fill('#probe-have', JSON.stringify(messages));
    await page.click('#probe-form button');
    await page.waitForFunction(() => document.getElementById('probe-result').textContent.includes('are the same'));
    await close();
});

test('a probe reads the requests of every API', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    const messages = [{ role: 'user', content: 'Hello there' }], system = text(40, 9);
    await page.fill('#probe-want', JSON.stringify([{ role: 'system', content: system }, ...messages]));
    for (const body of [{ model: 'claude-x', max_tokens: 9, stream: true, system, messages }, { model: 'gpt-x', instructions: system, input: 'Hello there' }]) {
        await page.fill('#probe-have', JSON.stringify(body));
        await page.$eval('#probe-result', (result) => result.replaceChildren());
        await page.click('#probe-form button');
        await page.waitForFunction(() => document.getElementById('probe-result').textContent);
        assert.match(await page.textContent('#probe-result'), /The two prompts are the same/);
    }
    await close();
});

test('what a probe cannot read is said in the server\'s words', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true, expected: /400/ });
    await page.fill('#probe-want', '[{"role": "nobody"}]');
    await page.click('#probe-form button');
    await page.waitForSelector('#probe-result .error');
    assert.ok((await page.textContent('#probe-result .error')).length > 10);
    await close();
});

/* ---- models ---- */

test('one click measures a new prompt and the next turn', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    const button = page.locator('.model [data-do=measure]');
    const asked = async () => (await get(server.url, '/admin/stats')).session.requests;
    const before = await asked();
    await button.click();
    await page.waitForSelector('.measured dl');
    await becomes(asked, () => before + 2); /* a request is counted when its answer is out */
    /* The page has renewed the card since, and left the figures alone. */
    const requests = async () => format(page, 'exact', (await get(server.url, '/admin/models')).models[0].requests);
    await becomes(() => page.locator('.model > dl div', { hasText: 'Requests' }).locator('dd').textContent(), requests);
    const rows = await page.$$eval('.measured dl div', (parts) => parts.map((part) => [...part.children].map(({ textContent }) => textContent)));
    const [second, first] = (await get(server.url, '/admin/requests')).recent;
    const cached = second.prompt_tokens - second.tokens.computed;
    assert.ok(first.tokens.computed > 700 && cached >= first.prompt_tokens - 1, 'the first prompt is new, the second continues it');
    assert.deepEqual(rows.map(([title]) => title), ['Prefill', 'Generation',
        `First token, ${await format(page, 'exact', first.tokens.computed)} new tokens`, `Next turn, ${await format(page, 'exact', cached)} reused`]);
    for (const [title, value] of rows) assert.match(value, /^\d.* (tok\/s|ms|s)$/, title);
    assert.ok(await button.isEnabled());
    await close();
});

test('a model is unloaded and loaded by buttons, and a failure is shown', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    const buttons = () => page.$$eval('.model button:not([hidden])', (all) => all.map((button) => button.dataset.do));
    const badge = () => page.textContent('.model .state');
    const stateOf = async () => (await get(server.url, '/admin/models')).models[0].state;
    await becomes(buttons, () => ['unload', 'measure']);
    await page.click('.model [data-do=unload]');
    await becomes(badge, () => 'not loaded, default');
    assert.equal(await stateOf(), 'known');
    await becomes(buttons, () => ['load']);

    const { MODEL } = process.env;
    await rename(MODEL, `${MODEL}.away`);
    await page.click('.model [data-do=load]');
    await becomes(badge, () => 'failed, default');
    assert.equal(await page.textContent('.model .error'), `open ${MODEL}: No such file or directory. Correct that, then press Load.`);
    await becomes(buttons, () => ['load']);
    await rename(`${MODEL}.away`, MODEL);

    await page.click('.model [data-do=load]');
    await becomes(badge, () => 'ready, default');
    assert.equal(await stateOf(), 'ready');
    await becomes(() => page.textContent('.model .error'), () => '');
    await becomes(buttons, () => ['unload', 'measure']);
    await close();
});

/* ---- without a mouse ---- */

test('everything can be reached and done by keys', async () => {
    await talkAndStore(51);
    const { page, close } = await openPage(browser, server.url, { view: '' }); /* an address with a place begins there */
    await page.waitForSelector('#tree summary');
    const focused = () => page.evaluate(() => {
        const element = document.activeElement;
        const style = getComputedStyle(element.matches('.switch input') ? element.nextElementSibling : element);
        return { name: element.id || element.dataset.clear || element.name || element.className || element.textContent.slice(0, 20), seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 };
    });
    await page.keyboard.press('Tab');
    assert.equal((await focused()).name, 'skip');
    const reached = [];
    for (let presses = 0; presses < 80 && reached.at(-1) !== 'skip'; presses++) {
        await page.keyboard.press('Tab');
        const { name, seen } = await focused();
        if (await page.evaluate(() => document.activeElement === document.body)) break;
        assert.ok(seen, `the focus on ${name} cannot be seen`);
        reached.push(name);
    }
    for (const name of ['theme', 'span', 'range', 'ram', 'ssd', 'clear-all', 'tree-order', 'probe-want', 'probe-have', 'probe-model'])
        assert.ok(reached.includes(name), `${name} of ${reached}`);

    await page.focus('input[name=span][value=session]');
    await page.keyboard.press('ArrowRight');
    assert.equal(await page.isChecked('input[name=span][value=all_time]'), true);
    await page.focus('#tree summary');
    const open = () => page.$eval('#tree details', (details) => details.open);
    const was = await open();
    await page.keyboard.press('Enter');
    assert.equal(await open(), !was);
    await page.focus('[data-clear=ram]');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'confirm-yes');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => /Cleared RAM/.test(document.getElementById('announcer').textContent));
    assert.equal(await held('ram'), 0);
    assert.equal(await page.evaluate(() => document.activeElement.dataset.clear), 'ram', 'the focus is back where it was');
    await close();
});
