/* chat.test.mjs: the chat of the page: what a person does in it, what each answer says about its prompt, and that a model's text never runs. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { startServer } from '../sdk/server.mjs';
import { becomes, format, get, launch, openPage, worstContrast } from './browser.mjs';

const options = ['--ssd-dir', 'ssd', '-c', '8192', '-m', `second=${process.env.MODEL}`];
let server, browser;

before(async () => {
    [server, browser] = await Promise.all([startServer(process.env.MODEL, options), launch()]);
});

after(async () => {
    await browser?.close();
    await server?.stop();
});

/* `fresh`: without the conversations of earlier tests. */
async function openChat({ fresh = false, ...context } = {}) {
    const opened = await openPage(browser, server.url, { view: '#chat', look: !fresh, ...context });
    await opened.page.$eval('#new-chat', (button) => button.click()); /* on a phone it is in a list */
    return opened;
}
const box = '.pane .composer textarea';
const answers = (page) => page.locator('.message.assistant');

/* Short answers, and always the same. */
async function settle(page, { longest = '8', temperature = '0' } = {}) {
    await page.click('[data-do=settings]');
    await page.fill('[name=longest]', longest);
    await page.fill('[name=temperature]', temperature);
    await page.click('[data-do=settings]');
}

const finished = (page, count) => page.waitForFunction((wanted) => document.querySelectorAll('.message.assistant:not(.running) .reuse:not([hidden])').length === wanted, count);

async function say(page, text, count) {
    await page.fill(box, text);
    await page.press(box, 'Enter');
    await finished(page, count);
}

const figures = (page, nth = -1) => page.locator('.reuse .figures').nth(nth).textContent();
const reused = async (page, nth = -1) => (await figures(page, nth)).match(/^([\d,]+) of ([\d,]+)/).slice(1).map((text) => Number(text.replaceAll(',', '')));

/* Stored conversations, for what a small model would never write. */
const put = (page, nodes, more = {}) => page.evaluate(([list, rest]) => {
    localStorage.setItem('hearth.chat.t', JSON.stringify({ id: 't', used: 1, model: '', system: '', tools: '', temperature: '0', longest: '8', thinking: '', nodes: list, leaf: list.at(-1).id, ...rest }));
    localStorage.setItem('hearth.panes', '["t"]');
}, [nodes, more]);

test('a server without requests opens the chat, and explains instead of showing zeros', async () => {
    const { page, close } = await openPage(browser, server.url, { view: '' });
    await page.waitForSelector('#chat .hello', { state: 'visible' });
    assert.equal(await page.evaluate(() => document.activeElement.matches('.composer textarea')), true);
    assert.equal(await page.isVisible('.attach'), false, 'the model takes no pictures');
    await page.click('.views a[href="#overview"]');
    await page.waitForSelector('#welcome', { state: 'visible' });
    assert.equal(await page.isVisible('#overview'), false);
    assert.ok(await page.evaluate(() => document.getElementById('welcome').nextElementSibling.id === 'connect'), 'Connect comes first');
    await page.click('#welcome a');
    await page.waitForSelector('#chat', { state: 'visible' });
    await close();
});

test('an answer says what was reused, and the next turn computes only its own text', async () => {
    const { page, close } = await openChat({ viewport: { width: 420, height: 480 } }); /* too small for details without scrolling */
    await settle(page);
    await say(page, 'The river runs under the old stone bridge, and the lamp is lit in the window.', 1);
    const [record] = (await get(server.url, '/admin/requests')).recent;
    assert.deepEqual(await reused(page), [record.prompt_tokens - record.tokens.computed, record.prompt_tokens]);
    assert.match(await figures(page), /first token after .* tok\/s$/);
    const speed = await format(page, 'speed', record.tokens_per_s);
    assert.ok((await figures(page)).endsWith(` ${speed}`), `${speed} in ${await figures(page)}`);
    await say(page, 'Go on.', 2);
    const [again, whole] = await reused(page);
    assert.ok(again >= record.prompt_tokens, `${again} of ${whole} reused`);
    await page.locator('.reuse summary').last().click();
    await page.waitForFunction(() => /New text at token [\d,]+, in \w+\[\d\]/.test([...document.querySelectorAll('.reason')].at(-1).textContent));
    await page.waitForFunction(() => [...document.querySelectorAll('.message .buttons')].at(-1).getBoundingClientRect().bottom <= document.querySelector('.composer').getBoundingClientRect().top);
    await page.click('.views a[href="#overview"]');
    await page.waitForSelector('#overview', { state: 'visible' });
    assert.match(await page.textContent('#recent tbody tr .request'), /The river runs.*Chrome/);
    assert.equal((await page.textContent('#recent tbody tr:nth-child(2) [data-label=Answer] small')).trim(), speed);
    await close();
});

