/*
 * theme.js: the chosen theme, before anything is painted: hence no module, which would run later. Without a chosen theme, the system's is used.
 */
'use strict';
(() => {
    const chosen = localStorage.getItem('hearth.theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
})();
