/*
 * format.js: numbers as people read them. Nothing here rounds up to a prettier figure: 99.96 % is not 100 %.
 */

const group = new Intl.NumberFormat('en', { useGrouping: true, maximumFractionDigits: 0 });

/* Three figures: 1.23, 12.3, 123; cut off, not rounded. */
function three(value) {
    const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
    const scale = 10 ** digits;
    return (Math.floor(value * scale + 1e-9) / scale).toFixed(digits);
}

export function count(value) {
    if (!Number.isFinite(value)) return '–';
    if (value < 100000) return group.format(value);
    for (const [unit, size] of [['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]])
        if (value >= size) return `${three(value / size)} ${unit}`;
    return group.format(value);
}

export const exact = (value) => (Number.isFinite(value) ? group.format(value) : '–');

export function bytes(value) {
    if (!Number.isFinite(value)) return '–';
    for (const [unit, size] of [['TiB', 2 ** 40], ['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]])
        if (value >= size) return `${three(value / size)} ${unit}`;
    return `${group.format(value)} B`;
}

/* Rounded, but 100 % means all. */
export function percent(share) {
    if (!Number.isFinite(share)) return '–';
    const tenths = Math.round(share * 1000);
    return `${((tenths === 1000 && share < 1 ? 999 : tenths) / 10).toFixed(1)} %`;
}

export function duration(seconds) {
    if (!Number.isFinite(seconds)) return '–';
    if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 60) return `${seconds.toFixed(1)} s`;
    const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
    if (hours < 1) return `${minutes} min ${Math.floor(seconds % 60)} s`;
    if (days < 1) return `${hours} h ${minutes % 60} min`;
    return `${days} d ${hours % 24} h`;
}

/* For ages that are updated all the time: no seconds next to minutes. */
export function age(seconds) {
    if (!Number.isFinite(seconds)) return '–';
    if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} d`;
}

export function speed(perSecond) {
    if (!Number.isFinite(perSecond)) return '–';
    return `${perSecond < 100 ? perSecond.toFixed(1) : count(Math.round(perSecond))} tok/s`;
}

export const clock = (unix) => new Date(unix * 1000).toLocaleTimeString('en-GB');
export const shortHash = (key) => (key ? key.slice(0, 8) : '');
