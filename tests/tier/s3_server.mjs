// An S3 server for tests/tier/kv_s3_test.c: s3rver of the npm registry, which stores the objects, behind
// the checks that it lacks.
//
//     node s3_server.mjs FOLDER PORTFILE        the bucket is "test", the key is in ACCESS_ID and SECRET
//
//   signature   Signature Version 4 is computed here from its description and Node's crypto; another
//               one, or a clock that differs by more than 15 minutes, is refused with 403
//   If-None-Match: *   a PUT of an existing object is refused with 412
//   lists       are refused with 400: hearth must never need one
//
// FOLDER/log gets a line per request: method, path, status.
import { createHash, createHmac } from 'node:crypto';
import { appendFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const S3rver = createRequire(join(process.cwd(), '.deps/s3/'))('s3rver');
const [folder, portFile] = process.argv.slice(2);
const { ACCESS_ID, SECRET } = process.env;
const store = new S3rver({ directory: folder, silent: true, vhostBuckets: false, configureBuckets: [{ name: 'test' }] });
const answer = store.callback();
const MINUTE = 60000;

const hmac = (key, text) => createHmac('sha256', key).update(text).digest();
function sign(secret, date, region, canonical) {
    const scope = [date.slice(0, 8), region, 's3', 'aws4_request'];
    const text = ['AWS4-HMAC-SHA256', date, scope.join('/'), createHash('sha256').update(canonical).digest('hex')].join('\n');
    return hmac(scope.reduce(hmac, `AWS4${secret}`), text).toString('hex');
}

// The example that AWS publishes for a GET.
const empty = createHash('sha256').digest('hex');
const example = ['GET', '/test.txt', '', 'host:examplebucket.s3.amazonaws.com', 'range:bytes=0-9', `x-amz-content-sha256:${empty}`,
    'x-amz-date:20130524T000000Z', '', 'host;range;x-amz-content-sha256;x-amz-date', empty].join('\n');
if (sign('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', '20130524T000000Z', 'us-east-1', example) !==
    'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41') throw new Error('the signature of the example is wrong');

const encode = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

// The name of the error; undefined: the request may pass.
function refusal(request) {
    const { headers, method, url } = request;
    const parts = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/
        .exec(headers.authorization ?? '');
    if (!parts) return 'AccessDenied';
    const [, id, day, region, names, signature] = parts;
    const date = headers['x-amz-date'] ?? '';
    const [, y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(date) ?? [];
    if (!date.startsWith(day) || !(Math.abs(Date.UTC(y, mo - 1, d, h, mi, s) - Date.now()) < 15 * MINUTE)) return 'RequestTimeTooSkewed';
    if (id !== ACCESS_ID) return 'InvalidAccessKeyId';
    // Everything that says what is asked for must be signed.
    const must = ['host', ...Object.keys(headers).filter((name) => name.startsWith('x-amz-'))].sort();
    if (names !== must.join(';')) return 'AccessDenied';
    const path = url.split('/').map((part) => encode(decodeURIComponent(part))).join('/');
    const canonical = [method, path, '', ...must.map((name) => `${name}:${headers[name].trim()}`), '', names, headers['x-amz-content-sha256']].join('\n');
    return sign(SECRET, date, region, canonical) === signature ? undefined : 'SignatureDoesNotMatch';
}

async function check(request) {
    const path = /^\/test\/([^?]+)$/.exec(request.url);
    if (!path) return [400, 'InvalidRequest'];
    const why = refusal(request);
    if (why) return [403, why];
    const once = request.method === 'PUT' && request.headers['if-none-match'] === '*';
    if (once && await store.store.existsObject('test', decodeURIComponent(path[1]))) return [412, 'PreconditionFailed'];
    return undefined;
}

await store.configureBuckets();
const server = createServer(async (request, reply) => {
    const refused = await check(request);
    const { writeHead } = reply;
    reply.writeHead = (status, ...rest) => { // before the client can know
        appendFileSync(join(folder, 'log'), `${request.method} ${request.url} ${status}\n`);
        return writeHead.call(reply, status, ...rest);
    };
    if (!refused) return answer(request, reply);
    const body = `<Error><Code>${refused[1]}</Code></Error>`;
    request.resume().on('end', () => reply.writeHead(refused[0], { 'content-length': body.length }).end(request.method === 'HEAD' ? '' : body));
});
server.listen(0, '127.0.0.1', () => {
    writeFileSync(`${portFile}.new`, String(server.address().port));
    renameSync(`${portFile}.new`, portFile);
});
