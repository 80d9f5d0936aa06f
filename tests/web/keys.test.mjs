/* keys.test.mjs: who may look: the admin key is asked for, kept for the tab only, and forgotten; sums of all runs; a server that goes and comes. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { startServer } from '../sdk/server.mjs';
import { format, get, launch, openPage, becomes, talk } from './browser.mjs';

const keyed = ['--api-key', 'alice:sesame', '--admin-key', 'open'];
const admin = { authorization: 'Bearer open' };
const denied = /401|403/; /* what a browser says of these answers */
let server, browser;

before(async () => {
    browser = await launch();
    server = await startServer(process.env.MODEL, keyed);
    await talk(server.url, 2, 3, admin);
    await becomes(async () => (await get(server.url, '/admin/stats', admin)).session.requests, () => 2);
});

after(async () => {
    await browser?.close();
    await server?.stop();
});

async function signIn(page, key) {
    await page.fill('#login-key', key);
    await page.keyboard.press('Enter');
}

test('a wrong key and a user\'s key are refused, the admin key is not', async () => {
    const { page, close } = await openPage(browser, server.url, { live: false, expected: denied });
    await page.waitForSelector('#login[open]');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'login-key');
    assert.equal(await page.getAttribute('#login-key', 'type'), 'password');
    await page.keyboard.press('Escape');
    assert.ok(await page.isVisible('#login'), 'there is nothing behind it');
    assert.equal(await page.textContent('#efficiency'), '–');
    await signIn(page, 'wrong');
    await page.waitForFunction(() => /not valid/.test(document.getElementById('login-error').textContent));
    await signIn(page, 'sesame');
    await page.waitForFunction(() => /admin key/.test(document.getElementById('login-error').textContent));
    await signIn(page, 'open');
    await page.waitForSelector('#link[data-state=ok]');
    assert.equal(await page.isVisible('#login'), false);
    const { session } = await get(server.url, '/admin/stats', admin);
    assert.equal(await page.textContent('#efficiency'), await format(page, 'percent', session.efficiency));
    await close();
});

test('the key stays in the tab, and goes when told', async () => {
    const { page, close } = await openPage(browser, server.url, { live: false, expected: denied });
    await page.waitForSelector('#login[open]');
    await signIn(page, 'open');
    await page.waitForSelector('#link[data-state=ok]');
    assert.deepEqual(await page.evaluate(() => [Object.values(sessionStorage), JSON.stringify(localStorage), document.cookie]), [['open'], '{}', '']);
    assert.ok(!(await page.content()).includes('>open<') && !page.url().includes('open'));
    await page.reload();
    await page.waitForSelector('#link[data-state=ok]');
    const second = await page.context().newPage();
    await second.goto(server.url);
    await second.waitForSelector('#login[open]');
    await second.close();
    assert.ok((await page.textContent('#snippets')).includes('$HEARTH_API_KEY'));
    await page.click('#leave');
    await page.waitForSelector('#login[open]');
    assert.deepEqual(await page.evaluate(() => Object.values(sessionStorage)), []);
    await close();
});

/* The last one: it ends the server. */
test('a server that goes is missed, and its sums outlive it', async () => {
    const { page, close } = await openPage(browser, server.url, { live: false, expected: /40[13]|ERR_|Failed to load/ });
    await page.waitForSelector('#login[open]');
    await signIn(page, 'open');
    await page.waitForSelector('#link[data-state=ok]');
    const { session } = await get(server.url, '/admin/stats', admin);
    assert.equal(await server.stop(), 0);
    await page.waitForSelector('#link[data-state=bad]');
    assert.equal(await page.textContent('#link'), 'no connection');
    const { port } = server;
    server = await startServer(process.env.MODEL, [...keyed, '--port', String(port)]);
    await page.waitForSelector('#link[data-state=ok]', { timeout: 20000 });
    await becomes(() => page.textContent('#facts [data-key=requests] dd'), () => '0');
    await page.check('input[name=span][value=all_time]', { force: true });
    assert.equal(await page.textContent('#facts [data-key=requests] dd'), '2');
    assert.equal(await page.textContent('#efficiency'), await format(page, 'percent', session.efficiency));
    await close();
});
