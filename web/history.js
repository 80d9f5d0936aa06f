/*
 * history.js: prompt tokens by source over time: stacked bars drawn by uPlot, and the same numbers as a table.
 *
 * uPlot is embedded in the program when the build had it (tools/web.mk). Without it, only the table is shown, and it is open.
 *
 * uPlot knows no stacks: the series are sums, the largest drawn first, each bar covering the lower part of the one before.
 */
import { $, h, put, putAttribute, sync } from './dom.js';
import * as format from './format.js';
import { SOURCES, swatch } from './sources.js';

const BARS = 60, HEIGHT = 300;

let history = null, uPlot = null, plot = null, bins = null;

const range = () => Number(document.querySelector('input[name=range]:checked').value);

/* The steps of the history, summed into BARS bins that end now. Bins begin at whole multiples of their length, so that bars do not change. */
function binsOf(answer, seconds) {
    const length = Math.max(seconds / BARS, answer.step_s);
    const now = answer.t.length ? answer.t[answer.t.length - 1] + answer.step_s : Date.now() / 1000;
    const end = Math.ceil(now / length) * length, first = end - BARS * length;
    const times = Array.from({ length: BARS }, (_, i) => first + i * length);
    const tokens = Object.fromEntries(SOURCES.map(({ name }) => [name, new Array(BARS).fill(0)]));
    answer.t.forEach((time, i) => {
        const bin = Math.floor((time - first) / length);
        if (bin >= 0 && bin < BARS) for (const { name } of SOURCES) tokens[name][bin] += answer[name][i];
    });
    return { length, times, tokens };
}

/* Sums from below: the last series is the first source alone. */
function sumsOf({ times, tokens }) {
    const sums = [];
    let below = new Array(BARS).fill(0);
    for (const { name } of SOURCES) {
        below = below.map((value, i) => value + tokens[name][i]);
        sums.unshift(below);
    }
    return [times.map((time) => time + bins.length / 2), ...sums];
}

/* A colour of the theme that is on now, as the canvas understands it. */
const probe = h('span', { class: 'hidden', 'aria-hidden': 'true' });
function colour(name) {
    probe.className = `hidden ${name}`;
    return getComputedStyle(probe).color;
}

function axis(values) {
    return {
        stroke: () => colour('ink-muted'),
        grid: { stroke: () => colour('ink-line'), width: 1 },
        ticks: { show: false },
        font: '12px system-ui, sans-serif',
        ...values,
    };
}

function makePlot(element) {
    const bars = uPlot.paths.bars({ size: [0.82, 40], align: 0 });
    const series = [...SOURCES].reverse().map(({ name, title }) => ({
        label: title, width: 0, fill: () => colour(`ink-${name}`), paths: bars, points: { show: false },
    }));
    return new uPlot({
        width: element.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: {
            x: { range: () => [bins.times[0], bins.times[0] + BARS * bins.length] },
            y: { range: (_, low, high) => [0, Math.max(high * 1.08, 10)] },
        },
        series: [{}, ...series],
        axes: [
            axis({ size: 28, space: 70, values: (_, times) => times.map((time) => format.clock(time).slice(0, 5)) }),
            axis({ size: 58, space: 45, values: (_, values) => values.map((value) => format.count(value)) }),
        ],
        hooks: { setCursor: [(self) => renewLegend(self.cursor.idx)] },
    }, sumsOf(bins), element);
}

/* A shared store is named only where there is one. */
const named = () => SOURCES.filter(({ name }) => name !== 'remote' || bins.tokens.remote.some((value) => value > 0));

/* Of the bar below the pointer, else of all that is shown. */
function renewLegend(index) {
    const at = index ?? null;
    sync($('history-legend'), named(), ({ name }) => name,
        ({ name, title }) => h('li', {}, swatch(name), h('span', { class: 'name' }, title), h('b', {})),
        (item, { name }) => put(item.querySelector('b'), format.count(
            at === null ? bins.tokens[name].reduce((sum, value) => sum + value, 0) : bins.tokens[name][at])));
}

function renewTable() {
    if (!$('history-details').open) return;
    const shown = named();
    const rows = bins.times.map((time, i) => [time, ...shown.map(({ name }) => bins.tokens[name][i])]).reverse()
        .filter(([, ...values]) => values.some((value) => value > 0));
    $('history-table').replaceChildren(rows.length === 0 ? h('p', { class: 'muted' }, 'No tokens in this period.')
        : h('table', { class: 'small', 'aria-label': 'Prompt tokens by source' },
            h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'From'), ...shown.map(({ title }) => h('th', { scope: 'col' }, title)))),
            h('tbody', {}, ...rows.map(([time, ...values]) => h('tr', {},
                h('th', { scope: 'row' }, format.clock(time)), ...values.map((value) => h('td', {}, format.exact(value))))))));
}

function renew() {
    if (!history) return;
    bins = binsOf(history, range());
    const element = $('history-chart');
    const sum = (name) => bins.tokens[name].reduce((total, value) => total + value, 0);
    putAttribute(element, 'aria-label', `Bars of prompt tokens by source, last ${range() / 60} minutes: ` +
        named().map(({ name, title }) => `${title} ${format.exact(sum(name))}`).join(', '));
    if (uPlot && !plot) plot = makePlot(element);
    else plot?.setData(sumsOf(bins));
    if (!(plot?.cursor.idx >= 0)) renewLegend(null);
    renewTable();
}

export function showHistory(answer) {
    history = answer;
    renew();
}

export function redrawHistory() {
    plot?.redraw();
}

export async function setUpHistory() {
    document.body.append(probe);
    $('history-details').addEventListener('toggle', () => bins && renewTable());
    for (const input of document.querySelectorAll('input[name=range]')) input.addEventListener('change', renew);
    uPlot = (await import('./uplot.js')).default;
    if (!uPlot) {
        $('history-chart').hidden = true;
        $('history-details').open = true;
        return;
    }
    document.head.append(h('link', { rel: 'stylesheet', href: new URL('uplot.css', import.meta.url).href }));
    new ResizeObserver(([{ contentRect }]) => plot?.setSize({ width: contentRect.width, height: HEIGHT })).observe($('history-chart'));
    renew();
}
