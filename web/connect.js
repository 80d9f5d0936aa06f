/*
 * connect.js: lines to paste, with the address that this page came from.
 */
import { hasKey, serverUrl } from './api.js';
import { $, announce, h } from './dom.js';

function snippets() {
    const url = serverUrl(), key = hasKey() ? '$HEARTH_API_KEY' : 'none';
    const auth = hasKey() ? ' \\\n  -H "Authorization: Bearer $HEARTH_API_KEY"' : '';
    return [
        ['Claude Code', `ANTHROPIC_BASE_URL=${url} ANTHROPIC_AUTH_TOKEN=${key} claude`],
        ['Codex, OpenCode, aider and others', `hearth launch codex --url ${url}`],
        ['OpenAI SDK and others', `export OPENAI_BASE_URL=${url}/v1\nexport OPENAI_API_KEY=${key}`],
        ['curl', `curl ${url}/v1/chat/completions${auth} \\\n  -H 'Content-Type: application/json' \\\n` +
            `  -d '{"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 32}'`],
        ['Python', 'import os\nfrom openai import OpenAI\n\n' +
            `client = OpenAI(base_url="${url}/v1", api_key=${hasKey() ? 'os.environ["HEARTH_API_KEY"]' : '"none"'})\n` +
            'print(client.models.list())'],
    ];
}

/* Pages that came without TLS from another machine have no clipboard; the old way still works there. */
async function copy(pre) {
    if (navigator.clipboard) return navigator.clipboard.writeText(pre.textContent);
    getSelection().selectAllChildren(pre);
    document.execCommand('copy');
    getSelection().removeAllRanges();
}

function make([title, text]) {
    const pre = h('pre', { tabindex: '0', 'aria-label': title }, text);
    const button = h('button', { class: 'quiet', type: 'button', 'aria-label': `Copy the lines for ${title}` }, 'Copy');
    button.addEventListener('click', async () => {
        await copy(pre);
        button.textContent = 'Copied';
        announce(`Copied the lines for ${title}.`);
        setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    });
    return h('li', { class: 'card' }, h('div', { class: 'head' }, h('h3', {}, title), button), pre);
}

export function showSnippets() {
    $('snippets').replaceChildren(...snippets().map(make));
}
