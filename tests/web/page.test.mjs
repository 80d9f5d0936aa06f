/* page.test.mjs: what the dashboard shows is what the API says; in both themes, on a phone, and for a reader of the screen. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { startServer } from '../sdk/server.mjs';
import { format, get, launch, openPage, becomes, talk, worstContrast } from './browser.mjs';

let server, browser;

const stats = () => get(server.url, '/admin/stats');

before(async () => {
    [server, browser] = await Promise.all([startServer(process.env.MODEL, ['--ssd-dir', 'ssd']), launch()]);
    await talk(server.url, 3);
    await talk(server.url, 2, 11);
    await becomes(async () => (await stats()).session.requests, () => 5); /* a request is counted when its answer is out */
});

after(async () => {
    await browser?.close();
    await server?.stop();
});

const valueOf = (page, selector) => page.$eval(selector, (element) => Number(element.dataset.value));

test('efficiency, sources and sums are those of the API', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    const { session } = await stats();
    assert.ok(session.efficiency > 0.3 && session.tokens.computed > 100, 'the talks have used the cache');
    await becomes(() => page.textContent('#efficiency'), () => format(page, 'percent', session.efficiency));
    assert.equal(await valueOf(page, '#efficiency'), session.efficiency);
    for (const source of ['device', 'ram', 'ssd', 'computed'])
        assert.equal(await valueOf(page, `#sources li[data-key=${source}] b`), session.tokens[source], source);
    assert.equal(await valueOf(page, '#facts [data-key=saved] dd'), session.prompt_tokens - session.tokens.computed);
    assert.equal(await valueOf(page, '#facts [data-key=requests] dd'), 5);
    assert.equal(await page.textContent('#facts [data-key=generated] dd'), await format(page, 'count', session.generated_tokens));
    assert.ok(session.draft_tokens >= session.draft_tokens_accepted);
    assert.equal(await valueOf(page, '#facts [data-key=drafts] dd'), session.draft_tokens_accepted);
    const widths = await page.$$eval('#sources-bar span', (parts) => parts.map((part) => parseFloat(part.style.width)));
    assert.ok(Math.abs(widths.reduce((sum, width) => sum + width, 0) - 100) < 0.01, 'the parts of the bar are a whole');
    await close();
});

test('reasons of misses are those of the API, in words', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    const wanted = Object.entries((await stats()).miss).filter(([, times]) => times > 0).sort();
    assert.ok(wanted.length >= 1);
    const shown = await page.$$eval('#miss li', (rows) => rows.map((row) => [row.dataset.key, Number(row.querySelector('b').dataset.value)]));
    assert.deepEqual(shown.sort(), wanted);
    assert.ok(!(await page.textContent('#miss')).includes('_'), 'no name of an enum is shown');
    await close();
});

test('recent requests with where they came from and why not more', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    await talk(server.url, 6, 17);
    await becomes(async () => (await stats()).session.requests, () => 11);
    const { recent } = await get(server.url, '/admin/requests');
    const wanted = recent.map(({ id, prompt_tokens }) => [id, prompt_tokens]);
    const shown = () => page.$$eval('#recent tbody tr', (rows) => rows.map((row) => [row.dataset.key, Number(row.querySelector('[data-value]').dataset.value)]));
    await becomes(shown, () => wanted.slice(0, 10));
    await page.click('#recent-all');
    assert.deepEqual(await shown(), wanted);
    const short = recent.find(({ reason }) => reason === 'short');
    const why = await page.textContent(`#recent tr[data-key="${short.id}"] .why`);
    assert.match(why, /New text/);
    assert.ok(why.includes(`in ${short.message}`));
    await close();
});

test('percentages are rounded, and 100 % means all', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    for (const [share, text] of [[14 / 30, '46.7 %'], [16 / 30, '53.3 %'], [0.9999, '99.9 %'], [1, '100.0 %'], [0, '0.0 %']])
        assert.equal(await format(page, 'percent', share), text);
    await close();
});

