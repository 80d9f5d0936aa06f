/*
 * dom.js: helpers that build and update elements.
 *
 * Values go into a page as text, never as markup, and widths through the style object: the server's policy allows no inline style. Lists are
 * updated in place, so that the focus and anything the user has opened or selected stay as they are.
 */

export const $ = (id) => document.getElementById(id);

/* h('p', {class: 'muted', onclick: fn}, 'text', child): attributes by name, handlers by on..., null children are left out. */
export function h(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (value === null || value === undefined || value === false) continue;
        if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
        else element.setAttribute(name, value === true ? '' : value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
}

/* A small drawing of lines, 16 by 16. */
const ICONS = {
    add: 'M8 3v10M3 8h10', again: 'M13 3v3.5H9.5M12.6 6.5A5 5 0 1 0 13 9', attach: 'M12.5 7 8 11.5a2.5 2.5 0 0 1-3.5-3.5L9 3.5a1.7 1.7 0 0 1 2.4 2.4L7 10.3a.8.8 0 0 1-1.1-1.1L9.5 5.5',
    beside: 'M2.5 3.5h11v9h-11zM8 3.5v9', branch: 'M4.5 5.5v5M4.5 7.5c0 2 7 .5 7-2M4.5 5.5a1.3 1.3 0 1 0 0-2.6 1.3 1.3 0 0 0 0 2.6zM4.5 13.1a1.3 1.3 0 1 0 0-2.6 1.3 1.3 0 0 0 0 2.6zM11.5 5.5a1.3 1.3 0 1 0 0-2.6 1.3 1.3 0 0 0 0 2.6z',
    close: 'M4 4l8 8M12 4l-8 8', edit: 'M3 13l.7-3L10.5 3.2l2.3 2.3L6 12.3zM9 4.7 11.3 7', list: 'M2.5 4h11M2.5 8h11M2.5 12h7',
    next: 'M6 3.5 10.5 8 6 12.5', previous: 'M10 3.5 5.5 8l4.5 4.5', remove: 'M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 8.5h6l.5-8.5',
    send: 'M8 13V3.5M4 7.5l4-4 4 4', settings: 'M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6M10 3.5v3M6 9.5v3', stop: 'M4.5 4.5h7v7h-7z',
};

export function icon(name) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), path = document.createElementNS(svg.namespaceURI, 'path');
    svg.setAttribute('viewBox', '0 0 16 16');
    svg.setAttribute('class', 'icon');
    svg.setAttribute('aria-hidden', 'true');
    path.setAttribute('d', ICONS[name]);
    svg.append(path);
    return svg;
}

/* A button that is only a drawing has its name for screen readers, and for those who point at it. */
export const iconButton = (name, label, attributes = {}) =>
    h('button', { type: 'button', class: 'quiet round', 'aria-label': label, title: label, ...attributes }, icon(name));

/* Writes only changes: every write disturbs screen readers and selections. */
export function put(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

export function putAttribute(element, name, value) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/* One child of `parent` per item, in their order. `make(item)` builds one, `renew(element, item)` updates it. */
export function sync(parent, items, keyOf, make, renew = () => {}) {
    const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
    items.forEach((item, i) => {
        const key = String(keyOf(item));
        let element = old.get(key);
        if (!element) {
            element = make(item);
            element.dataset.key = key;
        }
        old.delete(key);
        renew(element, item);
        if (parent.children[i] !== element) parent.insertBefore(element, parent.children[i] ?? null);
    });
    for (const element of old.values()) element.remove();
}

/* For screen readers. */
export function announce(text) {
    const announcer = $('announcer');
    announcer.textContent = '';
    announcer.textContent = text;
}

/* Pages that came without TLS from another machine have no clipboard; the old way still works there. */
async function copy(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const area = h('textarea', { class: 'hidden', 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
}

/* Copies a text for a button, and says so. */
export async function copyFor(button, text) {
    await copy(text);
    button.textContent = 'Copied';
    announce(`${button.getAttribute('aria-label').replace(/^Copy/, 'Copied')}.`);
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
}

/* A button that copies what `text()` returns. `label` says what that is. */
export const copyButton = (text, label) =>
    h('button', { class: 'quiet', type: 'button', 'aria-label': label, onclick: (event) => copyFor(event.target, text()) }, 'Copy');