test('an edit is another version, and shows where the prompts differ; another answer is a full hit', async () => {
    const { page, close } = await openChat();
    await settle(page);
    await say(page, 'Name a city in the north of the country.', 1);
    await say(page, 'Name a second city, please.', 2);
    await page.press(box, 'ArrowUp');
    await page.fill('.edit textarea', 'Name a second river, please.');
    await page.press('.edit textarea', 'Enter');
    await page.waitForSelector('.diverged p');
    assert.match(await page.textContent('.diverged p'), /Diverges at token [\d,]+, in user\[\d\]/);
    assert.match(await page.textContent('.diverged .have mark'), /^c/);
    assert.match(await page.textContent('.diverged .want mark'), /^r/);
    const [kept, whole] = await reused(page);
    assert.ok(kept > whole / 2, 'everything before the edit is reused');
    const edited = page.locator('.message.user').last();
    assert.match(await edited.locator('.pager').textContent(), /2 of 2/);
    await page.waitForSelector('.message.assistant:last-child:not(.running)');
    await edited.locator('[data-do=previous]').click();
    const shows = (text) => page.waitForFunction((wanted) => [...document.querySelectorAll('.message.user .body')].at(-1).textContent === wanted, text);
    await shows('Name a second city, please.');
    await page.locator('.message.user').last().locator('[data-do=next]').click();
    await shows('Name a second river, please.'); /* or the key below is that of the other version's answer */
    const before = await answers(page).last().getAttribute('data-key');
    await answers(page).last().locator('[data-do=again]').click();
    /* The new answer replaces the old one at once, but has no figures before it has ended. */
    await page.waitForFunction((key) => {
        const last = [...document.querySelectorAll('.message.assistant')].at(-1);
        return last.dataset.key !== key && last.matches(':not(.running)') && last.querySelector('.reuse:not([hidden])');
    }, before);
    assert.match(await answers(page).last().locator('.pager').textContent(), /2 of 2/);
    const [all, of] = await reused(page);
    assert.ok(all >= of - 1, `${all} of ${of}`);
    await close();
});

test('the system prompt and the chosen model are sent', async () => {
    const { page, close } = await openChat();
    await settle(page);
    await page.click('[data-do=settings]');
    await page.fill('[name=system]', 'Answer in one word.');
    await page.click('[data-do=settings]');
    const picker = page.getByRole('combobox', { name: 'Model' });
    await becomes(async () => (await picker.locator('option').allTextContents()).sort(), async () => (await get(server.url, '/admin/models')).models.map(({ id }) => id).sort());
    await picker.selectOption('second');
    await say(page, 'Good evening.', 1);
    await becomes(async () => {
        const [{ model, words }] = (await get(server.url, '/admin/requests')).recent;
        return { model, words };
    }, () => ({ model: 'second', words: 'Good evening.' }));
    const [, whole] = await reused(page);
    await page.click('[data-do=settings]');
    await page.fill('[name=system]', '');
    await page.click('[data-do=settings]');
    await answers(page).last().locator('[data-do=again]').click();
    await page.waitForFunction((old) => Number([...document.querySelectorAll('.message.assistant:not(.running) .figures')].at(-1)?.textContent.match(/of ([\d,]+)/)?.[1]) < old, whole);
    await close();
});

