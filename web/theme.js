/*
 * theme.js: the chosen theme, before anything is painted: hence no module, which would run later. No choice is the system's.
 */
'use strict';
(() => {
    const chosen = localStorage.getItem('hearth.theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
})();