test('servers of a shared store and its counters are those of the API', async () => {
    const alone = await startServer(process.env.MODEL, ['--ssd-dir', 'none', '--shared', 'valkey://127.0.0.1:1/x']);
    const servers = async () => (await get(alone.url, '/admin/stats')).shared;
    for (let seed = 1; (await servers())[0].opened === 0; seed++) await talk(alone.url, 1, seed); /* nothing listens there */
    const { page, close } = await openPage(browser, alone.url, { look: true });
    await becomes(() => page.$$eval('.tier[data-key=remote] .servers li', (rows) => rows.map((row) => [row.dataset.key, row.dataset.breaker])),
        async () => (await servers()).map(({ server, breaker }) => [server, breaker]));
    assert.match(await page.textContent('.tier[data-key=remote] .servers'), /127\.0\.0\.1:1: (not asked: it failed|being tried again), \d+ failures, opened \d+ times/);
    assert.match(await page.textContent('.tier[data-key=remote] .counts'), /^Not written: \d+\. False or lost: 0\. Known to be empty: \d+\.$/);
    await close();
    await alone.stop();
});

test('models and tiers are those of the API', async () => {
    const { page, close } = await openPage(browser, server.url);
    const [model] = (await get(server.url, '/admin/models')).models;
    await page.waitForSelector('.model');
    const card = await page.textContent('.model');
    for (const part of [model.id, 'ready, default', await format(page, 'bytes', model.memory_bytes), ...model.kinds])
        assert.ok(card.includes(part), part);
    const features = await page.$$eval('.model .features li', (rows) => rows.map((row) => [row.dataset.key, row.lastChild.textContent]));
    assert.deepEqual(features, Object.entries(model.features));
    const row = await page.$$eval('#model-caches tbody tr:first-child td', (cells) => cells.map((cell) => cell.textContent));
    assert.equal(row[0], model.id);
    assert.equal(row[1], await format(page, 'exact', model.cache.objects));
    assert.equal(row[7], `${await format(page, 'exact', model.cache.tails.count)}, at most ${await format(page, 'bytes', model.cache.tails.max_bytes)}`);
    assert.equal(row[9], await format(page, 'exact', model.cache.tails.tokens_saved));
    const tiers = async () => (await stats()).tiers.filter(({ state }) => state !== 'off').map(({ tier, used }) => [tier, used]);
    await becomes(() => page.$$eval('.tier', (cards) => cards.map((tier) => [tier.dataset.key, Number(tier.querySelector('.used b').dataset.value)])), tiers);
    assert.ok((await tiers()).find(([tier]) => tier === 'ram')[1] > 0, 'something is held');
    await close();
});

test('the tree has every node, and stays as it was opened', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    const { nodes } = await get(server.url, '/admin/cache/tree');
    assert.ok(nodes.length >= 3, 'two conversations share a beginning');
    await page.waitForSelector('#tree li');
    assert.deepEqual((await page.$$eval('#tree li', (rows) => rows.map((row) => row.dataset.key))).sort(), nodes.map(({ key }) => key).sort());
    for (const { key, parent } of nodes.filter(({ parent }) => parent !== null))
        assert.ok(await page.$(`#tree li[data-key="${parent}"] li[data-key="${key}"]`), 'a child stands below its parent');
    const branch = await page.$eval('#tree li:has(> details)', (row) => row.dataset.key);
    await page.click(`#tree li[data-key="${branch}"] > details > summary`);
    await page.selectOption('#tree-order', 'uses');
    assert.equal(await page.$eval(`#tree li[data-key="${branch}"] > details`, (details) => details.open), false);
    await close();
});

test('the history as bars, or as a table without uPlot', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    const drawn = !(await (await fetch(`${server.url}/ui/uplot.js`)).text()).includes('no-uplot.js');
    if (drawn) {
        await page.waitForSelector('#history-chart canvas');
        const colours = await page.$eval('#history-chart canvas', (canvas) => {
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            const seen = new Map();
            for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.set(`${data[i]},${data[i + 1]},${data[i + 2]}`, (seen.get(`${data[i]},${data[i + 1]},${data[i + 2]}`) ?? 0) + 1);
            return [...seen.values()].filter((pixels) => pixels > 20).length;
        });
        assert.ok(colours >= 2, 'bars of at least two sources');
        await page.click('#history-details summary');
    } else {
        assert.equal(await page.isVisible('#history-chart'), false);
    }
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    const sources = ['device', 'ram', 'ssd', 'computed'];
    const columns = (cells) => sources.map((_, i) => sum(cells.map((row) => row[i])));
    await becomes(
        async () => columns(await page.$$eval('#history-table tbody tr', (rows) => rows.map((row) =>
            [...row.querySelectorAll('td')].map((cell) => Number(cell.textContent.replaceAll(',', '')))))),
        async () => {
            const history = await get(server.url, '/admin/history');
            return sources.map((source) => sum(history[source]));
        });
    await close();
});