test('a branch stands beside its conversation, and both answer', async () => {
    const { page, close } = await openChat({ fresh: true, viewport: { width: 1400, height: 800 } });
    await settle(page);
    await say(page, 'A first word about lanterns and their light.', 1);
    await answers(page).first().locator('[data-do=branch]').click();
    await page.waitForFunction(() => document.querySelectorAll('.pane').length === 2);
    for (const [i, text] of ['Left, then.', 'Right, then.'].entries()) {
        await page.locator(box).nth(i).fill(text);
        await page.locator(box).nth(i).press('Enter');
    }
    await finished(page, 4);
    assert.deepEqual((await page.locator('#conversations .title').allTextContents()).sort(), ['A first word about lanterns and their light.', 'Right, then.']);
    assert.ok(await page.$eval('#conversations', (list) => list.scrollWidth <= list.clientWidth), 'long titles are cut, and leave room for the button');
    await page.mouse.move(700, 400);
    const widths = await page.$$eval('#conversations .title', (titles) => titles.map((title) => [title.offsetWidth, title.parentElement.clientWidth]));
    for (const [title, row] of widths) assert.ok(title >= row - 2, `${title} of ${row}: the buttons take no room before they are needed`);
    await page.locator('.pane').last().locator('[data-do=close]').click();
    assert.equal(await page.locator('.pane').count(), 1);
    await page.locator('#conversations li').last().hover();
    await page.locator('#conversations li [data-do=delete]').last().click();
    await page.click('#confirm-yes');
    await page.waitForFunction(() => document.querySelectorAll('#conversations li').length === 1);
    await close();
});

test('an answer can be stopped, and says what it cost', async () => {
    const { page, close } = await openChat();
    await settle(page, { longest: '8000', temperature: '1' });
    await page.fill(box, 'Tell a very long story.');
    await page.press(box, 'Enter');
    await page.waitForFunction(() => document.querySelector('.message.assistant.running .body')?.textContent.length > 10);
    await page.press(box, 'Escape');
    await finished(page, 1);
    await becomes(async () => (await page.textContent('.message.assistant .wait')), () => 'Stopped.');
    assert.ok((await reused(page))[1] > 5);
    assert.ok(await page.isVisible('.send'));
    await becomes(async () => (await get(server.url, '/admin/requests')).requests.length, () => 0);
    await close();
});

test('tools are JSON; their calls are shown, and their results are sent', async () => {
    const { page, close } = await openChat();
    await settle(page);
    await page.click('[data-do=settings]');
    await page.fill('[name=tools]', '[{"type": ');
    await page.fill(box, 'What is the weather?');
    await page.press(box, 'Enter');
    assert.match(await page.textContent('.problem'), /not valid JSON/);
    await page.click('[data-do=examples]');
    assert.equal(JSON.parse(await page.inputValue('[name=tools]'))[0].function.name, 'get_weather');
    const tools = await page.inputValue('[name=tools]');
    await put(page, [
        { id: 'a', parent: null, role: 'user', content: 'What is the weather in Rome?' },
        { id: 'b', parent: 'a', role: 'assistant', content: '', reasoning: '', calls: [{ id: 'call_1', name: 'get_weather', arguments: '{"city":"Rome"}' }], finish: 'tool_calls',
            stats: { tokens: { device: 0, ram: 0, ssd: 0, remote: 0, computed: 9 }, prompt: 9, reason: 'cold', token: 0, message: null, generated: 12, ttft_s: 1, speed: 1, drafted: 10, accepted: 7 } },
    ], { tools });
    await page.reload();
    await page.waitForFunction(() => /get_weather.*Rome/s.test(document.querySelector('.calls')?.textContent));
    assert.equal(await page.textContent('.reuse .counts'), '12 tokens generated, 7 of 10 draft tokens accepted');
    assert.equal(JSON.parse(await page.inputValue('.results textarea')).city, 'Rome');
    const sent = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'));
    await page.click('.results button');
    const { messages } = (await sent).postDataJSON();
    assert.equal(messages.at(-1).role, 'tool');
    assert.equal(messages.at(-1).tool_call_id, 'call_1');
    assert.equal(messages.at(-2).tool_calls[0].function.name, 'get_weather');
    await finished(page, 1);
    await close();
});

