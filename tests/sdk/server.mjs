/* server.mjs: a hearth of our own for the tests of this folder: started on a free port, ended with the process. */
import { spawn } from 'node:child_process';

const hearth = process.env.HEARTH;

export async function startServer(model, args = []) {
    const child = spawn(hearth, ['serve', model, '--port', '0', '-t', '1', '-c', '4096', '-np', '4', '--ram-cache', '64MiB',
        '--ssd-dir', 'none', '--state-dir', 'state', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '', err = '';
    child.stderr.on('data', (data) => (err += data));
    process.on('exit', () => child.kill('SIGKILL'));
    const port = await new Promise((resolve, reject) => {
        child.stdout.on('data', (data) => {
            said += data;
            const found = said.match(/OpenAI +http:\/\/127\.0\.0\.1:(\d+)\/v1/);
            if (found) resolve(Number(found[1]));
        });
        child.on('exit', (code) => reject(new Error(`the server ended with ${code}: ${err}`)));
    });
    const stop = () => new Promise((resolve) => {
        child.removeAllListeners('exit');
        child.on('exit', (code) => resolve(code));
        child.kill('SIGTERM');
    });
    return { port, url: `http://127.0.0.1:${port}`, stop, log: () => err };
}
