/*
 * api.js: the admin API, with the key if the server requires one.
 *
 * The key is kept in sessionStorage: it ends with the tab, and no other site, tab or later visitor has it. Paths are relative to the page's
 * own files, so that a proxy may serve it below a folder.
 */

const root = new URL('../', import.meta.url);
const slot = 'hearth.key';
let denied = () => {};

export class ApiError extends Error {
    constructor(status, message) {
        super(message);
        this.status = status;
    }
}

export const hasKey = () => sessionStorage.getItem(slot) !== null;
export const setKey = (key) => sessionStorage.setItem(slot, key);
export const forgetKey = () => sessionStorage.removeItem(slot);

/* `fn(error)` is called when the server requires a key, or another one. */
export function onDenied(fn) {
    denied = fn;
}

export const serverUrl = () => root.href.replace(/\/$/, '');

async function errorOf(response) {
    const body = await response.json().catch(() => null);
    return new ApiError(response.status, body?.error?.message ?? `The server answered ${response.status}.`);
}

/* GET without a body, else POST. The answer, whose body is still to be read. Throws ApiError; status 0: the server is not reachable. */
export async function send(path, body, signal) {
    const headers = {};
    const key = sessionStorage.getItem(slot);
    if (key !== null) headers.authorization = `Bearer ${key}`;
    if (body !== undefined) headers['content-type'] = 'application/json';
    let response;
    try {
        response = await fetch(new URL(path, root), {
            method: body === undefined ? 'GET' : 'POST',
            headers,
            body: body === undefined ? undefined : JSON.stringify(body),
            cache: 'no-store',
            signal,
        });
    } catch (reason) {
        throw new ApiError(0, `The server is not reachable (${reason.message}).`);
    }
    if (response.ok) return response;
    const error = await errorOf(response);
    if (error.status === 401 || error.status === 403) denied(error);
    throw error;
}

export const ask = async (path, body) => (await send(path, body, AbortSignal.timeout(body === undefined ? 10000 : 120000))).json();
