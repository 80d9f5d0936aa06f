/*
 * browser.mjs: a browser for the tests of this folder. Each page is checked: no message on the console, no violation of the policy, no request
 * to any server but the one under test.
 */
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

export const launch = () => chromium.launch({ executablePath: process.env.BROWSER, args: ['--disable-gpu'] });

async function newPage(browser, context) {
    const page = await (await browser.newContext({ reducedMotion: 'reduce', ...context })).newPage();
    page.setDefaultTimeout(15000);
    await page.addInitScript(() => addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective}`)));
    return page;
}

const EVENTS = ['console', 'pageerror', 'request'];
const SIZE = { width: 1280, height: 720 };
let spare = null; /* the page of an earlier test: a new one costs a second */

/* As a new page would be: nothing is stored. */
async function renew(page) {
    if (page.url() === 'about:blank') return;
    await page.evaluate(() => { localStorage.clear(); sessionStorage.clear(); });
    await page.goto('about:blank');
    await page.emulateMedia({ colorScheme: null });
}

/* Opens the page of `url` and waits until it is live. `expected`: messages that this test provokes. `view`: where; '' is where the page chooses.
 * `look`: the test does not mind what earlier tests did on the page, which is used as they left it. */
export async function openPage(browser, url, { expected = null, live = true, view = '#overview', look = false, viewport = SIZE, ...context } = {}) {
    const complaints = [], address = `${url}/${view}`, plain = Object.keys(context).length === 0;
    const page = (plain && spare) || await newPage(browser, { viewport, ...context });
    const complain = (text) => { if (!expected?.test(text)) complaints.push(text); };

    if (plain) spare = null; /* a second page that is opened meanwhile is a new one */
    await page.setViewportSize(viewport);
    if (!look || page.url() !== address) await renew(page);
    page.on('console', (message) => { if (message.type() !== 'log') complain(`${message.type()}: ${message.text()}`); });
    page.on('pageerror', (error) => complain(`error: ${error.message}`));
    page.on('request', (request) => { if (new URL(request.url()).origin !== url) complain(`asked ${request.url()}`); });
    if (page.url() !== address) await page.goto(address);
    if (live) await page.waitForSelector('#link[data-state=ok]');
    return {
        page,
        /* To be called at the end of each test. */
        close: async () => {
            if (plain && !spare) spare = page;
            else await page.context().close();
            for (const event of EVENTS) page.removeAllListeners(event);
            assert.deepEqual(complaints, []);
        },
    };
}

export async function get(url, path, headers = {}) {
    const response = await fetch(url + path, { headers });
    assert.equal(response.status, 200, path);
    return response.json();
}

export async function post(url, path, body, headers = {}) {
    const response = await fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) });
    assert.equal(response.status, 200, `${path}: ${await response.clone().text()}`);
    return response.json();
}

const WORDS = 'river stone lamp cloud harvest window copper violin garden thunder paper anchor meadow candle bridge winter'.split(' ');
export const text = (count, seed) => Array.from({ length: count }, (_, i) => WORDS[(i * seed + (i % 5) + seed) % WORDS.length]).join(' ');

/* A conversation of some turns; returns its messages, the last one an answer. */
export async function talk(url, turns, seed = 3, headers = {}) {
    const messages = [{ role: 'system', content: text(150, 7) }];
    for (let turn = 0; turn < turns; turn++) {
        messages.push({ role: 'user', content: text(40, seed + turn) });
        const answer = await post(url, '/v1/chat/completions', { messages, max_tokens: 8 }, headers);
        messages.push({ role: 'assistant', content: answer.choices[0].message.content });
    }
    return messages;
}

/* What the page's own formatter makes of a value. */
export const format = (page, name, value) => page.evaluate(async ([n, v]) => (await import('/ui/format.js'))[n](v), [name, value]);

/* Waits until what `read` gives (of the page) equals what `want` gives (of the API): the page asks in its own time. */
export async function becomes(read, want) {
    let got, wanted;
    for (let tries = 0; tries < 150; tries++) {
        got = await read();
        wanted = await want();
        try {
            assert.deepEqual(got, wanted);
            return;
        } catch {
            await new Promise((resolve) => setTimeout(resolve, 100));
        }
    }
    assert.deepEqual(got, wanted);
}

/* The lowest contrast of any visible text with what is behind it. */
export const worstContrast = (page) => page.evaluate(() => {
    const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const over = (colours) => {
        context.clearRect(0, 0, 1, 1);
        for (const colour of colours) {
            context.fillStyle = colour;
            context.fillRect(0, 0, 1, 1);
        }
        return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (rgb) => {
        const [r, g, b] = rgb.map((value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    let worst = [Infinity, ''];
    for (const element of document.querySelectorAll('body *')) {
        const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join('');
        if (!text || !element.checkVisibility({ visibilityProperty: true }) || element.closest('.hidden, .skip, noscript')) continue;
        const grounds = [];
        for (let behind = element; behind; behind = behind.parentElement) grounds.unshift(getComputedStyle(behind).backgroundColor);
        const [a, b] = [light(over([...grounds, getComputedStyle(element).color])), light(over(grounds))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < worst[0]) worst = [ratio, `${element.tagName} "${text.slice(0, 40)}" ${ratio.toFixed(2)}`];
    }
    return worst;
});
