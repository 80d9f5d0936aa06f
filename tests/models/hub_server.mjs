// A server with the interface of Hugging Face's hub, and its faults, for tests/models/hub_test.sh.
//
//     node hub_server.mjs FOLDER PORTFILE
//
// FOLDER/USER/REPO/... are the repositories. FOLDER/faults, read for each request, has words:
//   cut=N     close each download after N bytes          norange   ignore ranges
//   bad       one byte of each download is wrong         token=T   needs Authorization: Bearer T
//   busy=N    answer the next N requests with 503        elsewhere redirect downloads to another host name
//   more      downloads have a byte more than described  long      a description that never ends
// FOLDER/log gets a line per request.
import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

const [folder, portFile] = process.argv.slice(2);
let busy = null;

function faults() {
    const file = join(folder, 'faults');
    const words = existsSync(file) ? readFileSync(file, 'utf8').trim().split(/\s+/) : [];
    return Object.fromEntries(words.filter(Boolean).map((word) => [word.split('=')[0], word.split('=')[1] ?? true]));
}

const filesOf = (repo) => readdirSync(join(folder, repo), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(join(folder, repo).length + 1));
const sum = (data, kind) => createHash(kind).update(data).digest('hex');
const revisionOf = (repo) => sum(filesOf(repo).join(), 'sha1');

function describe(repo) {
    const siblings = filesOf(repo).map((rfilename) => {
        const data = readFileSync(join(folder, repo, rfilename));
        return { rfilename, size: data.length, blobId: sum(data, 'sha1'), lfs: { sha256: sum(data, 'sha256'), size: data.length, pointerSize: 134 } };
    });
    return { id: repo, sha: revisionOf(repo), siblings };
}

function send(reply, data, range, fault) {
    const from = range && !fault.norange ? Number(/bytes=(\d+)-/.exec(range)[1]) : 0;
    if (from >= data.length && from > 0) return reply.writeHead(416).end();
    const rest = Buffer.concat([data.subarray(from), Buffer.alloc(fault.more ? 1 : 0)]);
    if (fault.bad) rest[rest.length - 1] ^= 1;
    reply.writeHead(from ? 206 : 200, { 'Content-Length': rest.length, ...(from ? { 'Content-Range': `bytes ${from}-${data.length - 1}/${data.length}` } : {}) });
    if (fault.cut && rest.length > Number(fault.cut)) return reply.write(rest.subarray(0, Number(fault.cut)), () => reply.destroy());
    return reply.end(rest);
}

const server = createServer((request, reply) => {
    const fault = faults(), url = new URL(request.url, 'http://x');
    appendFileSync(join(folder, 'log'), `${request.headers.host.split(':')[0]} ${url.pathname} ${request.headers.range ?? '-'} ${request.headers.authorization ?? '-'}\n`);
    if (fault.busy && (busy ??= Number(fault.busy)) > 0 && busy-- > 0) return reply.writeHead(503).end('later');
    const moved = url.pathname.startsWith('/cdn/');
    if (fault.token && !moved && request.headers.authorization !== `Bearer ${fault.token}`) return reply.writeHead(401).end('no');
    const info = /^\/api\/models\/([^/]+\/[^/]+)\/revision\/main$/.exec(url.pathname);
    const file = /^(?:\/cdn)?\/([^/]+\/[^/]+)\/resolve\/([0-9a-f]+)\/(.+)$/.exec(url.pathname);
    const repo = info?.[1] ?? file?.[1];
    if (!repo || !existsSync(join(folder, repo)) || (file && file[2] !== revisionOf(repo))) return reply.writeHead(404).end('none');
    if (info && fault.long) {
        reply.on('close', () => clearInterval(timer));
        const timer = setInterval(() => reply.write(Buffer.alloc(16 << 20, ' ')), 1);
        return reply.writeHead(200);
    }
    if (info) return reply.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(describe(repo)));
    if (fault.elsewhere && !moved) return reply.writeHead(302, { Location: `http://localhost:${server.address().port}/cdn${url.pathname}` }).end();
    return send(reply, readFileSync(join(folder, repo, decodeURIComponent(file[3]))), request.headers.range, fault);
});

server.listen(0, '127.0.0.1', () => writeFileSync(portFile, String(server.address().port)));
