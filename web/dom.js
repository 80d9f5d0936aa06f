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