test('conversations stay in the browser, and a restarted server has their prefix', async () => {
    const { page, close } = await openChat({ fresh: true, expected: /ERR_CONNECTION_REFUSED|Failed to load/ });
    await settle(page);
    await page.click('[data-do=settings]');
    await page.fill('[name=system]', 'You are a keeper of long stories about rivers, stones, lamps and bridges. '.repeat(12));
    await page.click('[data-do=settings]');
    await say(page, 'Begin with the river.', 1);
    await say(page, 'Now the bridge.', 2);
    const stored = await page.evaluate(() => Object.entries(localStorage));
    await server.stop();
    server = await startServer(process.env.MODEL, options);
    const second = await openChat();
    await second.page.evaluate((entries) => entries.forEach(([key, value]) => localStorage.setItem(key, value)), stored);
    await second.page.reload();
    assert.equal(await second.page.locator('.message').count(), 4);
    await say(second.page, 'And the lamp?', 3);
    const [again, whole] = await reused(second.page);
    assert.ok(again > whole / 2, `${again} of ${whole} after the restart`);
    assert.ok(await second.page.locator('.reuse').last().locator('.source-ssd').count() > 0, 'from the SSD');
    await second.close();
    await close();
});

/* ---- what a model writes ---- */

const HOSTILE = [
    '<script>window.hit = 1</script>', '<img src=x onerror="window.hit = 1">', '[click](javascript:window.hit=1)', '[click](  JaVaScRiPt:window.hit=1)',
    '[a](data:text/html,<script>window.hit=1</script>)', '![x](javascript:window.hit=1)', '![x](https://example.org/x.png)', '<https://x.y/" onmouseover="window.hit=1>',
    '[x](https://a.b/"onclick="window.hit=1)', '```js"><script>window.hit=1</script>\ncode\n```', '| <svg onload=window.hit=1> | b |\n|---|---|\n| <b>x</b> | y |',
    '**<iframe srcdoc="<script>parent.hit=1</script>">**', '`<script>window.hit=1</script>`', '> <style>*{display:none}</style>', '[x](vbscript:x) [y](file:///etc/passwd)',
    `${'> '.repeat(400)}deep`, `${'- '.repeat(400)}deep`, '*a '.repeat(3000), '['.repeat(3000), '`'.repeat(3000), '<form action="https://evil"><input name=q>',
];

test('the text of a model never runs, loads or leads anywhere unsafe', async () => {
    const { page, close } = await openChat();
    const found = await page.evaluate(async (texts) => {
        const { renderMarkdown } = await import('/ui/markdown.js');
        const wrong = [], allowed = new Set('P STRONG EM S CODE PRE A BR UL OL LI BLOCKQUOTE TABLE THEAD TBODY TR TH TD DIV FIGURE FIGCAPTION SPAN BUTTON HR H3 H4 H5 H6'.split(' '));
        for (const text of texts) {
            const place = document.createElement('div');
            document.body.append(place);
            const begun = performance.now();
            renderMarkdown(place, text);
            if (performance.now() - begun > 2000) wrong.push(`slow: ${text.slice(0, 40)}`);
            for (const element of place.querySelectorAll('*')) {
                if (!allowed.has(element.tagName)) wrong.push(`${element.tagName} of ${text.slice(0, 40)}`);
                for (const { name, value } of element.attributes)
                    if (name.startsWith('on') || name === 'style' || name === 'src' || (name === 'href' && !/^(https?:\/\/|mailto:)/.test(value))) wrong.push(`${name}=${value} of ${text}`);
            }
            place.remove();
        }
        return wrong;
    }, HOSTILE);
    assert.deepEqual(found, []);
    await put(page, [{ id: 'a', parent: null, role: 'user', content: HOSTILE.slice(0, 12).join('\n') },
        { id: 'b', parent: 'a', role: 'assistant', content: HOSTILE.slice(0, 16).join('\n\n'), reasoning: HOSTILE[0], calls: [{ id: 'x', name: HOSTILE[1], arguments: HOSTILE[0] }], finish: 'stop', stats: null }]);
    await page.reload();
    await page.waitForSelector('.message.assistant .body *');
    assert.equal(await page.evaluate(() => window.hit), undefined);
    assert.equal(await page.locator('.message script, .message iframe, .message img, .message form:not(.edit)').count(), 0);
    await close();
});

