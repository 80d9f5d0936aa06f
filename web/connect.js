/*
 * connect.js: lines to paste, with the address that this page came from.
 */
import { hasKey, serverUrl } from './api.js';
import { $, copyButton, h } from './dom.js';

function snippets() {
    const url = serverUrl(), key = hasKey() ? '$HEARTH_API_KEY' : 'none';
    const auth = hasKey() ? ' \\\n  -H "Authorization: Bearer $HEARTH_API_KEY"' : '';
    return [
        ['Claude Code', `hearth launch claude --url ${url}\n# or: ANTHROPIC_BASE_URL=${url} ANTHROPIC_AUTH_TOKEN=${key} claude`],
        ['Codex, OpenCode, Qwen Code, Pi', `hearth launch codex --url ${url}`],
        ['OpenAI SDK and others', `export OPENAI_BASE_URL=${url}/v1\nexport OPENAI_API_KEY=${key}`],
        ['curl', `curl ${url}/v1/chat/completions${auth} \\\n  -H 'Content-Type: application/json' \\\n` +
            `  -d '{"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 32}'`],
        ['Python', 'import os\nfrom openai import OpenAI\n\n' +
            `client = OpenAI(base_url="${url}/v1", api_key=${hasKey() ? 'os.environ["HEARTH_API_KEY"]' : '"none"'})\n` +
            'print(client.models.list())'],
    ];
}

function make([title, text]) {
    const pre = h('pre', { tabindex: '0', 'aria-label': title }, text);
    return h('li', { class: 'card' }, h('div', { class: 'head' }, h('h3', {}, title), copyButton(() => text, `Copy the lines for ${title}`)), pre);
}

export function showSnippets() {
    $('snippets').replaceChildren(...snippets().map(make));
}