test('the lines to paste work, and are copied', async () => {
    const { page, close } = await openPage(browser, server.url, { permissions: ['clipboard-read', 'clipboard-write'] });
    const item = page.locator('#snippets li', { hasText: 'curl' });
    await item.getByRole('button').click();
    await page.waitForFunction(() => document.getElementById('announcer').textContent === 'Copied the lines for curl.');
    const line = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(line, await item.locator('pre').textContent());
    assert.ok(line.includes(`${server.url}/v1/chat/completions`));
    const { execFileSync } = await import('node:child_process');
    assert.match(execFileSync('bash', ['-c', line], { stdio: ['ignore', 'pipe', 'ignore'] }).toString(), /"object":"chat.completion"/);
    await close();
});

/* ---- themes and sizes ---- */

test('the light and the dark theme are legible', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    await page.waitForSelector('#recent tbody tr');
    for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        const ground = await page.$eval('body', (body) => getComputedStyle(body).backgroundColor);
        const [red] = ground.match(/\d+/g).map(Number);
        assert.equal(red > 128, colorScheme === 'light', ground);
        const [ratio, where] = await worstContrast(page);
        assert.ok(ratio >= 4.5, where);
    }
    await page.emulateMedia({ colorScheme: 'light' });
    await close();
});

test('a theme can be chosen, and is kept', async () => {
    const { page, close } = await openPage(browser, server.url, { colorScheme: 'light' });
    const ground = () => page.$eval('body', (body) => getComputedStyle(body).backgroundColor);
    const light = await ground();
    await page.click('#theme');
    await page.click('#theme');
    assert.match(await page.textContent('#theme'), /Dark/);
    const dark = await ground();
    assert.notEqual(dark, light);
    await page.reload();
    assert.equal(await ground(), dark);
    await page.click('#theme');
    assert.equal(await ground(), light);
    await close();
});

test('a phone of 360 pixels shows all of it', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true, viewport: { width: 360, height: 740 } });
    await page.waitForSelector('#recent tbody tr');
    await page.waitForSelector('#tree li');
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
    const beyond = await page.$$eval('main *', (elements) => elements.filter((element) => element.checkVisibility() &&
        !element.closest('pre, .scroll, .hidden, thead') && element.getBoundingClientRect().right > 361).map((element) => element.outerHTML.slice(0, 80)));
    assert.deepEqual(beyond, []);
    /* Tables become lists: each value of the caches has its own title, not one of the requests. */
    const caches = await page.$$eval('#model-caches tbody tr:first-child td', (cells) => cells.map((cell) => ['::before', '::after'].map((part) => getComputedStyle(cell, part).content)));
    const titles = await page.$$eval('#model-caches th', (heads) => heads.map(({ textContent }) => [`"${textContent}"`, 'none']));
    assert.ok(titles.length > 5);
    assert.deepEqual(caches, titles);
    await close();
});

/* ---- readers of the screen ---- */

test('landmarks, names and references are there', async () => {
    const { page, close } = await openPage(browser, server.url, { look: true });
    await page.waitForSelector('#recent tbody tr');
    for (const landmark of ['banner', 'main', 'contentinfo']) assert.equal(await page.getByRole(landmark).count(), 1, landmark);
    for (const name of ['Views', 'Sections']) assert.equal(await page.getByRole('navigation', { name }).count(), 1, name);
    for (const name of ['Overview', 'Requests', 'Models', 'Cache', 'Probe', 'Connect'])
        assert.equal(await page.getByRole('region', { name, exact: true }).count(), 1, name);
    const wrong = await page.evaluate(() => {
        const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
        const bad = ids.filter((id, i) => ids.indexOf(id) !== i).map((id) => `twice: ${id}`);
        for (const name of ['aria-labelledby', 'aria-describedby'])
            for (const element of document.querySelectorAll(`[${name}]`))
                if (!document.getElementById(element.getAttribute(name))) bad.push(`${name}: ${element.getAttribute(name)}`);
        for (const link of document.querySelectorAll('a[href^="#"]')) if (!document.querySelector(link.hash)) bad.push(`link: ${link.hash}`);
        return bad;
    });
    assert.deepEqual(wrong, []);
    /* One line per element, such as: - button "Load" */
    const lines = (await page.locator('body').ariaSnapshot()).split('\n').filter((line) => /^ *- (button|radio|combobox|textbox|progressbar|meter|img|table)\b/.test(line));
    assert.ok(lines.length > 20, lines.join('\n'));
    assert.deepEqual(lines.filter((line) => !/^ *- \w+ ["/]/.test(line)), [], 'without a name');
    await close();
});