test('Markdown becomes what it means', async () => {
    const { page, close } = await openChat();
    const html = await page.evaluate(async () => {
        const { renderMarkdown } = await import('/ui/markdown.js');
        const place = document.createElement('div');
        renderMarkdown(place, '# Head\n\na **b** *c* `d<e` ~~f~~ snake_case_name 2*3*4\nline\n\n1. one\n   - inner\n2. two\n\n| h | n |\n|---|--:|\n| x | 1 |\n\n> q\n\n---\n\n[l](https://a.b/c_(d)) https://e.f/g.\n\n```py\nif x: # y\n```');
        const first = place.firstChild;
        renderMarkdown(place, '# Head\n\nother');
        const kept = first === place.firstChild;
        renderMarkdown(place, '# Head\n\na **b** *c* `d<e` ~~f~~ snake_case_name 2*3*4\nline\n\n1. one\n   - inner\n2. two\n\n| h | n |\n|---|--:|\n| x | 1 |\n\n> q\n\n---\n\n[l](https://a.b/c_(d)) https://e.f/g.\n\n```py\nif x: # y\n```');
        return { kept, html: place.innerHTML };
    });
    assert.ok(html.kept, 'unchanged blocks keep their elements');
    for (const part of ['<h3>Head</h3>', '<p>a <strong>b</strong> <em>c</em> <code>d&lt;e</code> <s>f</s> snake_case_name 2*3*4<br>line</p>', '<ol><li>one<ul><li>inner</li></ul></li><li>two</li></ol>',
        '<th scope="col">h</th><th class="number" scope="col">n</th>', '<td class="number">1</td>', '<blockquote><p>q</p></blockquote>', '<hr>', 'href="https://a.b/c_(d)"', '>https://e.f/g</a>.',
        '<span class="code-keyword">if</span> x: <span class="code-comment"># y</span>'])
        assert.ok(html.html.includes(part), `${part} in ${html.html}`);
    await close();
});

/* ---- everyone can use it ---- */

test('the chat is legible in both themes, and reachable by keys', async () => {
    const { page, close } = await openChat({ fresh: true });
    await settle(page);
    await say(page, 'A word.', 1);
    await page.locator('.reuse summary').click();
    await page.click('[data-do=settings]');
    for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        const [ratio, where] = await worstContrast(page);
        assert.ok(ratio >= 4.5, where);
    }
    const nameless = await page.$$eval('#chat :is(button, select, textarea, input)', (controls) => controls.filter((control) => control.checkVisibility() &&
        !control.textContent.trim() && !control.getAttribute('aria-label') && !control.labels?.length).map((control) => control.outerHTML));
    assert.deepEqual(nameless, []);
    await page.focus('#new-chat');
    const reached = new Set();
    for (let presses = 0; presses < 40; presses++) {
        await page.keyboard.press('Tab');
        reached.add(await page.evaluate(() => document.activeElement.dataset.do ?? document.activeElement.name ?? document.activeElement.className));
    }
    for (const name of ['open', 'delete', 'settings', 'system', 'tools', 'edit', 'again', 'branch', 'copy', 'text']) assert.ok(reached.has(name), `${name} of ${[...reached]}`);
    await close();
});

test('a phone of 360 pixels has room for it, and a list to open', async () => {
    const { page, close } = await openChat({ viewport: { width: 360, height: 740 }, hasTouch: true });
    await settle(page);
    await say(page, `A ${'verylongword'.repeat(12)} and a word.`, 1);
    const beyond = () => page.$$eval('#chat *', (elements) => elements.filter((element) => element.checkVisibility() && !element.closest('pre, .scroll, .hidden') &&
        element.getBoundingClientRect().right > 361).map((element) => element.outerHTML.slice(0, 80)));
    assert.deepEqual(await beyond(), []);
    assert.equal(await page.isVisible('#sidebar'), false);
    await page.click('[data-do=list]');
    assert.ok(await page.isVisible('#sidebar'));
    await page.keyboard.press('Escape');
    assert.equal(await page.isVisible('#sidebar'), false);
    await close();
});
