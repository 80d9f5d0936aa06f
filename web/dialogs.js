/*
 * dialogs.js: the two dialogs: confirm, and sign in. Both are <dialog> elements: the browser keeps the focus
 * inside, closes on Escape, and returns the focus.
 */
import { forgetKey, hasKey, onDenied, setKey } from './api.js';
import { $, announce, put } from './dom.js';

/* True if the user confirms. Cancel has the focus, so Enter alone clears nothing. */
export function confirm(title, text, yes) {
    const dialog = $('confirm');
    put($('confirm-title'), title);
    put($('confirm-text'), text);
    put($('confirm-yes'), yes);
    dialog.returnValue = '';
    dialog.showModal();
    $('confirm-no').focus();
    return new Promise((resolve) => dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true }));
}

function askForKey(error) {
    const dialog = $('login');
    put($('login-error'), hasKey() ? error.message : '');
    forgetKey();
    $('leave').hidden = true;
    if (dialog.open) return;
    dialog.showModal();
    $('login-key').focus();
}

/* `fn` is called when there is a key to try. */
export function setUpDialogs(fn) {
    $('confirm-no').addEventListener('click', () => $('confirm').close('no'));
    $('confirm-yes').addEventListener('click', () => $('confirm').close('yes'));
    $('login').addEventListener('cancel', (event) => event.preventDefault()); /* the page behind it is empty */
    $('login-form').addEventListener('submit', (event) => {
        event.preventDefault();
        setKey($('login-key').value.trim());
        $('login-key').value = '';
        fn();
    });
    $('leave').addEventListener('click', () => {
        forgetKey();
        location.reload();
    });
    onDenied(askForKey);
}

export const needsKey = () => $('login').open;

/* The key was accepted, or none was needed. */
export function signedIn() {
    $('leave').hidden = !hasKey();
    if (!$('login').open) return;
    $('login').close();
    put($('login-error'), '');
    announce('Signed in.');
}
